# SPDX-License-Identifier: Apache-2.0
"""Instructions that change tensor maps: tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.9.26, 9.7.13.16)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...hopper import tensormap
from ...hopper.tensormap import TensorMapError
from ..ptx.ir import Imm
from ..compile.translated import MachineOp
from .common import SHARED_TAG, find_writable, flat_shared, no_sm_90a, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

BYTES = tensormap.IMAGE_BYTES
INDEXED = ("box_dim", "global_dim", "global_stride", "element_stride")
CODED = ("elemtype", "interleave_layout", "swizzle_mode", "fill_mode")
LAST_CODE = {"elemtype": 12, "interleave_layout": 2, "swizzle_mode": 3, "fill_mode": 1}        # on sm_90a
NEWER_CODES = {("elemtype", 13): "sm_100a", ("elemtype", 14): "sm_100a", ("elemtype", 15): "sm_100a", ("swizzle_mode", 4): "sm_103a"}
LAST_ORDINAL = 4
COPY = ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release")


@dataclass
class Info:
    """A decoded tensormap.replace: the field, its ordinal (None without one) and the space of the address."""

    index: int
    field: str
    ordinal: int | None
    space: str


def _tensormap(instr, function) -> MachineOp:
    if instr.mods[0] == "cp_fenceproxy":
        return _copy(instr)
    mods, ops = instr.mods, instr.operands
    field = mods[2] if len(mods) > 2 else ""
    if mods[:2] == ("replace", "tile") and field == "swizzle_atomicity":
        raise no_sm_90a(instr, "swizzle atomicity", "sm_100a")
    if mods[:2] != ("replace", "tile") or field not in tensormap.REPLACE_BITS:
        raise unsupported(instr, "there is no such field")
    space = mods[3] if mods[3:] and mods[3] in ("global", "shared::cta") else "generic"
    bits = tensormap.REPLACE_BITS[field]
    if mods[-2:] != ("b1024", f"b{bits}") or len(mods) != (5 if space == "generic" else 6):
        raise unsupported(instr, f"the form is tensormap.replace.tile.{field}{{.global, .shared::cta}}.b1024.b{bits}")
    if len(ops) != (3 if field in INDEXED else 2):
        raise unsupported(instr, f"{field} takes {'an ordinal and ' if field in INDEXED else ''}a new value")
    if field in INDEXED and type(ops[1]) is not Imm or field in CODED and type(ops[-1]) is not Imm:
        raise unsupported(instr, "ordinals and codes are immediates")
    _check_immediates(instr, field)
    info = Info(instr.index, field, ops[1].value if field in INDEXED else None, space)
    return MachineOp(replace, info, ((ops[0], None), (ops[-1], f"u{bits}")))


def _check_immediates(instr, field: str) -> None:
    """Codes and ordinals in the range that ptxas allows."""
    value = instr.operands[1].value if field in INDEXED or field in CODED else 0
    if (field, value) in NEWER_CODES:
        raise no_sm_90a(instr, f"{field} {value}", NEWER_CODES[field, value])
    last = LAST_ORDINAL if field in INDEXED else LAST_CODE.get(field, value)
    if not 0 <= value <= last:
        raise unsupported(instr, f"{'the ordinal' if field in INDEXED else 'the code'} of {field} is 0 to {last}")


def _images(M, C, info: Info, address: np.ndarray):
    """Per lane: (a function that reads the 128 bytes there, one that writes them). Says that they are written."""
    if info.space == "shared::cta" or info.space == "generic" and int(address[0]) >> 40 == SHARED_TAG:
        flat = flat_shared(M, C, address, BYTES, info.index, info.space == "generic")
        M.tell.image_written(C, C.gids, flat, info.index)
        return [M.smem[place:place + BYTES] for place in flat.tolist()]
    found: list = [None] * C.n
    parts = find_writable(M, C, address, BYTES, info.index)
    M.tell.region_written(C, parts, BYTES, info.index)
    for allocation, where, offset in parts:
        lanes = np.arange(C.n) if where is None else where
        for lane, place in zip(lanes.tolist(), offset.tolist()):
            found[lane] = allocation.view(1)[place:place + BYTES]
    return found


def replace(M: Machine, C: Cohort, info: Info, address: Value, value: Value) -> None:
    """tensormap.replace: each lane changes one field of the map at its address."""
    address, value = M.lanes(C, address), M.lanes(C, value)
    M.progress += 1
    for lane, image in enumerate(_images(M, C, info, address)):
        try:
            changed = tensormap.replace(image.tobytes(), info.field, info.ordinal, int(value[lane]))
        except TensorMapError as error:
            raise M.fault(C, info.index, lane, str(error), "illegal-descriptor", int(address[lane])) from None
        image[:] = np.frombuffer(changed, np.uint8)


def _copy(instr) -> MachineOp:
    mods, ops = instr.mods, instr.operands
    if mods[:5] != COPY or mods[5:6] not in (("cta",), ("cluster",), ("gpu",), ("sys",)) or mods[6:] != ("sync", "aligned"):
        raise unsupported(instr, "the form is tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.SCOPE.sync.aligned")
    if type(ops[2]) is not Imm or ops[2].value != BYTES:
        raise unsupported(instr, f"the size is {BYTES}")
    return MachineOp(copy, instr.index, ((ops[0], None), (ops[1], None)), collective=True)


def copy(M: Machine, C: Cohort, index: int, target: Value, source: Value) -> None:
    """tensormap.cp_fenceproxy: a warp copies one map from shared to global memory and publishes it to the tensormap proxy."""
    M.tell.warp_synced(C)
    M.progress += 1
    _, first = np.unique(C.gids >> 5, return_index=True)
    one = type(C)(C.gids[first], None, C.pc)
    flat = flat_shared(M, one, M.lanes(C, source)[first], BYTES, index)
    M.tell.image_read(C, one.gids, flat, index)
    to = _images(M, one, Info(index, "", None, "global"), M.lanes(C, target)[first])
    for image, place in zip(to, flat.tolist()):
        image[:] = M.smem[place:place + BYTES]


RESOLVERS = {"tensormap": _tensormap}
