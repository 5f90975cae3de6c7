"""The SIMD video instructions on two 16-bit or four 8-bit lanes: vadd, vsub, vavrg, vabsdiff, vmin, vmax, vset with the
suffix 2 or 4 (PTX ISA 9.7.16). The __v… intrinsics of CUDA use some. Lane selectors and masks are not supported.
"""

from __future__ import annotations

import numpy as np

from ..ptx import ir
from .op import AluOp, Modifiers

_LANES = {("2", "u32"): np.uint16, ("2", "s32"): np.int16, ("4", "u32"): np.uint8, ("4", "s32"): np.int8}
_COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
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


def video(instr: ir.Instr) -> AluOp:
    """vop2/vop4.dtype.atype.btype{.sat} d, a, b, c: every lane of d is a result (c fills lanes that a mask leaves out);
    with .add d is c plus the sum of all lanes. vset2/vset4.atype.btype.cmp{.add}: lanes are 1 or 0."""
    mods = Modifiers(instr)
    name, count = instr.op[:-1], instr.op[-1]
    total, sat = mods.flag("add"), mods.flag("sat")
    compare = mods.require(_COMPARE) if name == "vset" else None
    b_lane = _LANES[count, mods.type(("u32", "s32"))]
    a_lane = _LANES[count, mods.type(("u32", "s32"))]
    kind = "u32" if compare else mods.type(("u32", "s32"))
    mods.finish()
    if sat and (total or compare):
        raise mods.fail(".sat does not go with .add or vset")
    lane = _LANES[count, kind]
    low, high = int(np.iinfo(lane).min), int(np.iinfo(lane).max)
    operation = _COMPARE[compare] if compare else _OPERATIONS[name]

    def fn(a, b, c):
        lanes = operation(_split(a, a_lane), _split(b, b_lane)).astype(np.int64)
        if total:
            return (lanes.sum(axis=-1) + c).astype(np.uint32)
        if sat:
            lanes = np.minimum(np.maximum(lanes, low), high)
        return lanes.astype(lane).view(np.uint32)[..., 0]

    return AluOp(fn, ("u32",) * 3, ("u32",))


FAMILIES = {f"{name}{count}": video for name in (*_OPERATIONS, "vset") for count in "24"}
