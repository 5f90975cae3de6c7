# SPDX-License-Identifier: Apache-2.0
"""When the registers of a wgmma were computed: every warp needs a wgmma.fence between that and the wgmma (PTX ISA 9.7.15.7.1).

Registers that can reach a wgmma by renames (mov, selp, packing) and that something computes get a second register, their
time: how many fences the warp had run, and the instruction (machine/fence_counts.py). Renames carry their source's time, constants
have none, and a wgmma's own results need no fence for the next one of its shape. translate.py and the emitter call plan, writes, wrote
and used; what they emit tells the listeners (events `operands_taken`, `operand_replaced`, `accumulator_replaced`).
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ptx.ir import Reg, Vec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ptx.cfg import Cfg
    from ..ptx.ir import Function, Instr
    from .translated import MachineOp

TIME = "@time"                   # suffix of the second register's name
RENAMES = ("mov", "selp")
NO_TIME = np.uint32(0)


@dataclass
class Plan:
    """tracked: registers with a time. fragments: registers that hold A of a wgmma -> instructions of those wgmma. results: the same
    of D, for registers that something else computes too; metadata: of a sparse A's metadata. watched: the wgmma whose registers are computed anew somewhere."""

    tracked: frozenset[str]
    fragments: dict[str, tuple[int, ...]]
    results: dict[str, tuple[int, ...]] = field(default_factory=dict)
    metadata: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def watched(self) -> frozenset[int]:
        """Instructions whose groups are remembered warp by warp."""
        return frozenset(i for table in (self.fragments, self.results, self.metadata) for sites in table.values() for i in sites)

    def extend_live(self, graph: Cfg) -> None:
        """A time lives as long as its register."""
        for b in graph.blocks:
            b.live_in |= {n + TIME for n in b.live_in if n in self.tracked}
            b.live_out |= {n + TIME for n in b.live_out if n in self.tracked}


def operands(instr: Instr) -> tuple[tuple, tuple, tuple]:
    """(D, A, metadata) registers of a wgmma.mma_async; A is empty when it lies in shared memory, metadata where A is not sparse."""
    d, a = instr.operands[0], instr.operands[1]
    return d.items, (a.items if type(a) is Vec else ()), (tuple(r for r in instr.operands[3:4] if type(r) is Reg) if "sp" in instr.mods else ())


def makes(instr: Instr) -> bool:
    """True where an instruction makes a value that its destination has not got from one other register whole: everything but plain copies (mov of one register
    or constant), which compilers put at the ends of loops, and wgmma. A mov that packs halves, and a selection, do write a fragment."""
    return instr.op != "wgmma" and not (instr.op == "mov" and type(instr.operands[-1]) is not Vec)


def plan(function: Function, ops: Mapping[int, MachineOp]) -> Plan:
    """Which registers of a kernel need times."""
    products = [i for i in function.body if i.index in ops and ops[i.index].raw]
    fragments: dict[str, tuple[int, ...]] = {}
    results: dict[str, tuple[int, ...]] = {}
    metadata: dict[str, tuple[int, ...]] = {}
    reach = set()
    for i in products:
        d, a, words = operands(i)
        reach.update(r.name for r in (*d, *a, *words))
        for table, registers in ((fragments, a), (results, d), (metadata, words)):
            for r in registers:
                table[r.name] = (*table.get(r.name, ()), i.index)
    if not products:
        return Plan(frozenset(), {})
    renames = [([d.name for d in i.dsts()], [s.name for s in i.srcs()]) for i in function.body if i.op in RENAMES]
    _close(reach, [(sources, targets) for targets, sources in renames])
    computed = {d.name for i in function.body if i.op not in (*RENAMES, "wgmma") for d in i.dsts()} & reach
    written = computed | {d.name for i in function.body if makes(i) for d in i.dsts()}
    results = {name: sites for name, sites in results.items() if name in written}
    _close(computed, renames)
    return Plan(frozenset(computed & reach), fragments, results, metadata)


def _close(names: set, edges: list) -> None:
    """Add the first names of every edge whose second names meet `names`, until nothing changes."""
    grown = True
    while grown:
        before = len(names)
        for gained, given in edges:
            if not names.isdisjoint(given):
                names.update(gained)
        grown = len(names) > before


# --- emitting ---------------------------------------------------------------------------------------------------------
def _time(emitter, name: str) -> str:
    """Expression of a register's time."""
    time = name + TIME
    if time not in emitter.local:
        emitter.local.add(time)
        emitter.loaded.append(time)
    return f"r{emitter.t.slots[time]}"


def writes(emitter: Any, reg: Reg) -> None:
    """The instruction being emitted is about to write `reg`: an accumulator in flight must not be in it. Renames are no accesses."""
    times, instr = emitter.t.times, emitter.instr
    if not makes(instr):
        return
    if reg.name in times.results:
        lines = [f"M.tell.operand_replaced(C, {instr.index}, {times.results[reg.name]!r}, 'D')"]
    elif reg.name in emitter.t.tainted and reg.name in emitter.local:
        lines = [f"M.tell.accumulator_replaced(C, {instr.index}, r{emitter.t.slots[reg.name]})"]
    else:
        return
    emitter.lines.extend(line for line in lines if line not in emitter.lines[-4:])


def wrote(emitter: Any, reg: Reg) -> None:
    """The instruction being emitted has just written `reg`."""
    times, instr = emitter.t.times, emitter.instr
    if reg.name in times.tracked:
        _stamp(emitter, reg, instr)
    for table, what in ((times.fragments, "A"), (times.metadata, "metadata")):
        if reg.name in table and makes(instr):
            line = f"M.tell.operand_replaced(C, {instr.index}, {table[reg.name]!r}, {what!r})"
            if line not in emitter.lines[-4:]:
                emitter.lines.append(line)


def _stamp(emitter, reg, instr) -> None:
    if instr.op == "wgmma":
        value = emitter._bind(NO_TIME, "u32")
    elif instr.op in RENAMES:
        sources = [_time(emitter, s.name) for s in instr.srcs() if s.name in emitter.t.times.tracked]
        value = emitter._bind(NO_TIME, "u32")
        for source in sources:
            value = source if value[0] == "K" else f"np.maximum({value}, {source})"
    else:
        value = f"M.fences.time(C, {instr.index})"
    if emitter.guard is not None:
        value = f"np.where({emitter.guard}, {value}, {_time(emitter, reg.name)})"
    time = reg.name + TIME
    emitter.lines.append(f"r{emitter.t.slots[time]} = {value}")
    emitter.local.add(time)
    emitter.body_defs.add(time)


def used(emitter: Any, instr: Instr, scale: str) -> None:
    """A wgmma is about to be emitted; `scale`: expression of scale-d."""
    tracked = emitter.t.times.tracked
    groups = [[_time(emitter, r.name) for r in rs if r.name in tracked] for rs in operands(instr)]
    if any(groups):
        listed = ", ".join(f"({''.join(t + ', ' for t in group)})" for group in groups)
        emitter.lines.append(f"M.tell.operands_taken(C, {instr.index}, {scale}, {listed})")
