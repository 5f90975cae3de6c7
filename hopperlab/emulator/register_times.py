"""When the registers of a wgmma were computed: every warp needs a wgmma.fence between that and the wgmma (PTX ISA 9.7.15.7.1).

Registers that can reach a wgmma by renames (mov, selp, packing) and that something computes get a second register, their
time: how many fences the warp had run, and the instruction. Renames carry their source's time, constants have none, and
a wgmma's own results need no fence for the next one of its shape. What the compiler moved behind a fence that the source
puts after the write is silent. translate.py calls plan, wrote and used.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from . import reports_misuse as reports
from .ptx.ir import Vec

TIME = "@time"                   # suffix of the second register's name
RENAMES = ("mov", "selp")
SITE_BITS = 18
SITE_MASK = (1 << SITE_BITS) - 1
COUNTS = 16383                   # fence counts wrap: a time is 1..COUNTS
NO_TIME = np.uint32(0)


@dataclass
class Plan:
    """tracked: registers with a time. fragments: registers that hold A of a wgmma -> instructions of those wgmma. results: the same
    of D, for registers that something else computes too. watched: the wgmma whose registers are computed anew somewhere."""

    tracked: frozenset[str]
    fragments: dict[str, tuple[int, ...]]
    results: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def watched(self) -> frozenset[int]:
        """Instructions whose groups are remembered warp by warp."""
        return frozenset(i for table in (self.fragments, self.results) for sites in table.values() for i in sites)

    def extend_live(self, graph) -> None:
        """A time lives as long as its register."""
        for b in graph.blocks:
            b.live_in |= {n + TIME for n in b.live_in if n in self.tracked}
            b.live_out |= {n + TIME for n in b.live_out if n in self.tracked}


def operands(instr) -> tuple[tuple, tuple]:
    """(D, A) registers of a wgmma.mma_async; A is empty when it lies in shared memory."""
    d, a = instr.operands[0], instr.operands[1]
    return d.items, (a.items if type(a) is Vec else ())


def plan(function, ops) -> Plan:
    """Which registers of a kernel need times."""
    products = [i for i in function.body if i.index in ops and ops[i.index].raw]
    fragments: dict[str, tuple[int, ...]] = {}
    results: dict[str, tuple[int, ...]] = {}
    reach = set()
    for i in products:
        d, a = operands(i)
        reach.update(r.name for r in (*d, *a))
        for table, registers in ((fragments, a), (results, d)):
            for r in registers:
                table[r.name] = (*table.get(r.name, ()), i.index)
    if not products:
        return Plan(frozenset(), {})
    renames = [([d.name for d in i.dsts()], [s.name for s in i.srcs()]) for i in function.body if i.op in RENAMES]
    _close(reach, [(sources, targets) for targets, sources in renames])
    computed = {d.name for i in function.body if i.op not in (*RENAMES, "wgmma") for d in i.dsts()} & reach
    results = {name: sites for name, sites in results.items() if name in computed}
    _close(computed, renames)
    return Plan(frozenset(computed & reach), fragments, results)


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
    shadow = name + TIME
    if shadow not in emitter.local:
        emitter.local.add(shadow)
        emitter.loaded.append(shadow)
    return f"r{emitter.t.slots[shadow]}"


def writes(emitter, reg) -> None:
    """The instruction being emitted is about to write `reg`: an accumulator in flight must not be in it. Renames are no accesses."""
    times, instr = emitter.t.times, emitter.instr
    if instr.op in (*RENAMES, "wgmma"):
        return
    if reg.name in times.results:
        lines = [f"{emitter._function(overwritten)}(M, C, {instr.index}, {times.results[reg.name]!r}, 'D')"]
    elif reg.name in emitter.t.tainted and reg.name in emitter.local:
        lines = [f"{emitter._function(replaced)}(M, C, {instr.index}, r{emitter.t.slots[reg.name]})"]
    else:
        return
    emitter.lines.extend(line for line in lines if line not in emitter.lines[-4:])


def wrote(emitter, reg) -> None:
    """The instruction being emitted has just written `reg`."""
    times, instr = emitter.t.times, emitter.instr
    if reg.name in times.tracked:
        _stamp(emitter, reg, instr)
    if reg.name in times.fragments and instr.op not in (*RENAMES, "wgmma"):
        line = f"{emitter._function(overwritten)}(M, C, {instr.index}, {times.fragments[reg.name]!r}, 'A')"
        if not emitter.lines or line not in emitter.lines[-4:]:
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
        value = f"{emitter._function(now)}(M, C, {instr.index})"
    if emitter.guard is not None:
        value = f"np.where({emitter.guard}, {value}, {_time(emitter, reg.name)})"
    shadow = reg.name + TIME
    emitter.lines.append(f"r{emitter.t.slots[shadow]} = {value}")
    emitter.local.add(shadow)
    emitter.body_defs.add(shadow)


def used(emitter, instr, scale: str) -> None:
    """A wgmma is about to be emitted; `scale`: expression of scale-d."""
    tracked = emitter.t.times.tracked
    d, a = ([_time(emitter, r.name) for r in rs if r.name in tracked] for rs in operands(instr))
    if d or a:
        listed = [f"({''.join(t + ', ' for t in group)})" for group in (d, a)]
        emitter.lines.append(f"{emitter._function(check)}(M, C, {instr.index}, {scale}, {listed[0]}, {listed[1]})")


# --- running ----------------------------------------------------------------------------------------------------------
class Fences:
    """How many wgmma.fence every warp has run, its latest wgmma, and the latest group of each wgmma with A in registers."""

    def __init__(self, machine):
        self.M = machine
        self.count = np.zeros(machine.slots * machine.warps, np.int64)
        self.watched = machine.translation.times.watched
        self.told: set[int] = set()                        # wgmma whose missing fence was reported
        self.serial = 0
        self.issued: dict[int, np.ndarray] = {}
        self.latest = np.zeros((2, machine.slots * machine.warps), np.int64)       # instruction, group

    def run(self, warps: np.ndarray) -> None:
        """wgmma.fence by these warps."""
        self.count[warps] += 1
        self.serial += 1

    def reset_slots(self, slots: np.ndarray) -> None:
        """New CTAs have issued nothing."""
        self.serial += 1
        for table in (self.count, self.latest[0], self.latest[1], *self.issued.values()):
            table.reshape(self.M.slots, -1)[slots] = 0

    def cta_ends(self, slots: np.ndarray) -> None:
        """CTAs end: every wgmma of theirs has been waited for."""
        late = np.flatnonzero(self.latest[1].reshape(self.M.slots, -1)[slots] > self.M.wgmma_done.reshape(self.M.slots, -1)[slots])
        if len(late):
            warp = int(slots[late[0] // self.M.warps]) * self.M.warps + int(late[0]) % self.M.warps
            reports.exit_under_wgmma(self.M, int(self.latest[0, warp]), warp * 32)

    def issue(self, site: int, warps: np.ndarray, number: np.ndarray) -> None:
        """A wgmma was issued as part of group `number` of every warp; each of them has run wgmma.fence before its first one."""
        self.latest[0, warps], self.latest[1, warps] = site, number
        if self.M.session.check and site not in self.told and not self.count[warps].all():
            self.told.add(site)
            reports.no_first_fence(self.M, site, int(warps[int(np.argmin(self.count[warps]))]) * 32)
        if site not in self.watched:
            return
        table = self.issued.setdefault(site, np.zeros(len(self.count), np.int64))
        table[warps] = number

    def base(self, C):
        """The cohort's present time without the instruction: a scalar when all warps agree."""
        known = C._cache.get("fences")
        if known is None or known[0] != self.serial:
            counts = self.count[C.gids >> 5] % COUNTS + 1 << SITE_BITS
            value = np.uint32(counts[0]) if (counts == counts[0]).all() else counts.astype(np.uint32)
            known = C._cache["fences"] = (self.serial, value)
        return known[1]


def now(M, C, site: int):
    """The time of a register that instruction `site` computes now."""
    return M.fences.base(C) | np.uint32(site)


def check(M, C, site: int, scale, d_times: tuple, a_times: tuple) -> None:
    """A wgmma takes registers: none may have been computed since the warp's last wgmma.fence."""
    if not M.session.check:
        return
    base = M.fences.base(C) >> SITE_BITS
    for what, times, read in (("an accumulator register", d_times, scale), ("a register of its A fragment", a_times, np.True_)):
        for time in times:
            late = ((time >> SITE_BITS) == base) & read
            if late.any():
                lane = int(np.flatnonzero(np.broadcast_to(late, C.n))[0])
                writer = int(time if not time.ndim else time[lane]) & SITE_MASK
                if _moved(M, writer, site):
                    continue
                M.fences.told.add(site)
                reports.missing_wgmma_fence(M, site, writer, int(C.gids[lane]), what)


def _moved(M, writer: int, product: int) -> bool:
    """True when the source writes the register before a fence and the compiler emitted the write behind it: NVRTC moves register
    arithmetic across inline assembly, and ptxas then puts a fence of its own (C7519). Not the author's error."""
    for i in M.body[:writer]:
        if i.op == "wgmma" and i.mods[0] == "fence":
            if _precedes(M.body[writer].site, i.site) and _precedes(i.site, M.body[product].site):
                return True
    return False


def _precedes(one, other) -> bool:
    """True when source position `one` is known to stand before `other`: inline frames are compared from the kernel inwards."""
    if one is None or other is None:
        return False
    for a, b in zip(one.chain, other.chain):
        if (a.file, a.line, a.column) != (b.file, b.line, b.column):
            return a.file == b.file and (a.line, a.column) < (b.line, b.column)
    return False


def replaced(M, C, site: int, old) -> None:
    """Instruction `site` is about to compute a register anew that holds `old`: no accumulator in flight, of any lane."""
    if M.session.check and hasattr(old, "lane_groups"):
        warps, number = old.lane_groups()
        busy = number > M.wgmma_done[warps]
        if busy.any():
            gid = int(C.gids[int(np.argmax(busy))])
            reports.result_overwritten(M, site, int(M.fences.latest[0, gid >> 5]), gid)


def overwritten(M, C, site: int, products: tuple, what: str) -> None:
    """A register that holds A (or D) of some wgmma was computed anew: none of those may be in flight."""
    if not M.session.check:
        return
    for product in products:
        issued = M.fences.issued.get(product)
        if issued is None:
            continue
        warps = C.gids >> 5
        busy = issued[warps] > M.wgmma_done[warps]
        if busy.any():
            tell = reports.fragment_overwritten if what == "A" else reports.result_overwritten
            tell(M, site, product, int(C.gids[int(np.argmax(busy))]))
