# SPDX-License-Identifier: Apache-2.0
"""Compile once, run in one of two places.

NVRTC makes PTX and cubin (`compile`, which keeps them on disk); a kernel then runs on a Hopper GPU through CuPy (`gpu`) or in the
emulator (`emulated`), with CuPy's calling convention (`module`) and the same checks before launch (`arguments`).
"""
