# SPDX-License-Identifier: Apache-2.0
"""Launches in a process of their own, with a time limit."""
