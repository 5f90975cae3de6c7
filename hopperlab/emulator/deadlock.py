"""The picture of a deadlock: who waits, at which line, on what, and what would have released it."""
from __future__ import annotations

import numpy as np

from .register_budget import RegisterWait
from .reports import name, place, user_site
from .session import Hazard
from .meetings import MeetingWait
from .waits import MbarrierWait, NamedWait, WgmmaWait

MOST_LINES = 12


def report(M, stuck: list, why: str = "") -> None:
    """Add one 'deadlock' hazard that describes every waiting warp (grouped by line and barrier). why: what is known of loops."""
    lines, first = [], None
    for C, wait in stuck:
        block = M.blocks[C.pc]
        instr = block.gate_instr or block.first
        if first is None:
            first = (instr, int(C.gids[0]))
        lines.extend(_describe(M, C, wait, instr))
    shown = lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES} more like these")
    instr, gid = first
    looping = f"only loops that wait still run, and no operation is in flight: {why}" if why else "no thread can run and no operation is in flight"
    message = (f"{looping}. Waiting:\n" + "\n".join(f"  - {line}" for line in shown))
    absent = M.geometry.ctas - M.next_cta
    if absent:
        message += (f"\n{absent} of {M.geometry.ctas} blocks have not started: they need the place of one that ends, so no block may wait "
                    "for all blocks of this grid. Launch fewer, or give each more work")
    hints = _hints(M, stuck)
    if hints:
        message += "\nWhat would release them:\n" + "\n".join(f"  - {hint}" for hint in hints)
    M.hazards.append(Hazard("deadlock", message, user_site(instr), None, M.block_index(gid), gid % M.T))


def _describe(M, C, wait, instr) -> list[str]:
    """One line for each different situation, with how many blocks are in it."""
    where = f"{name(instr)} at {place(instr)}"
    if type(wait) is MbarrierWait:
        states = [(_span(M, C, wait.keys == b), f"waits in {where} for parity {int(wait.extra[k])} of the {M.barriers.describe(b)}")
                  for b, k in _each(wait.keys)]
    elif isinstance(wait, NamedWait):
        states = [(_span(M, C, wait.keys == b), f"waits in {where}: {M.named.describe(b)}") for b, k in _each(wait.keys)]
    elif type(wait) is RegisterWait:
        states = [(_span(M, C, None), f"waits in {where}: {wait.describe(M, C)}")]
    elif type(wait) is MeetingWait:
        states = [(_span(M, C, None), f"waits in {where} for the other warps of its warpgroup: all four run a wgmma together")]
    elif type(wait) is WgmmaWait:
        states = [(_span(M, C, None), f"waits in {where}: not all four warps of the warpgroup issued this wgmma group")]
    else:
        states = [(_span(M, C, None), f"stands at {where}: spinning, or waiting for the rest of its warp")]
    grouped: dict[tuple, list] = {}
    for (block, threads), text in states:
        grouped.setdefault((threads, text), []).append(block)
    return [f"{_blocks(blocks)}, {threads}: {text}" for (threads, text), blocks in grouped.items()]


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


def _hints(M, stuck: list) -> list[str]:
    hints: list[str] = []
    for _, wait in stuck:
        make = {MbarrierWait: _mbarrier_hint, NamedWait: _named_hint}.get(type(wait))
        for barrier in np.unique(wait.keys)[:4].tolist() if make is not None else ():
            hint = make(M, int(barrier))
            if hint not in hints:
                hints.append(hint)
    return hints[:6]


def _named_hint(M, key: int) -> str:
    lines = _lines(M, lambda i: i.op in ("bar", "barrier") and ("sync" in i.mods or "arrive" in i.mods) and "warp" not in i.mods)
    return (f"barrier {key % 16}: the missing threads have ended, or wait somewhere else; all that its count includes must come to bar.sync "
            f"or bar.arrive with this number and count (those in this kernel: {lines})")


def _lines(M, wanted) -> str:
    """Source lines of some instructions, each once."""
    places = list(dict.fromkeys(place(i).split(" (in ")[0] for i in M.body if wanted(i)))
    return ", ".join(places[:5]) + (" …" if len(places) > 5 else "") or "none"


def _mbarrier_hint(M, barrier: int) -> str:
    b = M.barriers
    label = f"mbarrier {b.offsets[barrier % b.capacity]:#x}"
    pending, tx, seen = int(b.pending[barrier]), int(b.tx[barrier]), int(b.arrived_bytes[barrier])
    if pending and seen and tx < 0:
        return (f"{label}: {seen} bytes arrived but nobody announced them and {pending} arrival(s) are missing: a thread must run "
                "mbarrier.arrive.expect_tx with the copy's bytes")
    if pending:
        lines = _lines(M, lambda i: "mbarrier" in (i.op, *i.mods[:2]) and any(m.startswith("arrive") for m in i.mods))
        return (f"{label}: {pending} more arrival(s) in this phase; whoever should arrive has ended, waits itself, or never arrives "
                f"(arrivals in this kernel: {lines})")
    if tx > 0:
        return (f"{label}: {tx} more bytes; {seen} arrived of {seen + tx} expected, so either a copy was never issued or "
                "expect_tx announced too many bytes")
    if tx < 0:
        return f"{label}: expect_tx announced {-tx} bytes too few"
    return f"{label}: nothing is missing in this phase; the waiter asks for a parity that has not come round (wrong parity?)"
