# SPDX-License-Identifier: Apache-2.0
"""`hl.from_triton`: kernels of Triton and Gluon, compiled for Hopper by Triton itself, without a GPU, and launched like any other."""
