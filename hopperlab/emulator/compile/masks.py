# SPDX-License-Identifier: Apache-2.0
"""Member masks of warp collectives: which lanes an instruction needs, known before it runs, so that exactly those wait.

A mask is an immediate, a register that holds one constant, or a register known at the head of a block (translate.py
starts a block there). Lanes whose mask names only lanes that stand beside them may run; others wait (gates.py).
"""
from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx import cfg
from ..ptx.ir import Function, Imm, Not, Reg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..ptx.ir import Instr
    from .translated import Block, MachineOp

FULL = 0xFFFFFFFF


def of_function(function: Function, ops: dict) -> dict[int, int | str]:
    """Mask of every masked collective by instruction index: its value where it is constant, else its register's name."""
    definitions: dict[str, list] = {}
    for instr in function.body:
        for reg in instr.dsts():
            definitions.setdefault(reg.name, []).append(instr)
    found: dict[int, int | str] = {}
    for index, op in ops.items():
        if op.masked:
            found[index] = _constant(op.srcs[-1][0], definitions)
    return found


def _constant(operand, definitions) -> int | str:
    if type(operand) is Imm:
        return operand.value & FULL
    if type(operand) is not Reg:
        return FULL
    made = definitions.get(operand.name, [])
    if len(made) == 1 and made[0].op == "mov" and made[0].guard is None and type(made[0].operands[1]) is Imm:
        return made[0].operands[1].value & FULL
    return operand.name


def splits(masks: dict[int, int | str]) -> set[int]:
    """Instructions that must start a block, because their mask is not that of the collective before them."""
    found, before = set(), None
    for index in sorted(masks):
        if masks[index] != before and (before is not None or type(masks[index]) is str):
            found.add(index)
        before = masks[index]
    return found


def meeting_apart(function: Function, ops: dict, held: set[str]) -> dict[int, str]:
    """Every bar.warp.sync, shfl, vote, match and redux that lanes may run while others of their warp run another one of its kind with the same mask:
    neither of the two stands on all paths to the other, or on all that lead on from it: who runs one in a branch comes to the one behind it later, and needs the
    others there. They meet (machine/warp_meetings.py): each waits until all lanes in the mask have executed an
    instruction with that mask and these qualifiers, not this one (PTX ISA 9.7.13.2, 9.7.9.6). By instruction: its kind. held: registers of wgmma, of which more
    is known than their values; who uses them meets at one place."""
    kinds = {i: kind for i, op in ops.items() if (kind := _kind(function.body[i], op, held))}
    if len(kinds) == len(set(kinds.values())):
        return {}
    starts, following = cfg.successors(function)
    block = {i: bisect_right(starts, i) - 1 for i in kinds}
    around = {b: _reached(following, b) for b in set(block.values())}
    behind = {b: _behind(following, b, set(block.values())) for b in set(block.values())}

    def apart(one: int, other: int) -> bool:
        return other in around[one] and one in around[other] and other not in behind[one] and one not in behind[other]
    return {i: kind for i, kind in kinds.items() if any(kind == other and apart(block[i], block[k]) for k, other in kinds.items())}


def _kind(instr: Instr, op: MachineOp, held: set[str]) -> str:
    """What must be the same of two instructions that meet, beside their masks: the opcode with its qualifiers. '' for one that meets nobody elsewhere."""
    if instr.guard is not None:
        return ""
    if instr.op in ("bar", "barrier") and "warp" in instr.mods:
        return "bar.warp.sync"
    plain = instr.op in ("shfl", "vote", "match", "redux") and all(type(s) in (Reg, Imm, Not) for s, _ in op.srcs)
    return instr.opcode if plain and held.isdisjoint(r.name for r in (*instr.srcs(), *instr.dsts())) else ""


def _behind(following: list[tuple[int, ...]], block: int, wanted: set[int]) -> set[int]:
    """Which of the wanted blocks stand on every path that leads on from a block to an end."""
    return {b for b in wanted & _reached(following, -1, block) - {block} if all(following[last] for last in _reached(following, b, block))}


def _reached(following: list[tuple[int, ...]], without: int, first: int = 0) -> set[int]:
    """Blocks that some path from the first one comes to without passing a block."""
    seen = {first} - {without}
    new = list(seen)
    while new:
        for block in following[new.pop()]:
            if block != without and block not in seen:
                seen.add(block)
                new.append(block)
    return seen


def ready(C: Any, block: Block, value: NDArray[Any] | None = None) -> np.ndarray:
    """Mask of lanes whose named lanes all stand in cohort C. `value`: lanes that count as present besides, by lane."""
    mask = named(C, block)
    present = _present(C)
    return (mask & ~(present if value is None else present | value)) == 0


def named(C: Any, block: Block) -> np.ndarray:
    """The member mask of every lane of a cohort at a masked block's head (int64; all lanes where it is not known)."""
    source = block.mask
    if type(source) is tuple:
        found = C.frame.get(source[0])
        source = FULL if found is None else found
    return np.broadcast_to(np.asarray(source), C.n).astype(np.int64) & FULL


def _present(C) -> np.ndarray:
    """Bits of the lanes of each lane's warp that are in the cohort."""
    warps, inverse = np.unique(C.gids >> 5, return_inverse=True)
    bits = np.zeros(len(warps), np.int64)
    np.bitwise_or.at(bits, inverse, np.int64(1) << (C.gids & 31))
    return bits[inverse]


def exited(C: Any, others: np.ndarray) -> np.ndarray:
    """Bits of the lanes of each lane's warp that stand nowhere: neither in the cohort nor among the threads `others`."""
    out = np.full(C.n, FULL, np.int64)
    lanes, warps = others & 31, others >> 5
    for warp in np.unique(C.gids >> 5).tolist():
        there = int(np.bitwise_or.reduce(np.int64(1) << lanes[warps == warp])) if (warps == warp).any() else 0
        out[C.gids >> 5 == warp] &= ~there
    return out & ~_present(C)
