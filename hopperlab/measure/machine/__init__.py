# SPDX-License-Identifier: Apache-2.0
"""The machine a measurement ran on: board, clocks, timing, and the peers beside our kernels."""
