"""Shared by the instruction families: access types, address spaces, and looking an address up."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..isa import UnsupportedInstruction
from ..machine_constants import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW

WIDTH = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4,
         "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
VALUE = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "f16": "u16", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32"}
SPACES = ("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry", "param::func")


@dataclass
class Access:
    """A decoded load or store: value type, bytes an element, vector length, space ('generic' when unnamed); narrow: of CTA scope."""

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

    @property
    def nbytes(self) -> int:
        """Bytes a lane moves."""
        return self.width * self.count


def unsupported(instr, why: str = "this form is not implemented") -> UnsupportedInstruction:
    """The error for an instruction or modifier the emulator does not execute."""
    return UnsupportedInstruction(instr.opcode, instr.ptx_line, why)


def no_sm_90a(instr, what: str, where: str) -> UnsupportedInstruction:
    """The error for what Hopper does not have: `where` names the architecture that has it."""
    return unsupported(instr, f"{what}: {where} has it, Hopper (sm_90a) does not")


def accumulators(instr, operand, dtype: str) -> None:
    """Registers of another type than an accumulator's are refused, as ptxas does; those of .b32 hold anything."""
    fitting = {"s32": ("b32", "s32", "u32"), "f32": ("b32", "f32"), "f16": ("b32", "f16x2")}.get(dtype)
    for item in getattr(operand, "items", ()):
        if fitting and getattr(item, "type", fitting[0]) not in fitting:
            raise unsupported(instr, f"an accumulator of .{dtype} lies in registers of .{' or .'.join(fitting)}, not of .{item.type}")


def window(address) -> int:
    """The window bits of a generic address."""
    return int(address) >> 40


SHARED_TAG, LOCAL_TAG, PARAM_TAG = (w >> 40 for w in (SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW))


def flat_shared(M, C, address, nbytes: int, index: int, cluster: bool = False) -> np.ndarray:
    """Byte positions in M.smem of per-lane shared addresses; faults when outside or misaligned.

    cluster: a shared::cluster or generic address, whose bits 24 and up name the CTA by its rank.
    """
    address = M.lanes(C, address).astype(np.int64)
    offset = address & 0xFFFFFF
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
    if nbytes > 1 and (offset & (nbytes - 1)).any():
        lane = int(np.flatnonzero(offset & (nbytes - 1))[0])
        raise M.fault(C, index, lane, f"shared address {int(offset[lane]):#x} is not a multiple of {nbytes}",
                      "misaligned", int(offset[lane]))
    if M.cluster == 1 and not (int(address.max()) >> 24) & 0xFF:
        return M.shared_base(C) + offset
    return M.target_slot(C, address, cluster, index) * M.stride + offset


def find_global(M, C, address: np.ndarray, nbytes: int, index: int) -> list:
    """[(allocation, lanes or None for all, byte offsets)] of per-lane global addresses; faults name the array."""
    low, high = int(address.min()), int(address.max())
    allocation = M.memory.find(low)
    if allocation is not None and high + nbytes <= allocation.end:
        parts = [(allocation, None, (address - np.uint64(allocation.address)).astype(np.int64))]
    else:
        parts = _find_many(M, C, address, nbytes, index)
    if nbytes > 1 and (address & np.uint64(nbytes - 1)).any():
        lane = int(np.flatnonzero(address & np.uint64(nbytes - 1))[0])
        value = int(address[lane])
        raise M.fault(C, index, lane, f"address {value:#x} is not a multiple of {nbytes} ({M.memory.find(value).name} starts "
                      f"at {M.memory.find(value).address:#x})", "misaligned", value)
    return parts


def _find_many(M, C, address: np.ndarray, nbytes: int, index: int) -> list:
    parts, left = [], np.ones(len(address), bool)
    while left.any():
        lane = int(np.argmax(left))
        value = int(address[lane])
        allocation = M.memory.find(value)
        if allocation is None or value + nbytes > allocation.end:
            where = M.memory.nearest(value)
            if allocation is not None:
                where = f"it starts {value - allocation.address} bytes into {allocation.name}, which ends {allocation.end - value} bytes later"
            raise M.fault(C, index, lane, f"{nbytes} bytes at global address {value:#x}: {where}", "out-of-bounds", value)
        here = left & (address >= np.uint64(allocation.address)) & (address + np.uint64(nbytes) <= np.uint64(allocation.end))
        where = np.flatnonzero(here)
        parts.append((allocation, where, (address[where] - np.uint64(allocation.address)).astype(np.int64)))
        left &= ~here
    return parts
