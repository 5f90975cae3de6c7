# SPDX-License-Identifier: Apache-2.0
"""What the L2 and memory give an SM, as its share of the chip's."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .boards import Board
from .sample import Sample, landed, written
from .together import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .draws import Lengths

SCATTERED = 6.0              # landings by which first tiles differ, from which on few store at the same time (marks: 7,500 to 9,500 cycles for 64 KiB, as where there
                             # are few CTAs)
IN_STEP = 60, 90             # landings of keys and values on an SM, in all, up to which attention's tiles end at the same time, and from which on they do not


@dataclass
class Memory:
    """What an SM's share of the chip gives. l2, store, lane_store: bytes a cycle that it loads, that the copy engine stores, and lanes; dram: bytes of memory a cycle;
    lanes: as l2, of what lanes load themselves, where it is known what the L1 has (0: it is not); lane_waits: as queued, of these;
    missed: share of loaded bytes that come from memory; cold: bytes that an SM loads at the latency of memory, at first;
    waited: cycles a load waits where others load as well; dirty: bytes that memory has to write because lines that come in push them out;
    share: of what comes in, as long as there are any; pace: of the SMs' clock, as a share of the highest: memory has its own, and is fewer
    cycles away where SMs slow down; rows: as l2, where rows of boxes take longer than their bytes, whatever the L2 is asked for (0: as l2);
    steps: as missed, of STEP bytes after STEP bytes of an SM, where they differ;
    queued: cycles that a load waits in memory beside its latency there; first: as missed, of what an SM asks for before it waits for anything, where that comes at once
    with what all others ask for (0: as the rest); begun: share of SMs that do; crowd: cycles that what is `cold` waits beside that, where all SMs ask for the
    same at once, and lines that it pushes out are all dirty (0: they do not); late: of memory's latency beyond the L2's, what everything else waits; burst: bytes
    that an SM may ask memory for at once, which
    has served others before (0: all SMs ask for as much at the same time); stream: bytes a cycle of a warpgroup's tile that the engine reads, where the L2 takes
    tiles at once, since they end at different times (0: it does not)."""

    l2: float
    store: float
    lane_store: float
    dram: float
    missed: float = 0.0
    cold: float = 0.0
    waited: float = 0.0
    queued: float = 0.0
    first: float = 0.0
    begun: float = 1.0
    late: float = 0.0
    crowd: float = 0.0
    burst: float = 0.0
    stream: float = 0.0
    dirty: float = 0.0
    share: float = 1.0
    pace: float = 1.0
    rows: float = 0.0
    steps: Sequence[float] = ()
    lanes: float = 0.0
    lane_waits: float = 0.0


@dataclass
class Traffic:
    """Bytes of a launch between SMs and the L2, and between it and memory, as far as it must be. dirty: that wait in the L2 to be written when it begins;
    share: of the lines that are pushed out those that are dirty, as long as there are any; fresh: of what is loaded, what comes at memory's latency;
    merged: of what SMs ask for, what the L2 is asked for (0: not known)."""

    loaded: float
    stored: float
    unique: float
    dirty: float = 0.0
    share: float = 1.0
    fresh: float = 1.0
    merged: float = 0.0

    @property
    def missed(self) -> float:
        """Share of loaded bytes that come from memory."""
        return min(1.0, self.unique / self.loaded) if self.loaded else 0.0

    @property
    def pushed(self) -> float:
        """Bytes that memory writes because of what is loaded: a full L2 takes a line in when it has given one up, and writes that if it is dirty.
        What is stored pushes out lines as well, but stays for a later launch to write: each has its share of them."""
        return self.unique * min(self.share, self.dirty / max(1.0, self.unique + self.stored))

    @property
    def memory(self) -> float:
        """Bytes that memory reads and writes."""
        return self.unique + self.stored + self.pushed

    @property
    def mixed(self) -> float:
        """How mixed memory's reads and writes are: 0 where it only does one of them, 1 where it does as much of both."""
        written = self.stored + self.pushed
        return 2 * min(written, self.unique) / self.memory if self.memory else 0.0


def l2_share(board: Board, active: int, asked: float = 0.0, mhz: float = 0.0) -> float:
    """Bytes a cycle that the L2 gives each of `active` SMs that all load. asked: of them, those that it is asked for (Traffic.merged); mhz: the SMs' clock (0: the
    L2's, which is its own)."""
    each = min(board.number("l2_most"), board.number("l2_asked") / asked * (board.number("l2_mhz") / mhz if mhz else 1.0)) if asked else board.number("l2_bytes")
    return min(board.number("tma_bytes"), each * board.number("sms") / max(1, active))


def outside_share(board: Board, active: int, mhz: float) -> float:
    """The same of what boxes have outside their arrays, at a clock of SMs: as long as the engine takes for it and after that as long as the L2, which is asked for all of
    it (benchmarks/out_of_bounds.py)."""
    asked = board.number("l2_asked") * board.number("l2_mhz") / mhz * board.number("sms") / max(1, active)
    return 1 / (1 / board.number("tma_bytes") + 1 / asked)


def dram_share(board: Board, active: int, mhz: float, mixed: float) -> float:
    """Bytes of memory that each of `active` SMs has in a cycle of its clock. Memory has a clock of its own: where SMs slow down, a cycle of theirs brings more.
    mixed: as in Traffic; to turn from reads to writes and back takes memory time."""
    rate = board.number("dram_gbs") + mixed * (board.number("dram_mixed_gbs") - board.number("dram_gbs"))
    return rate * 1e3 / mhz / max(1, active)


def queued(board: Board, used: float, apart: bool) -> float:
    """Cycles that a load waits in memory that is used for such a share of the time. apart: SMs do not ask for the same amount at the same time."""
    return board.number("memory_queue") * used ** 3 if apart else board.number("memory_wait") * used ** 4


def first_tiles(board: Board, lengths: Lengths | None, seen: Sequence[float], loaded: float, missed: float, first: float) -> list[float]:
    """Of what an SM loads, the share that memory brings, of STEP bytes after STEP bytes, where its CTAs draw tiles (else nothing). CTAs that ask for the same do so at
    the same time in their first tiles: of these, up to `first_bytes`, the share is `first`, of all the rest what is left of the mean. seen: lengths of the sampled CTA's
    tiles; loaded, missed: bytes of an SM, and the share of all of them."""
    if lengths is None or not len(lengths.drawn):
        return []
    own = min(board.number("first_bytes"), loaded * seen[0] * len(lengths.first) / float(lengths.all.sum()))
    return [first] * round(own / STEP) + [max(0.0, missed * loaded - first * own) / max(1.0, loaded - own)]


def serving(memory: Memory, board: Board, active: int, merged: float, mixed: float) -> Memory:
    """The same of fewer SMs at work. merged, mixed: as in Traffic."""
    mhz = memory.pace * board.number("clock_mhz")
    return replace(memory, l2=l2_share(board, active, merged, mhz), rows=l2_share(board, active), dram=dram_share(board, active, mhz, mixed))


def store_parts(sample: Sample, board: Board) -> float:
    """Times as long that lanes' stores of parts of sectors take of attention: the less, the fewer SMs store at all. Tiles end at different times, but not yet where few
    short ones follow each other; and where not all SMs have a second tile, fewer store it."""
    few, apart, together = (board.number(name) for name in ("store_parts_few", "store_parts_apart", "store_parts"))
    begun, lost = IN_STEP
    in_step = min(1.0, max(0.0, (lost - landed(sample)[0] / len(sample.ctas) / (written(sample) + 1) * sample.rounds) / (lost - begun)), max(0.0, sample.rounds - 1))
    all_of_them = apart + (together - apart) * in_step
    return few + (all_of_them - few) * min(1.0, sample.total / board.number("sms")) * (1 - _scattered(sample))


def _scattered(sample: Sample) -> float:
    """How far tiles end at different times from the first ones on, since these are so different: the standard deviation of their landings, of SCATTERED."""
    known = sample.lengths
    if known is None:
        return 0.0
    each = landed(sample)[0] / sum(sample.seen)
    return min(1.0, known.apart * each / SCATTERED)
