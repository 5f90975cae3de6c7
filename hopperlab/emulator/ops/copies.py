# SPDX-License-Identifier: Apache-2.0
"""cp.async.bulk.* and cp.reduce.async.bulk.*: which form an instruction is (PTX ISA 9.7.9.25.4, 9.7.9.25.5).

What they do is in copy_loads.py (towards shared memory), copy_stores.py (from it) and cluster_copies.py (between CTAs).
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.ir import Addr, Imm, TensorAddr, Vec
from ..compile.translated import MachineOp
from . import cluster_copies, copy_loads, copy_stores, loadstore
from .common import no_sm_90a, unsupported
from .copy_common import Info

if TYPE_CHECKING:
    from ..ptx.ir import Function, Instr

NEWER = {
    "tile::gather4": "sm_100a", "tile::scatter4": "sm_100a", "im2col::w": "sm_100a", "im2col::w::128": "sm_100a", "cta_group::1": "sm_100a",
    "cta_group::2": "sm_100a", "cp_mask": "sm_100",
}
MODES = ("tile", "im2col", "im2col_no_offs")
KNOWN = {"async", "bulk", "tensor", "reduce", "prefetch", "L2", "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint",
         "bulk_group", "shared::cta", "shared::cluster", "global", "1d", "2d", "3d", "4d", "5d", "noftz", *MODES}
NONE = Imm(0, "int", 0)


def resolve(instr: Instr, function: Function) -> MachineOp:
    """MachineOp of cp.async.bulk.* and cp.reduce.async.bulk.*"""
    mods, ops = instr.mods, instr.operands
    if mods[:3] == ("async", "bulk", "commit_group"):
        return MachineOp(copy_stores.commit, None)
    if mods[:3] == ("async", "bulk", "wait_group"):
        return MachineOp(copy_stores.wait, (ops[0].value, "read" in mods))
    info = _info(instr)
    if "prefetch" in mods:
        return _prefetch(instr, info)
    spaces = [m for m in mods if m.split("::")[0] in ("shared", "global")]
    if len(spaces) != 2 or spaces[0] == "global" and spaces[1] != "shared::cta" or info.rank and "global" not in spaces:
        raise unsupported(instr, "there is no copy between these state spaces")
    if spaces[0] == "global":
        return _store(instr, info)
    if spaces == ["shared::cluster", "shared::cta"]:
        return cluster_copies.between_ctas(instr, info)
    if info.op or spaces[1] != "global":
        raise unsupported(instr, "there is no copy between these state spaces")
    return _load(instr, info)


def _info(instr) -> Info:
    """The decoded form; what sm_90a does not have is refused by name."""
    mods = instr.mods
    newer = next((m for m in mods if m in NEWER), None)
    if newer:
        raise no_sm_90a(instr, f".{newer}", NEWER[newer])
    op = kind = ""
    if mods[0] == "reduce":
        op = next((m for m in mods if m in copy_stores.REDUCTIONS), "")
        kind = "" if "tensor" in mods else mods[-1]
        if not op or kind and kind not in copy_stores.REDUCTIONS[op] or op == "add" and kind in ("f16", "bf16") and "noftz" not in mods:
            raise unsupported(instr, f"there is no reduction .{op or '?'} of .{kind or '?'}" + (" without .noftz" if kind in ("f16", "bf16") else ""))
    strange = [m for m in mods if m not in KNOWN and m not in (op, kind)]
    if strange:
        raise unsupported(instr, f"modifier .{strange[0]} is not known here")
    rank = next((int(m[0]) for m in mods if len(m) == 2 and m[1] == "d"), 0)
    mode = next((m for m in mods if m in MODES), "tile")
    if mode != "tile" and rank < 3:
        raise unsupported(instr, "im2col tensors have 3 to 5 dimensions")
    spaces = [m for m in mods if m.split("::")[0] in ("shared", "global")]
    return Info(instr.index, rank, spaces[0] == "shared::cluster", "multicast::cluster" in mods, mode, op, kind)


def _prefetch(instr, info: Info) -> MachineOp:
    """Into the L2 cache, which has no model here: only the form is checked."""
    if "L2" not in instr.mods or info.rank and (type(instr.operands[0]) is not TensorAddr or len(instr.operands[0].coords) != info.rank):
        raise unsupported(instr, "there is no such prefetch")
    return MachineOp(loadstore.no_effect, None)


def _tensor_sources(instr, operand, info: Info) -> tuple:
    if type(operand) is not TensorAddr or len(operand.coords) != info.rank:
        raise unsupported(instr, f"a {info.rank}-D copy takes {info.rank} coordinates")
    base = Addr(operand.map, operand.offset) if operand.offset else operand.map
    return ((base, "u64" if not operand.offset else None), *((c, "s32") for c in operand.coords))


def _load(instr, info: Info) -> MachineOp:
    ops = instr.operands
    if not info.rank:
        mask = ops[4] if info.multicast else NONE
        return MachineOp(copy_loads.bulk_load, info, ((ops[0], None), (ops[3], None), (mask, "u16"), (ops[1], None), (ops[2], "u32")))
    if info.mode == "im2col_no_offs":
        raise unsupported(instr, ".im2col_no_offs is a store's mode")
    rest, offsets = list(ops[3:]), ()
    if info.mode == "im2col":
        given = rest.pop(0)
        offsets = given.items if type(given) is Vec else (given,)
        if len(offsets) != info.rank - 2:
            raise unsupported(instr, f"a {info.rank}-D im2col load takes {info.rank - 2} offsets")
    mask = rest[0] if info.multicast else NONE
    sources = ((ops[0], None), (ops[2], None), (mask, "u16"), *_tensor_sources(instr, ops[1], info), *((o, "u16") for o in offsets))
    return MachineOp(copy_loads.tensor_load, info, sources)


def _store(instr, info: Info) -> MachineOp:
    ops = instr.operands
    if not info.rank:
        return MachineOp(copy_stores.bulk_store, info, ((ops[1], None), (ops[0], None), (ops[2], "u32")))
    if info.mode == "im2col":
        raise unsupported(instr, "an im2col store has the mode .im2col_no_offs")
    return MachineOp(copy_stores.tensor_store, info, ((ops[1], None), *_tensor_sources(instr, ops[0], info)))
