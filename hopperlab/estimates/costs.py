# SPDX-License-Identifier: Apache-2.0
"""What a run of PTX instructions costs a warp: issue slots, the time of each unit that warps share, and how long it takes if it meets no other.

PTX is not what runs: ptxas merges, moves and deletes. So classes have weights (boards.py: ISSUE), which are fitted, and how long a warp takes alone is what data
dependences and its units ask for, as if the compiler had ordered everything else well.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..emulator.observe.classes import instruction_class
from .boards import Board

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..emulator.ptx.ir import Instr

SPECIAL = frozenset("ex2 lg2 rcp rsqrt sin cos sqrt tanh".split())
FREE = frozenset("mov cvta bra ret exit".split())
BRANCH = 25.0               # cycles of a branch, with what brings lanes together behind it (Nsight's samples of the end of a tile of attention, H100),
BACK = 6.0                  # and of one back to the head of a loop (stall counts of its machine code)
STORED = 43.0               # cycles until what is stored into shared memory has left its registers (marks of the clock in attention/forward_fp8.cu: transposing warps)
DENORMAL = frozenset("ex2 lg2 rsqrt sqrt".split())
SCALED = 3                   # instructions that ptxas adds to one of these whose operand or result may be denormal (machine code)
PRECISE = 10                 # instructions that ptxas makes of a reciprocal, a quotient or a root that is rounded to nearest,
PRECISE_LATENCY = 100        # and cycles until it is there (Nsight's samples of the end of a tile of attention, H100)
DIVISION = 20                # instructions that ptxas makes of one of integers, nearly all of which wait for the one before
HALVED = frozenset("max min setp selp set slct".split())      # of floats, too, by the pipe of integers
PACKED = frozenset("bf16x2 f16x2".split())
STAYING = frozenset("max min selp".split())
CHAINED = frozenset("max min".split())
SECTOR = 32
LOADED, PUT = 80.0, 90.0     # bytes as long as a request takes that asks for fewer, or stores fewer (benchmarks/lanes.py, streams of bytes)
FOLLOWED = frozenset("bar barrier fence membar".split())


@dataclass(frozen=True)
class Cost:
    """Of one warp. issue: slots of its scheduler; chain: cycles until the result is there, of one instruction; tensor: cycles of mma.sync on its part's tensor core;
    special: cycles of the unit for exponentials and the like; port: cycles of the SM's port to shared memory and L1; loaded, stored: bytes of global memory moved by
    lanes; alu: cycles of the pipe of half the lanes; stays: of these, what ptxas leaves as it is: it makes fewer of integers; alone: cycles of a warp that meets no
    other (`alone`)."""

    issue: float = 0.0
    chain: float = 0.0
    tensor: float = 0.0
    special: float = 0.0
    port: float = 0.0
    loaded: float = 0.0
    stored: float = 0.0
    alu: float = 0.0
    stays: float = 0.0
    alone: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.issue + other.issue, self.chain + other.chain, self.tensor + other.tensor, self.special + other.special, self.port + other.port,
                    self.loaded + other.loaded, self.stored + other.stored, self.alu + other.alu, self.stays + other.stays, self.alone + other.alone)


@dataclass(frozen=True)
class Priced:
    """An instruction's cost, and the registers that it reads and writes. follows: what stands behind it waits for it, though it writes none; chained: of the chains of
    which ptxas has one at a time; sums: float arithmetic; turns: a branch that is one in the machine code, too; least: cycles that it takes of a warp that meets no
    other, on average (numbers that are all scaled by the same one take a slot each); far: of lanes' own accesses of global memory (lane_loads.py) "load", "store",
    or "read" for a load of what nobody writes, which ptxas moves over stores."""

    cost: Cost
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    follows: bool
    chained: bool
    sums: bool
    turns: bool
    least: float
    far: str = ""


def priced(instr: Instr, counts: Mapping[str, int], board: Board, turns: bool = False) -> Priced:
    """An instruction, as `alone` wants it."""
    cost = single(instr, counts, board)
    sums = instruction_class(instr) == "float" and not (cost.special or cost.alu)
    reads, writes = (tuple(reg.name for reg in registers) for registers in (instr.srcs(), instr.dsts()))
    least = cost.issue * (1.0 if sums and instr.op == "mul" else board.number("issue_alone"))
    far = "" if "lanes" not in counts else "store" if instr.op == "st" else "read" if "nc" in instr.mods else "load"
    return Priced(cost, reads, writes, instr.op in FOLLOWED, instr.op in CHAINED, sums, turns, least, far)


def alone(pieces: Sequence[Sequence[Priced]], again: Sequence[float | None], board: Board) -> list[float]:
    """Cycles of a warp that meets no other, of pieces that stand one after the other: by how much each of them is done later than those before it. again: cycles from its
    end to the next one's beginning where a loop begins anew (BACK) or branches meet (0), else None.

    An instruction begins when what it reads is there and its unit is free, in any order but over a branch: behind one nothing begins before all before it is done;
    where branches meet, and in a loop, nothing before all before it has begun. Float arithmetic whose result nothing here reads comes last if it needs something from
    here (o, scaled), else when there is nothing else to do (o, to which products are added). All of this as the machine code of attention/*.cu has it."""
    chained, ready = board.number("chain_alone"), dict[str, float]()
    read = {name for piece in pieces for one in piece if one.cost.issue for name in one.reads if name not in one.writes}
    done = issued = least = special = maxima = turned = last = put = 0.0
    found = []
    earlier: Sequence[Priced] = ()
    for piece, back in zip(pieces, again, strict=True):
        before, behind, turn, earlier = done, 0.0, back == BACK or piece is earlier, piece
        if turn and _moves(piece):
            done = turned = least = last = _in_order(piece, max(done, turned + issued, least))
            issued, special, piece, back = 0.0, max(special, done), (), None
        for one in piece:
            cost = one.cost
            if one.sums and read.isdisjoint(one.writes):
                idle, least = ready.keys().isdisjoint(one.reads), least + cost.issue
                issued, behind = issued + idle * cost.issue, behind + (not idle) * cost.issue
                continue
            least += one.least
            start, put = _past_stores(one.far, max(turned, max((ready.get(name, 0.0) for name in one.reads), default=0.0)), put)
            last = max(last, start)
            if one.turns:
                turned = done = max(done, turned + issued) + BRANCH
                issued = 0.0
            start = max(start, special if cost.special else 0.0, maxima if one.chained else 0.0)
            special, maxima = start + cost.special if cost.special else special, maxima + one.chained * chained * cost.alu
            issued += cost.issue + cost.alu / 2
            ready.update(dict.fromkeys(one.writes, start + cost.chain))
            if one.writes or one.follows or cost.special:
                done = max(done, start + cost.chain)
        if back is not None:
            turned, issued = max(last, turned + issued) + back, 0.0
        done = max(max(done, turned + issued, special) + behind, least)
        found.append(done - before)
    return found


def _past_stores(far: str, start: float, put: float) -> tuple[float, float]:
    """When an access of global memory begins that could begin at `start`, and when the last store before the next one did. put: when the last one before it did."""
    start = max(start, put) if far == "load" else start
    return start, max(put, start) if far == "store" else put


def _moves(piece: Sequence[Priced]) -> bool:
    """Whether it loads from shared memory and stores there, or the like."""
    return any(one.cost.port and one.writes and not one.far for one in piece) and any(one.cost.port and not one.writes and not one.far for one in piece)


def _in_order(piece: Sequence[Priced], at: float) -> float:
    """When a turn of a loop is over that moves data within shared memory, begun at `at`: each waits for what it loads, and the next one for the registers."""
    there: dict[str, float] = {}
    for one in piece:
        at = max(at, max((there.get(name, 0.0) for name in one.reads), default=0.0)) + one.least
        if one.cost.port:
            there.update(dict.fromkeys(one.writes, at + one.cost.chain))
    return at + STORED + BACK


def precise(instr: Instr) -> bool:
    """Whether an instruction is a reciprocal, quotient or root that is rounded to nearest."""
    return instr.op in ("rcp", "div", "sqrt") and "rn" in instr.mods and "f64" not in instr.mods


def single(instr: Instr, counts: Mapping[str, int], board: Board) -> Cost:
    """One instruction: `chain` is its latency."""
    if instr.op in FREE:
        return Cost(issue=board.issue["free"])
    kind, number = instruction_class(instr), board.number
    if instr.op == "cvt" and instr.mods[-1] == "f32" and any(m in instr.mods for m in ("e4m3x2", "e5m2x2")):
        return Cost(1, board.latency["convert"], alu=number("narrow_cycles"), stays=number("narrow_cycles"))
    if precise(instr):
        return Cost(PRECISE, PRECISE_LATENCY, special=number("special_cycles"))
    if instr.op in SPECIAL:
        scaled = SCALED * (instr.op in DENORMAL and "ftz" not in instr.mods and instr.mods[-1] == "f32")
        return Cost(1 + scaled, number("special_latency") + 4 * scaled, special=number("special_cycles"))
    if instr.op == "mma" or instr.op == "wmma":
        return Cost(1, number("mma_latency"), tensor=_mma_cycles(instr, board))
    if kind == "memory":
        return _memory(instr, counts, board)
    if kind == "async_copy" and "shared" in instr.opcode and "bulk" not in instr.mods:
        requests = max(1, counts.get("cp_async_requests", 1))
        return Cost(1, 0, port=number("cp_async_port") * counts.get("cp_async_sectors", 16 * requests) / requests / 16)
    latency = board.latency.get(kind, 0.0)
    if kind == "float" and instr.op == "div":
        return Cost(10, 40, special=number("special_cycles"))
    if kind == "integer" and instr.op in ("div", "rem"):
        return Cost(DIVISION, 5 * DIVISION, special=number("special_cycles"), alu=DIVISION)
    issue = board.issue.get(kind, 1.0)
    alu = number("alu_cycles") * issue if kind in ("integer", "convert") or instr.op in HALVED else 0.0
    if kind == "integer":                                # ptxas has the other pipe do a part of them
        alu *= 1 - number("alu_spared") * (3.0 if instr.op in ("mul", "mad") else 1.0)
    return Cost(issue, latency, alu=alu, stays=alu if instr.op in STAYING or kind == "convert" and PACKED.intersection(instr.mods) else 0.0)


def _mma_cycles(instr: Instr, board: Board) -> float:
    shape = next((m for m in instr.mods if m.startswith("m") and "n" in m and "k" in m), "m16n8k16")
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    bits = 8 if any(t in instr.mods for t in ("s8", "u8", "e4m3", "e5m2")) else 32 if "tf32" in instr.mods else 16
    return board.number("mma_cycles") * int(m) * int(n) * int(k) * bits / (16 * 8 * 16 * 16)


def _memory(instr: Instr, counts: Mapping[str, int], board: Board) -> Cost:
    """ld, st, ldmatrix and the like, with what they cost on average where they ran."""
    if "const" in instr.mods:
        return Cost(board.issue["free"], 0)
    shared = counts.get("shared_load_wavefronts", 0) + counts.get("shared_store_wavefronts", 0)
    requests = counts.get("shared_load_requests", 0) + counts.get("shared_store_requests", 0) + counts.get("matrix_load_requests",
            0) + counts.get("matrix_store_requests", 0)
    if counts.get("shared_atomic_requests"):
        port = max(1.0, counts.get("shared_atomic_wavefronts", 0) / counts["shared_atomic_requests"])
        return Cost(1, board.number("shared_latency") + port if instr.dsts() else 0, port=port)
    if requests:
        return Cost(1, board.number("shared_latency") + shared / requests if instr.dsts() else 0, port=shared / requests)
    for way, field in (("load", "loaded"), ("store", "stored")):
        requests = counts.get(f"global_{way}_requests", 0)
        if requests:
            return _global(way, field, counts, requests, board, "cg" in instr.mods)
    for way in ("load", "store"):
        if counts.get(f"dsmem_{way}_bytes"):
            return Cost(1, board.number("dsmem_latency") if instr.dsts() else 0, port=32 * _width(instr) / board.number(f"dsmem_{way}"))
    if counts.get("global_atomic_requests"):
        sectors = counts.get("lane_atomic_sectors", 0) / counts["global_atomic_requests"]
        return Cost(1, board.number("l2_latency") + board.number("atomic_more") if instr.dsts() else 0, port=max(1.0, sectors / 4), stored=32 * sectors)
    if "param" in instr.mods:
        return Cost(board.issue["free"], 0)
    return Cost(1, board.latency["memory"] if instr.dsts() else 0, port=1)


def _width(instr: Instr) -> int:
    """Bytes of a lane's access."""
    lanes = next((int(m[1:]) for m in instr.mods if re.fullmatch(r"v[248]", m)), 1)
    return lanes * next((int(m[1:]) // 8 for m in reversed(instr.mods) if re.fullmatch(r"[bsuf](8|16|32|64|128)", m)), 4)


def _global(way: str, field: str, counts: Mapping[str, int], requests: int, board: Board, past_l1: bool) -> Cost:
    if "lane_missed" in counts and way == "load":
        return _loaded(counts, board)
    sectors, nbytes = counts[f"global_{way}_sectors"] / requests, counts[f"global_{way}_bytes"] / requests
    lines = sectors if nbytes <= 16 * sectors else max(1.0, sectors / 4)          # scattered sectors lie in lines of their own
    port = max(lines, nbytes / board.number("shared_bytes"))
    part = board.number("store_parts") if way == "store" and nbytes < 32 * sectors else 1.0
    part = 1 / board.number("l1_missed") if way == "load" and past_l1 else part
    moved: dict[str, Any] = {field: 32 * sectors * part}
    if way == "store" and "lanes" in counts:
        put = counts["lane_put_sectors"] / requests
        moved = {field: max(32 * put * (1.0 if counts["lane_whole"] else part), PUT * min(1.0, put))}
    return Cost(1, board.number("l1_latency") if way == "load" else 0, port=port, **moved)


def _loaded(counts: Mapping[str, float], board: Board) -> Cost:
    """A load of which it is known what the L1 has (lane_loads.py)."""
    requests, number = counts["global_load_requests"], board.number
    missed = counts["lane_missed"] / requests
    beyond = number("lane_load_l2") + counts["lane_far"] * number("lane_load_memory")
    return Cost(1, number("l1_latency") + min(1.0, missed) * beyond, port=counts["lane_wavefronts"] / requests,
                loaded=max(SECTOR * missed, LOADED * min(1.0, missed)))
