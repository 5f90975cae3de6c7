"""The picture of a deadlock: who waits, at which line, on what, and what would have released it."""
from __future__ import annotations

import numpy as np

from .reports import place
from .session import Hazard
from .waits import MbarrierWait, NamedWait, WgmmaWait

MOST_LINES = 12


def report(M, stuck: list) -> None:
    """Add one 'deadlock' hazard that describes every waiting warp (grouped by line and barrier)."""
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
    message = ("no thread can run and no operation is in flight. Waiting:\n" + "\n".join(f"  - {line}" for line in shown))
    hints = _hints(M, stuck)
    if hints:
        message += "\nWhat would release them:\n" + "\n".join(f"  - {hint}" for hint in hints)
    M.hazards.append(Hazard("deadlock", message, instr.site, None, M.block_index(gid), gid % M.T))


def _describe(M, C, wait, instr) -> list[str]:
    where = f"{instr.opcode} at {place(instr)}"
    if type(wait) is MbarrierWait:
        return [_lane_line(M, C, wait, k, where) for k in _first_of_each(wait.keys)[:MOST_LINES]]
    if type(wait) is NamedWait:
        return [f"{_who(M, C, wait.keys == wait.keys[k])} in {where}: {M.named.describe(int(wait.keys[k]))}"
                for k in _first_of_each(wait.keys)[:MOST_LINES]]
    if type(wait) is WgmmaWait:
        return [f"{_who(M, C, None)} in {where}: not all four warps of the warpgroup issued this wgmma group"]
    return [f"{_who(M, C, None)} at {where}: spinning, or waiting for the rest of its warp"]


def _first_of_each(keys: np.ndarray) -> list[int]:
    return np.unique(keys, return_index=True)[1].tolist()


def _lane_line(M, C, wait, k: int, where: str) -> str:
    barrier = int(wait.keys[k])
    parity = int(wait.extra[k])
    return f"{_who(M, C, wait.keys == barrier)} in {where}: parity {parity} of the {M.barriers.describe(barrier)}"


def _who(M, C, mask) -> str:
    gids = C.gids if mask is None else C.gids[mask]
    block = M.block_index(int(gids[0]))
    threads = gids[gids // M.T == gids[0] // M.T] % M.T
    low, high = int(threads.min()), int(threads.max())
    span = f"thread {low}" if low == high else f"threads {low} to {high}"
    return f"block {block}, {span}"


def _hints(M, stuck: list) -> list[str]:
    hints: list[str] = []
    for _, wait in stuck:
        if type(wait) is not MbarrierWait:
            continue
        for barrier in np.unique(wait.keys)[:4].tolist():
            hint = _mbarrier_hint(M, int(barrier))
            if hint not in hints:
                hints.append(hint)
    return hints[:6]


def _mbarrier_hint(M, barrier: int) -> str:
    b = M.barriers
    name = f"mbarrier {b.offsets[barrier % b.capacity]:#x}"
    pending, tx, seen = int(b.pending[barrier]), int(b.tx[barrier]), int(b.arrived_bytes[barrier])
    if pending and seen and tx < 0:
        return (f"{name}: {seen} bytes arrived but nobody announced them and {pending} arrival(s) are missing: a thread must run "
                "mbarrier.arrive.expect_tx with the copy's bytes")
    if pending:
        return f"{name}: {pending} more arrival(s) in this phase; whoever should arrive has ended, waits itself, or never arrives"
    if tx > 0:
        return (f"{name}: {tx} more bytes; {seen} arrived of {seen + tx} expected, so either a copy was never issued or "
                "expect_tx announced too many bytes")
    if tx < 0:
        return f"{name}: expect_tx announced {-tx} bytes too few"
    return f"{name}: nothing is missing in this phase; the waiter asks for a parity that has not come round (wrong parity?)"
