# SPDX-License-Identifier: Apache-2.0
"""Configurations of the kernels that multiply fastest, gemm/final.cu, gemm/split_k.cu and gemm/stream_k.cu, and those worth considering for a shape."""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from ..recordings import Record
from .named import Named

SMS = 132


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


NO_MACROS = ("BLOCKS", "PROMOTION")                         # fields that the launch needs, not the kernel


class _Configuration(Named):
    """A dataclass whose fields are a kernel's macros in lower case, but for NO_MACROS: `blocks`, the most CTAs of a launch, and `promotion`."""

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return tuple(f"-D{name}" for name in self.named if name.partition("=")[0] not in NO_MACROS)


@dataclass(frozen=True)
class Final(_Configuration):
    """One configuration of gemm/final.cu. promotion: bytes that a miss of its operands fetches into the L2 (`l2_promotion`); fewer bring a
    CTA's first tile sooner, which counts where it has only one. b_mn: for a B that is stored k x n."""

    bm: int = 128
    bn: int = 256
    consumers: int = 2
    stages: int = 4
    cluster_m: int = 2
    cluster_n: int = 1
    group: int = 8
    c_slots: int = 2
    in_flight: int = 1
    stagger: int = 1
    in_step: int = 0
    tma_store: int = 1
    blocks: int = SMS
    promotion: int = 256
    swapped: int = 0
    stream: int = 0
    split: int = 1
    b_mn: int = 0

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options: the choices, and what follows from them."""
        return (*super().options, *((f"-DWIDTH={self.width}",) if self.width != 64 else ()))

    @property
    def width(self) -> int:
        """Columns of the tile in a slot: the widest of which every CTA that shares a tile's k can finish whole ones."""
        if self.swapped:                                    # rows of C then: all of few, else a part
            columns, (whole, part) = self.bn // self.finishers, WIDEST_TURNED[self.consumers]
            return columns if columns <= whole else max(width for width in range(16, part + 1, 16) if columns % width == 0)
        return next((width for width in (64, 32, 16) if self.bn % (width * self.split) == 0), 16 if self.bn % 32 else 32 if self.bn % 64 else 64)

    @property
    def finishers(self) -> int:
        """CTAs, of those that share a tile's k, that finish a part of its columns."""
        least = 16 if self.swapped else self.width
        return next(count for count in range(self.split, 0, -1) if self.bn % (count * least) == 0)

    @property
    def slot_bytes(self) -> int:
        """Shared memory of a slot of C (TileStore::SLOT_BYTES)."""
        rows, columns = self.c_box
        return _ceil(rows * columns * 2, 1024) * 1024

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * ((self.bm + self.bn) * 128 + 16) + self.consumers * self.c_slots * self.slot_bytes

    @property
    def mail_bytes(self) -> int:
        """Of it, what the sums of the others take where the ring was, for SPLIT."""
        return (self.split - 1) * self.bm * self.bn // self.finishers * 4

    @property
    def pieces(self) -> int:
        """Slots of C that a consumer fills for a tile, `c_slots` at a time."""
        return self.bm // self.consumers // 64 * (self.bn // self.finishers // self.width)

    @property
    def c_box(self) -> tuple[int, int]:
        """Rows and columns of C that one TMA store takes: a slot."""
        return (self.width, 64) if self.swapped else (64, self.width)

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n * self.split

    @property
    def boxes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows and columns of the boxes by which a CTA loads its share of the left and of the right operand's tile."""
        left, right = (self.bm // self.cluster_n, 64), (self.bn // self.cluster_m, 64)
        if not self.b_mn:
            return left, right
        return ((64 // self.cluster_n, 64), right) if self.swapped else (left, (64 // self.cluster_m, 64))

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of cluster tiles, of the product as the kernel makes it (turned where it is swapped)."""
        rows, columns = (n, m) if self.swapped else (m, n)
        return _ceil(rows, self.bm * self.cluster_m), _ceil(columns, self.bn * self.cluster_n)

    def grid(self, m: int, n: int, k: int = 1 << 30) -> tuple[int, ...]:
        """One CTA per tile where group is 0; all `blocks`, if there is a k-block for each, where k-blocks are dealt out; else as few CTAs as
        make no more waves than `blocks` of them."""
        rows, columns = self.tiles(m, n)
        if self.group == 0:
            return self.cluster * rows, columns
        at_once = max(1, min(self.blocks // self.cluster, clusters_at_once(self.cluster)))       # no more than run at the same time: CTAs wait for others' sums
        if self.stream:
            return (self.cluster * min(at_once, rows * columns * _ceil(k, 64)),)
        return (self.cluster * _ceil(rows * columns, _ceil(rows * columns, at_once)),)

    def without_tma_store(self) -> Final:
        """The same with stores by each warp, for a C whose rows are no multiple of 16 bytes."""
        return replace(self, tma_store=0)


@dataclass(frozen=True)
class SplitK(_Configuration):
    """One configuration of gemm/split_k.cu; always a CTA per tile and part of k."""

    bn: int = 128
    split: int = 2
    stages: int = 6
    in_flight: int = 1
    stream_b: int = 0
    tma_store: int = 1

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * (128 + self.bn) * 128 + 128

    def without_tma_store(self) -> SplitK:
        """The same with plain stores, for a C whose rows are no multiple of 16 bytes."""
        return replace(self, tma_store=0)


@dataclass(frozen=True)
class StreamK(_Configuration):
    """One configuration of gemm/stream_k.cu."""

    bn: int = 256
    stages: int = 4
    blocks: int = SMS

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * (128 + self.bn) * 128 + 32768 + 128


Choice = Final | SplitK | StreamK
KINDS: Mapping[str, type[Final | SplitK | StreamK]] = {"final": Final, "split_k": SplitK, "stream_k": StreamK}


def kernel_of(choice: Choice) -> str:
    """Name of the kernel (and recorded step) that a configuration belongs to."""
    return next(name for name, kind in KINDS.items() if isinstance(choice, kind))


CLUSTERS = {1: SMS, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
"""Clusters of so many CTAs that fit on an H200 at a time, where each CTA fills an SM (cudaOccupancyMaxActiveClusters)."""


CLUSTER_SHAPES = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
"""CTAs of a cluster, one above the other (they share B) and side by side (they share A)."""
MOST_IN_FOURS = 400                                         # tiles, above which clusters of four and more, which leave a tenth of the SMs idle, never won


def clusters_at_once(ctas: int) -> int:
    """How many clusters of so many CTAs fit on the GPU at a time."""
    return CLUSTERS.get(ctas, SMS // ctas)


def per_sm(choice: Choice) -> int:
    """CTAs of it that one SM holds at a time, where a launch brings a CTA per tile: two only of a single consumer's small tiles."""
    small = isinstance(choice, Final) and choice.group == 0 and choice.bm == 64 and choice.bn <= 128
    return 2 if small and 2 * (choice.shared_bytes + 1024) <= 233472 else 1


SHARED_BYTES, SLOTS_BYTES = 232448, 20480                   # of a CTA; of C, of a consumer
WIDEST_TURNED = {1: (128, 96), 2: (128, 96), 3: (64, 64)}   # by consumers: columns of a turned tile that leave as one slot, and the most in a slot where more do
FEW_STAGES, MOST_STAGES = 4, 10                             # with more than the latter 250 launches took 2.5 per cent longer; see deepest
FEW_TILES = SMS * 128 * 160                                 # elements of C: a tile of 128x160 for each SM
DEEP_COLUMNS = 64                                           # least, of a tile with more than MOST_STAGES: narrower ones, of 14 to 22 stages, lost
FEW = (16, 256, 1024), (2048, 4096, 16384)                  # least and most m, n, k of products of few tiles
SMALL_BYTES = 10e6                                          # of both operands: below, 128 bytes a miss bring the first tile sooner; above, 256 use memory better


def _fitted(choice: Final) -> Final | None:
    """The configuration with as many slots of C as a consumer has room for in SLOTS_BYTES beside FEW_STAGES, and as many stages as fit; None where
    too few do, or the mail has no room."""
    best = None
    counts = sorted({_ceil(choice.pieces, rounds) for rounds in range(1, choice.pieces + 1) if choice.swapped or choice.pieces % rounds == 0})
    for slots in (count for count in counts if count == 1 or count * choice.slot_bytes <= SLOTS_BYTES):
        stages = (SHARED_BYTES - replace(choice, c_slots=slots, stages=0).shared_bytes) // ((choice.bm + choice.bn) * 128 + 16)
        if best is None or stages >= FEW_STAGES or stages == best.stages:
            best = replace(choice, c_slots=slots, stages=min(MOST_STAGES, stages))
    return best if best and best.stages >= 3 and best.mail_bytes <= best.stages * (best.bm + best.bn) * 128 else None


def few_tiles(m: int, n: int, k: int) -> bool:
    """A product of few tiles and a deep k, where the copies' latency counts: those that the choice's second trees were fitted on."""
    return m * n <= FEW_TILES and all(low <= size <= high for size, low, high in zip((m, n, k), *FEW, strict=True))


def deepest(choice: Final, m: int, n: int, k: int) -> Final | None:
    """The same with as many stages as fit, beyond MOST_STAGES: one consumer's only tile of few, k in two parts at most. None where that is not so."""
    stages = (SHARED_BYTES - replace(choice, stages=0).shared_bytes) // ((choice.bm + choice.bn) * 128 + 16)
    alone = choice.consumers == 1 and choice.group == 0 and math.prod(choice.tiles(m, n)) <= clusters_at_once(choice.cluster)
    more = MOST_STAGES < min(stages, _ceil(_ceil(k, 64), choice.split)) and choice.split <= 2 and choice.bn >= DEEP_COLUMNS
    return replace(choice, stages=stages) if few_tiles(m, n, k) and alone and more else None


def _heights(columns: int) -> Iterator[tuple[int, int]]:
    """(rows of a tile, consumers) that fit beside so many columns."""
    yield 64, 1
    yield 128, 2
    if 96 <= columns <= 192:
        yield 192, 3
    if columns <= 192:
        yield 256, 2


def _widths(m: int, n: int) -> Iterator[tuple[int, int]]:
    """(columns of a tile, swapped) worth considering: by 16 to either side, since what is left over at C's edges differs; where m is small, its own
    width in whole or in parts."""
    yield from ((columns, 0) for columns in range(32, min(256, max(32, 16 * _ceil(n, 16))) + 1, 16))
    if m > 1024:
        yield from ((columns, 1) for columns in range(80, 241, 16))
        return
    fitting = sorted({16 * _ceil(_ceil(m, parts), 16) for parts in range(_ceil(m, 256), _ceil(m, 256) + 4)})
    yield from ((columns, 1) for columns in fitting if columns <= 256)


def _tiled(m: int, n: int, k: int, columns: int, swapped: int) -> Iterator[Final]:
    """Configurations of final.cu with tiles of so many columns."""
    for rows, consumers in _heights(columns):
        for up, across in CLUSTER_SHAPES:
            if columns % (8 * up) or rows % (8 * across):      # a part of a tile begins where the swizzle does
                continue
            choice = Final(rows, columns, consumers, 0, up, across, 16 // up, 1, stagger=int(consumers == 2 and rows == 128), swapped=swapped)
            high, wide = _ceil(n if swapped else m, rows), _ceil(m if swapped else n, columns)
            if high < up or wide < across or (up * across >= 4 and high * wide > MOST_IN_FOURS):
                continue
            tiles, at_once = math.prod(choice.tiles(m, n)), clusters_at_once(choice.cluster)
            single = replace(choice, group=0, stagger=0, promotion=128 if 2 * k * (m + n) < SMALL_BYTES else 256)
            if tiles <= 2 * at_once:
                yield single
            if tiles > at_once:
                yield replace(choice, in_step=int(m * n >= 1 << 25))
            if tiles % at_once and tiles > at_once // 3:
                yield replace(choice, stream=1)
            for split in range(2, 8 // choice.cluster + 1):
                sums = rows // consumers * columns // 128          # a thread's; with more, the exchange would spill
                if tiles <= clusters_at_once(choice.cluster * split) and _ceil(k, 64) >= 4 * split and sums <= 128:
                    yield replace(single, split=split)


def candidates(m: int, n: int, k: int, b_mn: bool = False) -> Iterator[Final]:
    """Every configuration worth considering for a product of m x n x k. b_mn: B is stored k x n, in panels of 64 columns."""
    for columns, swapped in _widths(m, n):
        if not b_mn or swapped or columns % 64 == 0:
            found = list(filter(None, (_fitted(replace(choice, b_mn=int(b_mn))) for choice in _tiled(m, n, k, columns, swapped))))
            yield from found
            yield from filter(None, (deepest(choice, m, n, k) for choice in found))


def parsed(record: Record) -> Choice:
    """The configuration that a record's options name. Raises KeyError for a kernel that has none, ValueError for a strange option."""
    values = dict(option.split("=") for option in record.options if not option.startswith("WIDTH="))        # which follows from the others
    return KINDS[record.kernel](**{name.lower(): int(value) for name, value in values.items()})


def choice_named(named: Iterable[str]) -> Choice | None:
    """The configuration of final.cu that `named` gave; None where it has choices that this version does not know."""
    values = dict(part.split("=") for part in named)
    if {name.lower() for name in values} - {f.name for f in fields(Final)}:
        return None
    return Final(**{name.lower(): int(value) for name, value in values.items()})
