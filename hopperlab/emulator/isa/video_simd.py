# SPDX-License-Identifier: Apache-2.0
"""The SIMD video instructions on two 16-bit or four 8-bit lanes: vadd, vsub, vavrg, vabsdiff, vmin, vmax, vset with the
suffix 2 or 4 (PTX ISA 9.7.16.2). The __v… intrinsics of CUDA use some. Selectors and masks come as modifiers ('a.h10').
"""

from __future__ import annotations

import numpy as np

from ..ptx import ir
from .op import AluOp, Modifiers
from .video import COMPARE, selector

_LANES = {("2", "u32"): np.uint16, ("2", "s32"): np.int16, ("4", "u32"): np.uint8, ("4", "s32"): np.int8}
_OPERATIONS = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: a + b + (a + b >= 0) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


def _split(x, lane) -> np.ndarray:
    """uint32 of shape s as lanes of shape s + (count,), widened to int64."""
    return np.asarray(x)[..., None].view(lane).astype(np.int64)


def _picks(mods: Modifiers, place: str, count: int) -> list[int] | None:
    """Which lanes of b:a (a's first) each lane takes, lowest first; None as in '.h10' of a and '.h32' of b."""
    written = selector(mods, place)
    if written is None:
        return None
    picks = [int(digit) for digit in reversed(written[1:])]
    if written[0] != "bh"[count == 2] or len(picks) != count or max(picks) >= 2 * count:
        raise mods.fail(f"there is no selector .{written}")
    return picks


def _mask(mods: Modifiers, count: int) -> np.ndarray:
    """The lanes of d that are written."""
    written = selector(mods, "d")
    if written is not None and (written[0] != "bh"[count == 2] or any(int(digit) >= count for digit in written[1:])):
        raise mods.fail(f"there is no mask .{written}")
    return np.array([written is None or str(lane) in written[1:] for lane in range(count)])


def video(instr: ir.Instr) -> AluOp:
    """vop2/vop4.dtype.atype.btype{.sat} d{.mask}, a{.asel}, b{.bsel}, c: lanes of d are results, those that the mask leaves out c's;
    with .add d is c plus the sum of the masked lanes. vset2/vset4.atype.btype.cmp{.add}: lanes are 1 or 0."""
    mods = Modifiers(instr)
    name, count = instr.op[:-1], instr.op[-1]
    lanes = int(count)
    mask, picks = _mask(mods, lanes), [_picks(mods, place, lanes) for place in "ab"]
    total, sat = mods.flag("add"), mods.flag("sat")
    compare = mods.require(COMPARE) if name == "vset" else None
    b_lane = _LANES[count, mods.type(("u32", "s32"))]
    a_lane = _LANES[count, mods.type(("u32", "s32"))]
    kind = "u32" if compare else mods.type(("u32", "s32"))
    mods.finish()
    if sat and (total or compare):
        raise mods.fail(".sat does not go with .add or vset")
    lane = _LANES[count, kind]
    low, high = int(np.iinfo(lane).min), int(np.iinfo(lane).max)
    operation = COMPARE[compare] if compare else _OPERATIONS[name]

    def taken(a, b, own, dtype, pick):
        if pick is None:
            return _split(own, dtype)
        return np.stack(np.broadcast_arrays(*(_split((a, b)[k // lanes], dtype)[..., k % lanes] for k in pick)), axis=-1)

    def fn(a, b, c):
        result = operation(taken(a, b, a, a_lane, picks[0]), taken(a, b, b, b_lane, picks[1])).astype(np.int64)
        if total:
            return ((result * mask).sum(axis=-1) + c).astype(np.uint32)
        if sat:
            result = np.minimum(np.maximum(result, low), high)
        if not mask.all():
            result = np.where(mask, result, _split(c, lane))
        return np.ascontiguousarray(result.astype(lane)).view(np.uint32)[..., 0]

    return AluOp(fn, ("u32",) * 3, ("u32",))


FAMILIES = {f"{name}{count}": video for name in (*_OPERATIONS, "vset") for count in "24"}
