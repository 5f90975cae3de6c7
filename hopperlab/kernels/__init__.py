# SPDX-License-Identifier: Apache-2.0
"""The course's CUDA sources, by family (gemm/, copy/, micro/, start_here/), and include/hopperlab/*.cuh, one thin wrapper a
PTX instruction. There is no Python here: `hopperlab.load_kernel` and `hopperlab.kernel_source` read the files."""
