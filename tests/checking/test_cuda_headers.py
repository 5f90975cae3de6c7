# SPDX-License-Identifier: Apache-2.0
"""Which headers a CUDA answer may include: the course's and some of CUDA's, and none of what those keep for themselves."""
import pytest

from hopperlab.checking import cuda_text


@pytest.mark.parametrize("header", ["hopperlab/tma.cuh", "cuda/ptx", "cuda/barrier", "cuda/pipeline", "cuda/atomic", "cuda/std/cstdint", "cuda/std/type_traits",
                                    "cuda_bf16.h", "cuda_runtime.h", "cooperative_groups.h", "mma.h"])
def test_headers_that_are_taken(header):
    cuda_text.check(f"#include <{header}>\n__device__ int f() {{ return 1; }}\n")


@pytest.mark.parametrize("header", ["<cuda/std/../../../../etc/passwd>", "<cuda/std/__cccl/x>", "<stdio.h>", '"cuda/ptx"', "<cuda/ptx.h>", "<thrust/sort.h>",
                                    "</etc/passwd>"])
def test_headers_that_are_not(header):
    with pytest.raises(cuda_text.NotTaken, match=r"only the course's own headers, <hopperlab/….cuh>, and some of CUDA and C\+\+, such as <cuda/ptx>"):
        cuda_text.check(f"#include {header}\n")


@pytest.mark.parametrize("text", ["_CCCL_PRAGMA(once)", "#if _CCCL_HAS_INCLUDE(<x>)\n#endif", "#define JOIN(a, b) a##b\nJOIN(_CC, CL_PRAGMA)(once)",
                                  "_LIBCUDACXX_INLINE int x;"])
def test_macros_of_these_headers_are_not_taken(text):
    with pytest.raises(cuda_text.NotTaken, match="belongs to the headers' own workings|a macro makes _CCCL_PRAGMA"):
        cuda_text.check(f"#include <cuda/ptx>\n{text}\n")
