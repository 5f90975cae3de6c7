# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ to PTX by clang, for machines that have no NVRTC (macOS): clang of the `ziglang` wheel, and small headers of our own in include/."""
