# SPDX-License-Identifier: Apache-2.0
"""Where the sentence of a claim stands, by article and section, for those that we have read there; and which specification says what an instruction promises.

A claim that is in neither table was looked for in public articles and not found: its sentence is from the course's own list of what is told.
"""
from __future__ import annotations

from collections.abc import Mapping

TMA_BLOG = 'A. Hoque, L. Wright, C.-C. Yang: "Deep Dive on the Hopper TMA Unit for FP8 GEMMs", PyTorch blog, 2024'
PINGPONG = ('L. Wright, A. Hoque: "Deep Dive on CUTLASS Ping-Pong GEMM Kernel", PyTorch blog, 2024, section "Data Movement with Producers and Tensor Memory '
            'Accelerator"')
MATMUL = 'A. Gordić: "Inside NVIDIA GPUs: Anatomy of high performance matmul kernels", 2025'
BOOK = 'C. Fregly: "AI Systems Performance Engineering", O\'Reilly, 2025'
CUTLASS = "NVIDIA: CUTLASS documentation"
GEMM_SERIES = 'zartbot: "Tensor-103.2: Hopper GEMM", 2025 (in Chinese)'
CHAT = 'a chat log on GitHub: "Optimising the asynchronous pipeline of Hopper GPUs" (in Chinese)'      # Hopper架构GPU异步流水线优化

SAID: Mapping[int, str] = {
    1: f'{TMA_BLOG}, section "TMA Background"',
    3: f"{PINGPONG}, which has threads freed from computing addresses",
    4: f'{TMA_BLOG}, section "TMA Background" (the half on TMA)',
    5: f"{PINGPONG}, which says it of TMA without naming a direction",
    6: 'Tracel: cubek documentation, cubek_std::launch::tma, section "Functions", transpose_inner_for_tma (the half on transposes: the map alone sees one)',
    8: f"{GEMM_SERIES}, section 2.2.3 (the half on addresses)",
    9: 'NVIDIA: CUDA C++ Programming Guide, section "Using TMA to transfer multi-dimensional arrays" (the half on coordinates)',
    13: f"{GEMM_SERIES}, sections 2.2.1 and 2.2.2, after NVIDIA's patent",
    14: f"{GEMM_SERIES}, section 2.2.1, after NVIDIA's patent",
    15: f'{BOOK}, chapter 10, section "Reducing Global Memory Traffic with Thread Block Clusters"',
    16: f"{CHAT}, section on the steps, 2",
    17: f"{CHAT}, section on concepts, 2",
    18: 'liujunming.top: "Notes about NVIDIA TMA(Tensor Memory Access)", 2025 (in Chinese), section "Overview", which speaks of a survey and names none',
    19: f'{MATMUL}, section "Swizzling", of rows and columns alike',
    20: f'{BOOK}, chapter 7, section on bank conflicts, which has either free of them and padding simpler',
    22: f'{BOOK}, chapter 10, section "Warp Specialization and the Producer-Consumer Model", of the barriers between roles',
    23: f"{CHAT}, section on key points, 4",
    25: f'{CUTLASS}, "Warp-Level MMA Instructions Programming Guide" and "Warpgroup MMA Programming Guide", section on key characteristics, which calls the one '
        'synchronous and the other asynchronous',
    26: f'{MATMUL}, section "Tensor Cores", which has larger N faster',
    27: f"{CHAT}, section on key points, 2",
    28: f"{CHAT}, sections on concepts, 1, and on key points, 3",
    29: f"{CHAT}, section on concepts, 1",
    30: f"{CHAT}, section on the steps, whose listing it is",
    31: f"{CHAT}, section on the steps, 6, whose listing does so",
    32: f'{CUTLASS}, "Efficient GEMM in CUDA", section "Pipelining"',
    33: 'W. Luo et al.: "Dissecting the NVIDIA Hopper Architecture through Microbenchmarking and Multiple Level Analysis", arXiv 2501.12084, 2025, section '
        '"Abstract" (the half on TMA, 1.5 times)',
    34: f"{CHAT}, section on the steps, whose listing does so (the half on the pipeline)",
    35: f'{BOOK}, chapter 10, section "Key Takeaways", which adds a third stage where two leave warps idle',
    36: f"{CHAT}, section on key points, 6",
    37: f'{BOOK}, chapter 10, section "Using CUDA Pipeline API for Warp Specialization" (1.1 times double buffering); NVIDIA: Tilus documentation, "Hopper Matmul", '
        'section "Warp Specialization"',
    38: f'{CUTLASS}, "Efficient GEMM in CUDA", section "Warp Specialization", says it of CUTLASS: the library does so from Hopper on',
    39: 'MLC: "Modern GPU Programming for MLSys", chapter "Async Coordination: mbarriers", opening section, whose producer arrives when its work is done',
    40: f"{PINGPONG} (40 and, with two consumers, 232)",
    41: f'{BOOK}, chapter 10, section "Reducing Global Memory Traffic with Thread Block Clusters" (the half on speed)',
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
    43: "J. Shah et al.: FlashAttention-3, 2024, section 3.3 (how V is transposed for fp8)",
}
"""Number of a claim -> the specification that decides what is promised."""


NOT_FOUND = "from the course's own list: no article was found that says it"


def source_of(number: int) -> str:
    """A line on where a claim stands and what it is held against, or that neither was found."""
    found = [f"{how} {table[number]}" for how, table in (("said in", SAID), ("held against", SPECIFIED)) if number in table]
    return "; ".join(found) or NOT_FOUND
