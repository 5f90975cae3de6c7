# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of hopperlab itself; run them as modules (`python -m benchmarks.emulator`). None of them is a test."""
