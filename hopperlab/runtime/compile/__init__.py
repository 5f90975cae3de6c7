# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ in, PTX and cubin out: NVRTC, its headers and cache, what ptxas says, and signatures read from PTX."""
