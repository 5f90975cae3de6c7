# SPDX-License-Identifier: Apache-2.0
"""Malformed PTX: mutants of real kernels and of every form of the coverage table, and what the emulator says of them."""
