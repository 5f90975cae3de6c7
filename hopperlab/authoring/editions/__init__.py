# SPDX-License-Identifier: Apache-2.0
"""The course in other languages: translations of its text, cell by cell, and the editions made of them."""
