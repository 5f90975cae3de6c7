# SPDX-License-Identifier: Apache-2.0
"""What to do about an error of NVRTC that nvcc does not make, or whose words do not say where the missing thing is."""
from __future__ import annotations

import re

from . import host_words

_TORCH = re.compile(r"^\s.*\b(?:at|torch|c10)\s*::|name(?:space)? \"(?:at|torch|c10)\"|identifier \"(?:at|torch|c10)\"", re.MULTILINE)
_CXX20 = re.compile(r'identifier "(?:concept|requires|consteval|constinit)" is undefined|feature is enabled.* C\+\+20')
_TORCH_IS_EMPTY = ("\n-> PyTorch's headers are the host's, and empty here, so at::, c10:: and torch:: have nothing. In device code write CUDA's own types (__half for "
                   "at::Half, __nv_bfloat16 for at::BFloat16), or put a small ATen/ATen.h with what the kernels use into a folder of yours: options=(\"-IFOLDER\",)")
_TWO_SORTS = ("\n-> nvcc takes such a pair of members, NVRTC does not: make both static, or neither. ThunderKittens leaves its own out with -DKITTENS_NO_HOST")
_HOST_CODE = ('\n-> What a kernel calls needs __device__ before it. Host code is not compiled by NVRTC: give the file, RawModule(path="FILE.cu") or '
              "`hopperlab sanitize FILE.cu`, which leaves host code out, or put host code between #ifndef __CUDACC_RTC__ and #endif")


def advice(log: str, cuda_major: int = 13) -> str:
    """A last paragraph for a log, or ''."""
    if found := re.search(r'cannot open source file "([^"]+)"', log):
        return _missing(found[1], cuda_major)
    if _CXX20.search(log):
        return '\n-> That is C++20, and C++17 is what is compiled where nothing else is said, as by nvcc: options=("-std=c++20",)'
    if _TORCH.search(log):
        return _TORCH_IS_EMPTY
    if "static and nonstatic member functions with same parameter types" in log:
        return _TWO_SORTS
    if "not allowed in JIT mode" in log:
        if "not allowed in JIT mode" not in next((line for line in log.splitlines() if " error: " in line or ": error" in line), log) and "std::" not in log:
            return "\n-> Begin with the first error: what is said of host code below it follows from it."
        return _HOST_CODE
    return ""


def _missing(header: str, cuda_major: int) -> str:
    """Where a header is to be had."""
    if re.match(r"curand\w*\.h", header):
        wheel = "nvidia-curand" + ("-cu12" if cuda_major == 12 else "")
        return f"\n-> {header} comes with cuRAND, which is a wheel of its own: python -m pip install {wheel}. It is found by itself then"
    if host_words.of_the_host(header):
        return f'\n-> {header} is of a host library. Give the file, RawModule(path="FILE.cu") or `hopperlab sanitize FILE.cu`: host code and its headers are left out'
    return f"\n-> {header} is in none of the folders: name its folder, options=(\"-IFOLDER\",), or -I FOLDER on the command line"
