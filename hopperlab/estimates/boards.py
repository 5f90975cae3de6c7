# SPDX-License-Identifier: Apache-2.0
"""Constants of a board, each with the recording that it comes from, or with the kernels on which it was fitted.

What stands in a recording is read from the board's own (readings.py). What was fitted was fitted on the H200; another board has it as it is, or moved by what
its recordings say of it, or, where nothing does, fitted anew. `board` finds one by name.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from ..measure import recordings
from . import readings


@dataclass(frozen=True)
class Constant:
    """value, its unit, and where it comes from: a recording (file: kernel, options, field), or "fitted" and on what."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Board:
    """constants: by name; wgmma: cycles of m64nNk16 and its like, by (A in registers, n); issue, latency: by class of PTX instruction, in slots and cycles."""

    name: str
    title: str
    constants: Mapping[str, Constant]
    wgmma: Mapping[tuple[bool, int], float]
    issue: Mapping[str, float] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """A constant's value. Raises KeyError for one that the table lacks."""
        return self.constants[name].value

    def having(self, **values: float) -> Board:
        """The same with other values of some constants."""
        return replace(self, constants={**self.constants, **{name: replace(self.constants[name], value=value) for name, value in values.items()}})

    def wgmma_cycles(self, n: int, registers: bool) -> float:
        """Cycles of the tensor core for 64 rows, n columns and 32 bytes of k."""
        known = sorted(size for rs, size in self.wgmma if rs == registers)
        below, above = max((s for s in known if s <= n), default=known[0]), min((s for s in known if s >= n), default=known[-1])
        low, high = self.wgmma[(registers, below)], self.wgmma[(registers, above)]
        return low if above == below else low + (high - low) * (n - below) / (above - below)

    def cluster_barrier(self, threads: int, release: bool) -> float:
        """Cycles until the threads of a cluster have met, with so many of them in a CTA; release: what they wrote before is to be seen after."""
        name = "cluster_barrier" if release else "cluster_relaxed"
        known = readings.CLUSTER_THREADS
        return float(np.interp(threads, known, [self.number(f"{name}_{n}") for n in known]))


POWER = "fitted on clocks that were counted (benchmarks/counted_draws.py, profiles.json): what a cycle asks of the board lowers the clock"
COUNTED = "fitted on clocks that were counted in 16 draws of attention (both boards), where tensor cores are used: "
_FITTED = {
    "sms": (132, "SMs", "hopper/limits.py"),
    "launch_us": (2.8, "us", "fitted; an empty kernel between events takes 2.8"),
    "start_cycles": (2300, "cycles", "fitted: from launch to a CTA's first instruction"),
    "next_cta": (300, "cycles", "fitted: from the end of a CTA to the next one's first instruction"),
    "tma_latency_memory": (1150, "cycles", "fitted, with all SMs loading; alone micro.json: tma_latency 1x64 from=memory, 739"),
    "tma_first": (800, "cycles", "fitted, weakly (docs/estimates.md, Errors): before the first tensor or bulk load of an SM goes out"),
    "lane_load_l2": (280, "cycles", "fitted (benchmarks/lanes.py, streams): what lanes wait longer for what the L2 has than for what the L1 has,"),
    "lane_wait": (500, "cycles", "fitted (the same): their wait in memory that is fully used"),
    "lane_load_memory": (500, "cycles", "fitted (the same): and how much longer for what memory brings"),
    "lane_store_end": (170, "cycles", "fitted (the same): from the last store of a CTA's lanes to its end"),
    "lane_l2_bytes": (25, "bytes/cycle/SM", "benchmarks/lanes.py, sectors: what the L2 gives lanes of all SMs"),
    "cta_launch": (158, "cycles", "benchmarks/lanes.py, launches: from a CTA of an SM to the next one, where all SMs are given some"),
    "lane_latency_memory": (560, "cycles", "fitted"),
    "l2_bytes": (59.0, "bytes/cycle/SM", "fitted"),
    "l2_asked": (41.5, "bytes/cycle of its own/SM", "benchmarks/merged_products.py (38 to 44), and fitted on cycles counted: what the L2 is asked for, where it bounds"),
    "l2_most": (80, "bytes/cycle/SM", "benchmarks/merged_products.py (73, where products bound): what an SM gets of the L2 where its neighbours ask for the same"),
    "l2_merged": (3.3, "times", "benchmarks/merged_products.py on both boards: requests of neighbours for a line that become one, of CTAs that go on together"),
    "l2_merged_apart": (1.35, "times", "benchmarks/merged_products.py on both boards (1.3 to 1.8): the same of CTAs that share tiles along k and wait for loads"),
    "l2_merged_along_k": (1.85, "times", "benchmarks/merged_products.py on both boards (1.4 to 2.1): and of those whose tensor cores never rest"),
    "l2_merged_begun": (1.5, "times", "fitted on 290 draws of gemm/final.cu with STREAM: and of what others ask for at the same time, at first"),
    "l2_sent": (34, "bytes/cycle/SM", "fitted on the same draws, those in clusters: as l2_asked, of what goes to several CTAs at once"),
    "l2_mhz": (1700, "MHz", "benchmarks/merged_products.py on both boards: the L2's own clock, whatever that of the SMs is"),
    "l2_merged_clusters": (1.15, "times", "benchmarks/merged_products.py on both boards (1.1 to 1.6), and fitted on 322 draws of gemm/final.cu in clusters: the same "
                           "of clusters, of what each of their CTAs loads for itself, of neighbours or not"),
    "l2_apart": (0.3, "share", "benchmarks/merged_products.py on both boards: of the time, that in which tensor cores are busy, where CTAs drift apart"),
    "l2_adrift": (0.3, "million cycles", "fitted, weakly: until they have drifted as far as they do"),
    "l2_anew": (10, "waves", "fitted: until CTAs that take the places of others have drifted apart"),
    "l2_held": (0.9, "share", "benchmarks/merged_products.py on both boards: and where they go on together"),
    "l2_merged_others": (1.08, "times", "benchmarks/merged_products.py on both boards (1 to 1.3), and fitted: requests of others that become one"),
    "store_bytes": (25.1, "bytes/cycle/SM", "fitted"),
    "memory_wait": (1000, "cycles", "fitted (attention of length 512, drawn on an H100): a load's wait in memory that is fully used"),
    "memory_queue": (1600, "cycles", "fitted on cycles counted in 16 draws of attention, lengths of 1100 or less (both boards): the same where tiles differ in length"),
    "memory_burst": (32768, "bytes", "fitted, weakly (the same): that an SM may ask for at once there, while others ask for nothing"),
    "store_apart": (43, "bytes/cycle", "fitted on marks of the clock in attention/forward.cu (H200): what the engine reads of tiles that end at different times"),
    "store_alone": (32, "bytes/cycle", "fitted (the same): and of one warpgroup's"),
    "tile_more": (130, "cycles", "fitted (the same): what the end of a tile takes longer than its instructions say, and as long what comes before the next one"),
    "l2_again": (1.12, "times", "benchmarks/repeated_boxes.py on an H200: of the L2's time, what an SM asks for again while the same is on its way to it"),
    "l2_wait": (506, "cycles", "fitted: a load's wait in an L2 that is fully used"),
    "store_parts": (1.9, "times", "benchmarks/rows_and_stores.py on an H100, 132 SMs beside 4: lanes' stores of parts of sectors"),
    "memory_crowd": (700, "cycles", "fitted on marks of the clock in attention/*.cu (H200): a load's wait in its first tile, where all SMs ask for the same at once"),
    "memory_late": (0.5, "share", "fitted (draws of attention, one consumer): of memory's latency beyond the L2's, what later loads wait for what others have brought,"),
    "memory_follow": (4, "share", "fitted (the same): and how much more for each that memory brings itself"),
    "store_parts_apart": (1.6, "times", "fitted (benchmarks/blocks_and_tiles.py): the same of attention, whose tiles end at different times"),
    "store_parts_few": (1.3, "times", "fitted on launches of attention/forward_fp8.cu of fewer CTAs than SMs (marks of the clock: 16 store a tile in 9,000 cycles, "
                        "132 in 13,000): the same of very few CTAs"),
    "l2_row": (81, "bytes", "benchmarks/rows_and_stores.py on an H100, rows of 64 and of 128 bytes: what a row of a box takes of the L2's time, at least"),
    "l2_cut": (256, "bytes", "pitches.json: the same tiles over rows that are 16 bytes longer, PROMOTION=none and 256B: what a row that begins inside a sector takes "
               "of the L2's time beside its own bytes"),
    "mbarrier_look": (26, "cycles", "fitted to what benchmarks/waits.py takes on an H200 to hand over what was stored and to wait twice (213 cycles): what a wait for "
                      "a phase that is over takes longer than its instructions say, of warps that move data"),
    "mbarrier_told": (47, "cycles", "fitted to the same: and how much longer the next wait takes for each arrival before it"),
    "first_bytes": (327680, "bytes", "fitted on draws of attention, lengths up to 1100 (both boards): of an SM's first tile, what comes as slowly as its very first"),
    "staggered": (5000, "cycles", "fitted, weakly (attention with three CTAs on an SM): by how much the CTAs of an SM that draw tiles of many lengths are apart"),
    "store_latency": (600, "cycles", "fitted"),
    "l2_dirty_share": (0.35, "share", "fitted (mixed.json: int_weights int8 16x8192x8192, cold L2 beside clean L2): of lines pushed out, those that memory has to write"),
    "l2_size": (62_914_560, "bytes", "cudaDeviceProp.l2CacheSize (CUDA Programming Guide), read on an H200"),
    "l2_keeps": (30e6, "bytes", "from profiles.json (memory read): so much memory moves between two reads of a line, and the L2 still has it"),
    "l2_forgets": (42e6, "bytes", "from profiles.json (memory read): and so much, and it has none of it any more"),
    "ahead_held": (2.9, "k-blocks", "benchmarks/drift.py on an H100: loads that run no further ahead of their use hold CTAs together"),
    "ahead_free": (3.5, "k-blocks", "benchmarks/drift.py on an H100: and those that run so far ahead do not"),
    "apart_waves": (8, "waves", "benchmarks/drift.py on an H100: until CTAs that nothing holds together have drifted apart: all begin together"),
    "apart_slowly": (0.0117, "share/million cycles", "benchmarks/counted.py on an H100: of what persistent CTAs ask for as others did, what memory brings again"),
    "apart_waiting": (0.2, "share", "benchmarks/merged_products.py on both boards: the same of those that wait for what they load, at most"),
    "apart_waits": (3.0, "million cycles", "benchmarks/merged_products.py on both boards: and until when it grows"),
    "apart_from": (0.7, "million cycles", "benchmarks/counted.py on an H100: and since when"),
    "l1_latency": (33, "cycles", "fitted"),
    "shared_bytes": (128, "bytes/cycle", "32 banks of 4 bytes (CUDA Programming Guide); micro.json: stream space=shared reaches 124"),
    "sums_wait": (5000, "cycles", "fitted on the same draws: what the last CTA takes longer than the sampled one, and flags and fences of sums"),
    "special_cycles": (8, "cycles", "16 lanes a cycle and SM (CUDA Programming Guide, throughput of native arithmetic)"),
    "narrow_cycles": (4, "cycles", "benchmarks/beside_products.py on both boards (4.1): a conversion of two numbers to e4m3, in the pipe of half the lanes"),
    "issue_alone": (2, "cycles/slot", "fitted within stall counts of machine code (softmax of attention/*.cu: 2.0 to 2.3): a warp that meets no other, at least"),
    "chain_alone": (1.8, "times", "fitted within stall counts of machine code (softmax of attention/*.cu: 2.0): what the pipe of half the lanes takes longer for maxima,"
                    " of which ptxas does one chain after the other"),
    "alu_held": (0.8, "times", "fitted, weakly, on 156 drawn launches of attention (benchmarks/beside_products.py says 0.94 to 1.0, of one instruction): what the pipe "
                 "of half the lanes takes longer while the tensor core works"),
    "special_held": (0.34, "times", "benchmarks/beside_products.py on both boards (0.33 to 0.35; 0.52 with A in registers): and the unit for exponentials"),
    "wgmma_handed": (4, "cycles", "chosen, not fitted (from 1 to 8 eight estimates move by 1.3 per cent at most): until a warpgroup that handed over "
                     "a product computes the next one's descriptors; both take wgmma_issue"),
    "alu_spared": (0.0, "share", "of integer arithmetic, what ptxas has the pipe for floats do; where lanes move all data 0.3 (machine code, and fitted), else "
                    "within what was fitted"),
    "alu_cycles": (2, "cycles", "64 lanes a cycle and SM (CUDA Programming Guide, throughput of native arithmetic: integers, comparisons, conversions)"),
    "empty_tile": (660, "cycles", "fitted, weakly, on attention over sequences of unequal lengths (marks of the clock in attention/forward.cu: 660 to 1120 until a "
                   "producer has the number of its next tile): a tile that holds nothing"),
    "atomic_more": (330, "cycles", "fitted: that a sum in the L2 takes longer than a load; a producer of attention/forward.cu has the number of its tile after 660 "
                    "to 1120 cycles"),
    "special_latency": (20, "cycles", "fitted"),
    "mma_ahead": (278, "cycles", "fitted: mma.sync that a warp has under way while it goes on"),
    "port_ahead": (158, "cycles", "fitted: accesses of shared memory that warps have under way while they go on"),
    "cp_async_port": (8, "cycles", "fitted; micro.json: tma_issue HOW=cp.async is 199 for 8 KiB"),
    "l1_missed": (0.2, "share", "fitted: of what lanes load from global memory"),
    "store_queue": (1020, "bytes", "fitted: stores that an SM has under way before it waits"),
    "wgmma_fed": (1.03, "times", "benchmarks/merged_products.py on both boards: products take so much longer where copies bring what they multiply"),
    "fed_bytes": (30, "bytes/cycle", "fitted, weakly (attention with one consumer, where 16 arrive): from which on copies do so"),
    "meets": (0.3, "share", "fitted: of what others would hold it up at its scheduler and the unit for exponentials, what a warp meets that multiplies and takes turns"),
    "meets_crowded": (0.5, "share", "fitted, weakly, on 111 launches in 36 draws of attention/*.cu: the same where three"
                      " warpgroups take turns for their scores alone (OVERLAP=0)"),
    "split_met": (2.6, "times", "fitted on 18 draws of attention/forward.cu: by how much a softmax meets others the longer whose maxima are in several chains"),
    "alike_lost": (50_000, "cycles", "fitted on short launches of attention/forward_fp8.cu (marks of the clock: warpgroups of a CTA begin its first tile 10 cycles "
                   "apart, the second one some 100, and are 300 apart 40,000 cycles later): until they want exponentials at other times"),
    "wgmma_anew": (16, "cycles", "fitted: of the tensor core, before products of a warpgroup that has waited for all it had and worked on their sums"),
    "wgmma_ahead": (7, "products", "benchmarks/wgmma_ahead.py on an H200: of all warpgroups, under way when one goes on from handing over another"),
    "power_wgmma": (1.12, "", POWER),
    "power_mma": (1.3, "", "fitted, coarsely, on gemm, stages and the ladder at 4096 cubed: products by mma.sync are 2 per cent too slow on average"),
    "power_issue": (0.57, "", POWER),
    "power_float": (0.5, "", "fitted on clocks that were counted of 40 kernels without tensor cores (H200: 1,936 to 1,980 MHz): power_issue without tensor cores"),
    "power_arrived": (0.34, "at 50 bytes/cycle/SM", POWER),
    "power_read": (0.35, "at 50 bytes/cycle/SM", POWER),
    "power_memory": (2.1, "at 50 bytes/cycle/SM", POWER),
    "power_long": (0.34, "", POWER),
    "power_window": (8000, "us", POWER),
    "power_reacts": (56, "us", "fitted on marks of the clock in gemm/final.cu (H200, 3072 cubed): until a launch slows down by what it asks"),
    "first_mhz": (1840, "MHz", "fitted (the same, 33 launches of 2048 cubed, 12 MHz off): the clock until then, of tensor cores that do nothing"),
    "first_slope": (205, "MHz", "fitted (the same): and how much lower it is of those that never rest"),
    "first_memory": (4, "MHz/byte/cycle/SM", COUNTED + "and of what memory brings"),
    "reacts_mhz": (15, "MHz", COUNTED + "how much lower it is at first, when power has been looked at"),
    "rises_mhz": (90, "MHz", COUNTED + "and by how much it rises then, from 150 us to 900"),
    "power_slope": (0.34, "", POWER),
    "tensor_mhz": (1806, "MHz", "benchmarks/counted.py on an H100: the highest clock while tensor cores are used, the middle one of nine products that ask little"),
}
"""What was fitted on the H200, and what any Hopper board has."""
ISSUE = {"free": 0.0, "control": 1.0, "barrier": 1.0, "warp": 1.0, "memory": 1.0, "move": 0.5, "tensor": 1.0, "async_copy": 1.0, "mbarrier": 1.0, "convert": 1.0,
         "float": 1.0, "integer": 1.0, "other": 1.0}
LATENCY = {"control": 4, "barrier": 10, "warp": 24, "memory": 30, "move": 2, "mbarrier": 15, "convert": 4, "float": 4, "integer": 4}
FIRST = "h200"
TITLES = {"h200": "NVIDIA H200", "h100": "NVIDIA H100 (SXM)"}


def _more(reading: readings.Reading) -> Callable[[float, str], float]:
    return lambda value, board: value + reading.number(board) - reading.number(FIRST)


def _times(reading: readings.Reading) -> Callable[[float, str], float]:
    return lambda value, board: value * reading.number(board) / reading.number(FIRST)


MOVED: Mapping[str, tuple[Callable[[float, str], float], str]] = {
    "launch_us": (lambda value, board: {"h100": 3.8}[board], "fitted on this board; micro.json: cluster_launch CLUSTER=1 takes 1.8 longer here than on the H200"),
    "tma_latency_memory": (_more(readings.LONE_TENSOR), "the H200's (fitted), and what micro.json: tma_latency 1x64 from=memory takes longer here"),
    "lane_latency_memory": (_more(readings.LONE_LANE), "the H200's (fitted), and what micro.json: tma_latency HOW=ld.global from=memory takes longer here"),
    "first_mhz": (lambda value, board: {"h100": 1866}[board], "the H200's, fitted on this board: 1.4 per cent more, as Nsight counts at 2048 cubed"),
    "l2_bytes": (_times(readings.L2_READ), "the H200's (fitted), in proportion to micro.json: stream space=l2 WRITE=0, value"),
    "l2_asked": (lambda value, board: {"h100": 33}[board], "fitted on this board, on cycles counted in benchmarks/merged_products.py (29 to 35)"),
    "l2_size": (lambda value, board: {"h100": 52_428_800}[board], "cudaDeviceProp.l2CacheSize (CUDA Programming Guide), read on an H100"),
    "store_bytes": (_times(readings.L2_WRITE), "the H200's (fitted), in proportion to micro.json: stream space=l2 WRITE=1, value"),
}
"""Fitted constants that depend on L2, memory or launches: how another board's follow from the H200's and from both boards' recordings."""


def _fitted(name: str, board: str) -> Constant:
    value, unit, source = _FITTED[name]
    if board == FIRST or "fitted" not in source and name not in MOVED:
        return Constant(value, unit, source)
    if name in MOVED:
        move, said = MOVED[name]
        return Constant(move(value, board), unit, said)
    return Constant(value, unit, f"as the H200's, of the same die: {source}")


def own(constant: str, board: str) -> bool:
    """Whether a board has a fitted constant otherwise than the first one has it."""
    return board != FIRST and constant in _FITTED and _fitted(constant, board).value != _FITTED[constant][0]


def board(name: str | None = None) -> Board:
    """The constants of a board; None: of `default()`. Raises ValueError for an unknown one."""
    name = (name or default()).lower()
    if name not in TITLES:
        raise ValueError(f"no board {name!r} to estimate: there are {', '.join(TITLES)}")
    return _made(name)


@cache
def _made(name: str) -> Board:
    table = {constant: _fitted(constant, name) for constant in _FITTED}
    table.update({constant: Constant(row.number(name), row.unit, row.said) for constant, row in readings.ROWS.items()})
    return Board(name, TITLES[name], table, readings.wgmma(name), ISSUE, LATENCY)


def default() -> str:
    """The learner's board (recordings.nearest) where there are constants of it, else the first."""
    nearest = recordings.nearest()
    return nearest if nearest in TITLES else FIRST
