# SPDX-License-Identifier: Apache-2.0
"""The picture of a deadlock: who waits, at which line, on what, and what would have released it."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..hazards.findings import places
from ..hazards.hazard import End, Hazard
from ..hazards.kinds import Kind
from ..hazards.situation import Situation
from ..machine.events import Listener
from ..machine.meetings import MeetingWait
from ..machine.register_pool import RegisterWait
from ..machine.shared_names import name_of
from ..machine.waits import MbarrierWait, NamedWait, WgmmaWait
from ..ptx.places import Place
from . import blame

if TYPE_CHECKING:
    from ..machine.machine import Machine

MOST_LINES = 12


class Deadlock(Listener):
    """Reports that nothing can run, unless one of `explain` (functions of the machine) has found a better reason and says so."""

    def __init__(self, machine, explain: tuple = ()):
        self.M, self.explain = machine, explain

    def stuck(self, waiting: list, why: str) -> None:
        """The launch ends here."""
        if not any(explained(self.M) for explained in self.explain):
            report(self.M, waiting, why)


def report(M: Machine, stuck: list, why: str = "") -> None:
    """Add one 'deadlock' hazard that describes every waiting warp (grouped by line and barrier). why: what is known of loops."""
    found: list[Situation] = []
    for C, wait in stuck:
        found.extend(_describe(M, C, wait, _where(M, C, wait)))
    shown = found[:MOST_LINES]
    if len(found) > MOST_LINES:
        shown.append(Situation("", "more", None, {"count": len(found) - MOST_LINES}))
    C, wait = blame.first(M, stuck)
    instr, gid = _where(M, C, wait), int(C.gids[0])
    facts = {"why": why, "waiting": tuple(shown), "absent": M.geometry.ctas - M.next_cta, "ctas": M.geometry.ctas, "hints": tuple(_hints(M, stuck)),
             **({} if M.grid is None else {"beside": M.grid.beside})}
    case = "endless-loops" if why else "deadlock"
    M.findings.hazards.append(Hazard(Kind.DEADLOCK, case, End.of(instr), None, M.block_index(gid), gid % M.T, facts=facts))


def _where(M, C, wait):
    """The instruction at which threads wait; of a loop around test_wait, that one, wherever in its loop it is."""
    return M.body[wait.site] if type(wait) is MbarrierWait else M.blocks[C.pc].gate_instr or M.blocks[C.pc].first


def _describe(M, C, wait, instr) -> list[Situation]:
    """One line for each different situation, with how many blocks are in it."""
    if type(wait) is MbarrierWait:
        states = [(_span(M, C, wait.keys == b), *_state(M, b, int(wait.extra[k]))) for b, k in _each(wait.keys)]
    elif isinstance(wait, NamedWait):
        states = [(_span(M, C, wait.keys == b), "state", {"state": M.named.describe(b)}) for b, k in _each(wait.keys)]
    elif type(wait) is RegisterWait:
        states = [(_span(M, C, None), "state", {"state": wait.describe(M, C)})]
    else:
        states = [(_span(M, C, None), {MeetingWait: "meeting", WgmmaWait: "wgmma"}.get(type(wait), "stands"), {})]
    grouped: dict[tuple, list] = {}
    for (block, threads), case, facts in states:
        grouped.setdefault((threads, case, tuple(facts.items())), []).append(block)
    return [Situation(f"{_blocks(blocks)}, {threads}: ", case, End.of(instr), dict(facts)) for (threads, case, facts), blocks in grouped.items()]


def _state(M, barrier: int, parity: int) -> tuple[str, dict]:
    """What is known of an mbarrier; of one that has no name, as in dynamic shared memory, also where it was initialised."""
    b, checks = M.barriers, getattr(M.findings, "barriers", None)
    facts = {"parity": parity, "state": b.describe(barrier)}
    if checks is None or name_of(M.layout.variables, b.offsets[barrier % b.capacity]):
        return "mbarrier", facts
    return "mbarrier-unnamed", {**facts, "init": tuple(places([M.body[int(checks.init_site[barrier])]]))}


def _each(keys: np.ndarray) -> list[tuple[int, int]]:
    values, first = np.unique(keys, return_index=True)
    return list(zip(values.tolist(), first.tolist()))


def _blocks(blocks: list) -> str:
    first = min(blocks, key=lambda b: b[::-1])
    return f"block {first}" if len(blocks) == 1 else f"{len(blocks)} blocks (first {first})"


def _span(M, C, mask) -> tuple:
    gids = C.gids if mask is None else C.gids[mask]
    threads = gids[gids // M.T == gids[0] // M.T] % M.T
    low, high = int(threads.min()), int(threads.max())
    return M.block_index(int(gids[0])), f"thread {low}" if low == high else f"threads {low} to {high}"


def _hints(M, stuck: list) -> list[Situation]:
    hints: list[Situation] = []
    for C, wait in stuck:
        make = {MbarrierWait: _mbarrier_hint, NamedWait: _named_hint}.get(type(wait))
        for barrier in np.unique(wait.keys)[:4].tolist() if make is not None else ():
            case, facts = make(M, int(barrier), C, wait)
            hint = Situation("", case, None, facts)
            if hint not in hints:
                hints.append(hint)
    return hints[:6]


def _named_hint(M, key: int, C, wait) -> tuple[str, dict]:
    return "named-hint", {"barrier": key % 16, **_lines(M, lambda i: i.op in ("bar", "barrier") and ("sync" in i.mods or "arrive" in i.mods) and "warp" not in i.mods)}


def _lines(M, wanted) -> dict:
    """Source lines of some instructions, each once, as facts of a situation."""
    return _shown([i for i in M.body if wanted(i)])


def _shown(instructions: list) -> dict:
    """The lines of these instructions, at most five."""
    found = places(instructions)
    return {"lines": found[:5] or "none", "others": " …" if len(found) > 5 else ""}


def _counted(M) -> str:
    """How arrivals of cp.async count, in kernels that have them."""
    asynchronous = [i for i in M.body if i.op == "cp" and i.mods[:2] == ("async", "mbarrier")]
    raising = places([i for i in asynchronous if "noinc" not in i.mods])
    counted = places([i for i in asynchronous if "noinc" in i.mods])
    text = (f"; cp.async.mbarrier.arrive without .noinc ({', '.join(p.line() for p in raising)}) is no arrival of the count: it adds one to what is pending "
            f"before it takes one away") if raising else ""
    return text + (f"; of cp.async.mbarrier.arrive.noinc ({', '.join(p.line() for p in counted)}) every lane is one arrival of the count" if counted else "")


def _passed_by(M, barrier: int, C, wait) -> dict | None:
    """Facts of a phase that went by before somebody looked: its parity has come round again, and is that of a phase that has not ended."""
    lane = int(np.flatnonzero(wait.keys == barrier)[0])
    gone = blame.passed_by(M, C, wait, lane)
    if gone is None:
        return None
    checks, b = M.findings.barriers, M.barriers
    one, who = checks.passes.surplus.get(barrier), _span(M, C, wait.keys == barrier)[1]
    received = f" and receives {one.received} arrivals a pass: initialise it for {one.received}" if one is not None and not one.again else (
        ". The arrivals of the next phase have to wait for those who wait for this one")
    if barrier in checks.passes.dropped.again:
        received = ". A thread that had dropped out of it arrives nevertheless, or drops out again"
    return {"phase": int(b.phase[barrier]), "wanted": gone, "who": f"{who} still wait{'' if ' to ' in who else 's'}",
            "expected": _initial(checks, barrier, int(b.expected[barrier])), "init": places([M.body[int(checks.init_site[barrier])]])[0].line(), "received": received}


def _initial(checks, barrier: int, expected: int) -> str:
    """For how many arrivals an mbarrier was initialised, and how many of them have dropped out."""
    count = int(checks.init_count[barrier])
    return f"{count} ({count - expected} have dropped out by mbarrier.arrive_drop)" if count > expected else str(expected)


def _arrivals(M, barrier: int) -> tuple[str, dict]:
    """Who arrives on this mbarrier, and which arrivals nobody has come to; where nothing arrives on it, who does on others."""
    every = [i for i in M.body if "mbarrier" in (i.op, *i.mods[:2]) and any(m.startswith("arrive") for m in i.mods)]
    checks = getattr(M.findings, "barriers", None)
    if checks is None:
        return "arrivals-missing", _shown(every)
    here, nowhere = checks.arrivals_on(barrier, [i.index for i in every])
    reached = {place.line() for place in places([i for i in every if i.index not in nowhere])}      # unrolled loops stand there several times
    unreached = [M.body[i] for i in nowhere if Place.of(M.body[i]).line() not in reached]
    if here or unreached:
        return ("arrivals-unreached" if unreached else "arrivals-missing"), {**_shown([M.body[i] for i in here]), "unreached": _shown(unreached)["lines"]}
    return "arrivals-elsewhere", _shown(every)


def _mbarrier_hint(M, barrier: int, C, wait) -> tuple[str, dict]:
    b = M.barriers
    pending, tx, seen = int(b.pending[barrier]), int(b.tx[barrier]), int(b.arrived_bytes[barrier])
    facts, arrivals = {"barrier": b.text(b.offsets[barrier % b.capacity])}, "arrival" if pending == 1 else "arrivals"
    gone = _passed_by(M, barrier, C, wait)
    if gone is not None:
        return "passed-by", {**facts, **gone}
    if pending and seen and tx < 0:
        return "bytes-without-arrival", {**facts, "seen": seen, "pending": pending, "arrivals": arrivals}
    if pending:
        case, lines = _arrivals(M, barrier)
        return case, {**facts, "pending": pending, "arrivals": arrivals, **lines, "counted": _counted(M)}
    if tx > 0:
        return "bytes-missing", {**facts, "missing": tx, "seen": seen, "expected": seen + tx}
    if tx < 0:
        return "bytes-unannounced", {**facts, "missing": -tx}
    return "wrong-parity", facts
