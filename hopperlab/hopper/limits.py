# SPDX-License-Identifier: Apache-2.0
"""Numbers of the H200, and how many CTAs of a kernel fit on one of its multiprocessors.

Source unless said otherwise: CUDA Programming Guide, technical specifications of compute capability 9.0.
"""

from __future__ import annotations

from typing import NamedTuple

SMS = 132
"""Multiprocessors of an H200 (and of an H100 SXM)."""
WARP_THREADS = 32
WARPGROUP_THREADS = 128
MAX_THREADS_PER_BLOCK = 1024
MAX_THREADS_PER_SM = 2048
MAX_WARPS_PER_SM = 64
MAX_BLOCKS_PER_SM = 32
MAX_BLOCK_DIM = (1024, 1024, 64)
MAX_GRID_DIM = (2**31 - 1, 65535, 65535)
REGISTERS_PER_SM = 65536
MAX_REGISTERS_PER_THREAD = 255
REGISTER_UNIT = 256
"""Registers are given to a warp in steps of 256 (8 a thread)."""
SUBPARTITIONS = 4
"""Warp schedulers a multiprocessor; each has a quarter of the registers, and warps come in fours."""
SHARED_PER_SM = 228 * 1024
SHARED_PER_BLOCK = 227 * 1024
"""Most shared memory, static and dynamic together, that one block can have (over 48 KiB by opting in)."""
SHARED_RESERVED = 1024
"""Shared memory the system takes for each block; with no static variables dynamic memory starts behind it, at 0x400."""
SHARED_UNIT = 128
SHARED_DEFAULT = 48 * 1024
"""Most dynamic shared memory a kernel gets without opting in (cudaFuncAttributeMaxDynamicSharedMemorySize)."""
MAX_CLUSTER_PORTABLE = 8
MAX_CLUSTER = 16
"""Blocks in a cluster by opting in to a non-portable size."""
NAMED_BARRIERS = 16
SETMAXNREG_RANGE = (24, 256)
"""setmaxnreg takes multiples of 8 in this range (PTX ISA 9.7.19.5)."""
BANKS = 32
BANK_BYTES = 4


class Occupancy(NamedTuple):
    """Blocks and warps resident on one multiprocessor, the fraction of its 64 warps, and what runs out first."""

    blocks: int
    warps: int
    fraction: float
    limited_by: str


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def registers_per_warp(registers: int) -> int:
    """Registers one warp is given for `registers` a thread: 32 times that, rounded up to 256."""
    return _up(max(1, registers) * WARP_THREADS, REGISTER_UNIT)


def shares(threads: int, regs: int, smem_bytes: int) -> dict[str, tuple[int, int]]:
    """Of each resource of a multiprocessor: how much a block takes, and how much there is. Arguments as in `occupancy`.

    Registers are counted in warps, by fours: those that a quarter's registers hold are what there is.
    """
    warps = _up(threads, WARP_THREADS) // WARP_THREADS
    return {
        "threads": (warps, MAX_WARPS_PER_SM),
        "blocks": (1, MAX_BLOCKS_PER_SM),
        "registers": (_up(warps, SUBPARTITIONS), REGISTERS_PER_SM // SUBPARTITIONS // registers_per_warp(regs) * SUBPARTITIONS),
        "shared memory": (_up(smem_bytes + SHARED_RESERVED, SHARED_UNIT), SHARED_PER_SM),
    }


def occupancy(threads: int, regs: int, smem_bytes: int) -> Occupancy:
    """How many blocks of `threads` threads with `regs` registers per thread and `smem_bytes` of shared memory fit on an SM.

    smem_bytes is static plus dynamic shared memory a block; the 1 KiB the system reserves is added here. limited_by is
    "threads", "blocks", "registers" or "shared memory". Raises ValueError for a block no SM can hold.
    Source: CUDA Occupancy Calculator's rules for compute capability 9.0.
    """
    if not 1 <= threads <= MAX_THREADS_PER_BLOCK:
        raise ValueError(f"{threads} threads in a block: 1 to {MAX_THREADS_PER_BLOCK} are possible")
    if not 0 <= regs <= MAX_REGISTERS_PER_THREAD:
        raise ValueError(f"{regs} registers per thread: 0 to {MAX_REGISTERS_PER_THREAD} are possible")
    if not 0 <= smem_bytes <= SHARED_PER_BLOCK:
        raise ValueError(f"{smem_bytes} bytes of shared memory in a block: 0 to {SHARED_PER_BLOCK} are possible")
    warps = _up(threads, WARP_THREADS) // WARP_THREADS
    limits = {name: there // taken for name, (taken, there) in shares(threads, regs, smem_bytes).items()}
    limited_by = min(limits, key=limits.__getitem__)
    blocks = limits[limited_by]
    if blocks == 0:
        raise ValueError(
            f"{threads} threads with {regs} registers each need more than the {REGISTERS_PER_SM} registers of a multiprocessor"
        )
    return Occupancy(blocks, blocks * warps, blocks * warps / MAX_WARPS_PER_SM, limited_by)


def resident_blocks(threads: int, regs: int, smem_bytes: int) -> int:
    """Blocks of such a kernel resident on the whole H200 at once: occupancy times 132. Raises as `occupancy` does."""
    return occupancy(threads, regs, smem_bytes).blocks * SMS


def setmaxnreg_fits(entry_registers: int, per_warpgroup: tuple[int, ...]) -> bool:
    """Whether setmaxnreg can give the warpgroups of one block these registers per thread.

    The rule is the sum: at most entry_registers times the number of warpgroups, with no slack (measured on an H200:
    with 168 at entry 24/240/240 runs and 32/240/240 hangs). Raises ValueError for a count setmaxnreg does not take.
    """
    low, high = SETMAXNREG_RANGE
    for count in per_warpgroup:
        if count % 8 or not low <= count <= high:
            raise ValueError(f"setmaxnreg {count}: it takes multiples of 8 from {low} to {high} (PTX ISA 9.7.19.5)")
    return sum(per_warpgroup) <= entry_registers * len(per_warpgroup)
