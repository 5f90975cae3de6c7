# SPDX-License-Identifier: Apache-2.0
"""Shared by the instruction families: access types, address spaces, and looking an address up."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..isa import UnsupportedInstruction
from ..machine import pointers
from ..machine.machine_constants import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine
    from ..ptx.ir import Instr

WIDTH = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
         "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
VALUE = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "f16": "u16", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32"}
SPACES = ("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry", "param::func")


@dataclass
class Access:
    """A decoded load or store: value type, bytes per element, vector length, space ('generic' when unnamed); narrow: of CTA scope; system: of
    system scope, as volatile accesses are."""

    index: int
    type: str
    width: int
    count: int
    space: str
    offset: int = 0
    volatile: bool = False
    symbol: str | None = None
    cluster: bool = False
    constant: bool = False
    release: bool = False
    narrow: bool = False
    system: bool = False
    acquire: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes a lane moves."""
        return self.width * self.count


def unsupported(instr: Instr, why: str = "this form is not implemented") -> UnsupportedInstruction:
    """The error for an instruction or modifier the emulator does not execute."""
    return UnsupportedInstruction(instr.opcode, instr.ptx_line, why)


def no_sm_90a(instr: Instr, what: str, where: str) -> UnsupportedInstruction:
    """The error for what Hopper does not have: `where` names the architecture that has it."""
    return unsupported(instr, f"{what}: {where} has it, Hopper (sm_90a) does not")


def accumulators(instr: Instr, operand: Any, dtype: str) -> None:
    """Registers of another type than an accumulator's are refused, as ptxas does; those of .b32 hold anything."""
    fitting = {"s32": ("b32", "s32", "u32"), "f32": ("b32", "f32"), "f16": ("b32", "f16x2")}.get(dtype)
    for item in getattr(operand, "items", ()):
        if fitting and getattr(item, "type", fitting[0]) not in fitting:
            raise unsupported(instr, f"an accumulator of .{dtype} lies in registers of .{' or .'.join(fitting)}, not of .{item.type}")


def whole_warpgroups(M: Machine, C: Cohort, site: int) -> None:
    """wgmma and setmaxnreg need 32 lanes a warp and four warps per warpgroup; without them nothing sensible can follow."""
    if not C.full32():
        warps, counts = C.warp_counts()
        k = int(np.argmin(counts))
        raise M.fault(C, site, 0, f"a warpgroup instruction needs all 32 lanes of its warps, but warp {int(warps[k]) % M.warps} "
                      f"has only {int(counts[k])} here: the others have ended", "divergent-collective", 0)
    if M.warps % 4 and ((C.gids[::32] >> 5) % M.warps // 4 * 4 + 4 > M.warps).any():
        raise M.fault(C, site, 0, f"a warpgroup is four warps, the first a multiple of four, but the block has {M.warps} warps: launch "
                      "a multiple of 128 threads, or let only whole warpgroups run this", "divergent-collective", 0)


def window(address: Value) -> int:
    """The window bits of a generic address."""
    return int(address) >> 40


SHARED_TAG, LOCAL_TAG, PARAM_TAG = (w >> 40 for w in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW))


def flat_shared(M: Machine, C: Cohort, address: Value, nbytes: int, index: int, cluster: bool = False) -> np.ndarray:
    """Byte positions in M.smem of per-lane shared addresses; faults when outside or misaligned.

    cluster: a shared::cluster or generic address, whose bits 24 and up name the CTA by its rank.
    """
    address = M.lanes(C, address).astype(np.int64)
    offset, bits = address & 0xFFFFFF, int(np.bitwise_or.reduce(address))
    low, high = int(offset.min()), int(offset.max())
    if high + nbytes > M.shared_limit:
        lane = int(np.argmax(offset))
        raise M.fault(C, index, lane, f"{nbytes} bytes at shared address {int(offset[lane]):#x}, but this CTA has "
                      f"{M.shared_limit - 0x400} bytes of shared memory (0x400 to {M.shared_limit:#x})",
                      "out-of-bounds", int(offset[lane]))
    if low < 0x400:
        lane = int(np.argmin(offset))
        raise M.fault(C, index, lane, f"shared address {low:#x} lies in the first KiB, which is the system's",
                      "out-of-bounds", low)
    if bits & nbytes - 1:
        lane = int(np.flatnonzero(offset & (nbytes - 1))[0])
        raise M.fault(C, index, lane, f"shared address {int(offset[lane]):#x} is not a multiple of {nbytes}",
                      "misaligned", int(offset[lane]))
    if M.cluster == 1 and not bits >> 24 & 0xFF:
        return M.shared_base(C) + offset
    return M.target_slot(C, address, cluster, index) * M.stride + offset


def find_global(M: Machine, C: Cohort, address: np.ndarray, nbytes: int, index: int) -> list:
    """[(allocation, lanes or None for all, byte offsets)] of per-lane global addresses; faults name the array."""
    low, high = int(address.min()), int(address.max())
    allocation = M.memory.find(low)
    if allocation is not None and high + nbytes <= allocation.end:
        parts = [(allocation, None, (address - np.uint64(allocation.address)).view(np.int64))]
    else:
        parts = _find_many(M, C, address, nbytes, index)
    if nbytes > 1 and int(np.bitwise_or.reduce(address)) & nbytes - 1:
        lane = int(np.flatnonzero(address & np.uint64(nbytes - 1))[0])
        value = int(address[lane])
        raise M.fault(C, index, lane, f"address {value:#x} is not a multiple of {nbytes} ({M.memory.find(value).name} starts "
                      f"at {M.memory.find(value).address:#x})", "misaligned", value)
    return parts


def find_writable(M: Machine, C: Cohort, address: np.ndarray, nbytes: int, index: int) -> list:
    """find_global for an access that writes: arrays that kernels may not write are a fault."""
    parts = find_global(M, C, address, nbytes, index)
    for allocation, where, _ in parts:
        if not allocation.writable:
            lane = 0 if where is None else int(where[0])
            raise M.fault(C, index, lane, f"{allocation.name} is read-only", "out-of-bounds", int(address[lane]))
    return parts


def _find_many(M, C, address: np.ndarray, nbytes: int, index: int) -> list:
    parts, left = [], np.ones(len(address), bool)
    while left.any():
        lane = int(np.argmax(left))
        value = int(address[lane])
        allocation = M.memory.find(value)
        if allocation is None or value + nbytes > allocation.end:
            where = pointers.nearest(M, index, value)
            if allocation is not None:
                where = f"it starts {value - allocation.address} bytes into {allocation.name}, which ends {allocation.end - value} bytes later"
            raise M.fault(C, index, lane, f"{nbytes} bytes at global address {value:#x}: {where}", "out-of-bounds", value)
        here = left & (address >= np.uint64(allocation.address)) & (address + np.uint64(nbytes) <= np.uint64(allocation.end))
        where = np.flatnonzero(here)
        parts.append((allocation, where, (address[where] - np.uint64(allocation.address)).astype(np.int64)))
        left &= ~here
    return parts
