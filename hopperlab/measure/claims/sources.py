# SPDX-License-Identifier: Apache-2.0
"""Where the sentence of a claim stands, by article and section, for those that we have read there; and which specification says what an instruction promises.

A claim that is in neither table is told in many places and was not found in one that could be cited.
"""
from __future__ import annotations

from collections.abc import Mapping

TMA_BLOG = 'A. Hoque, L. Wright, C.-C. Yang: "Deep Dive on the Hopper TMA Unit for FP8 GEMMs", PyTorch blog, 2024'
CUTLASS = 'NVIDIA: CUTLASS documentation, "Efficient GEMM in CUDA"'

SAID: Mapping[int, str] = {
    1: f'{TMA_BLOG}, section "TMA Background"',
    4: f'{TMA_BLOG}, section "TMA Background" (the half on TMA)',
    32: f'{CUTLASS}, section "Pipelining"',
    38: f'{CUTLASS}, section "Warp Specialization", says it of CUTLASS: the library does so from Hopper on',
    42: f'{TMA_BLOG}, section "Abstract" and figure 1, which has fp8 kernels beside cuBLAS in fp8 and fp16, n = k = 4096',
}
"""Number of a claim -> article and section."""

SPECIFIED: Mapping[int, str] = {
    5: "PTX ISA 9.7.9.25.4.2, 9.7.9.25.5.3 (cp.reduce.async.bulk)",
    7: "CUDA driver API, cuTensorMapEncodeTiled: globalAddress, globalStrides, boxDim",
    8: "CUDA driver API, cuTensorMapEncodeTiled: elementStrides",
    10: "CUDA driver API, cuTensorMapEncodeTiled: elementStrides",
    11: "CUDA driver API, cuTensorMapEncodeTiled: interleave; PTX ISA 5.5.6",
    12: "PTX ISA 9.7.9.25.5.2 (.tile::gather4)",
    16: "PTX ISA 9.7.9.26 (tensormap.replace)",
    17: "PTX ISA 9.7.9.25.6.2 (cp.async.bulk.wait_group)",
    21: "PTX ISA 9.7.13.15.5 (tx-count of an mbarrier)",
    23: "PTX ISA 9.7.13.15.16 (mbarrier.try_wait)",
    24: "PTX ISA 9.7.13.1 (bar), 9.7.13.15 (mbarrier)",
    27: "PTX ISA 9.7.15.5 (operands of wgmma)",
    28: "PTX ISA 9.7.15 (shapes of wgmma)",
    29: "PTX ISA 9.7.15.5 (operands of wgmma)",
    30: "PTX ISA 9.7.15 (types of wgmma)",
    31: "PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
    34: "libcu++ documentation, cuda::memcpy_async, cuda::pipeline",
}
"""Number of a claim -> the specification that decides what is promised."""


def source_of(number: int) -> str:
    """A line on where a claim stands, or what it is held against; empty where neither can be cited."""
    if number in SAID:
        return f"said in {SAID[number]}"
    return f"held against {SPECIFIED[number]}" if number in SPECIFIED else ""
