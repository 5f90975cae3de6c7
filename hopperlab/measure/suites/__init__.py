# SPDX-License-Identifier: Apache-2.0
"""What is measured, and how a run becomes a recording."""
