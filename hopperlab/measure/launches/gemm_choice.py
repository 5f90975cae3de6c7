# SPDX-License-Identifier: Apache-2.0
"""Which configuration of gemm/final.cu (or gemm/split_k.cu, gemm/stream_k.cu) a shape gets: a small cost model and a table.

The model counts, in cycles of one SM, the waves of tiles, each bounded by the tensor core or by the L2.
Numbers are in MODEL. The table is not written here: it is read from the recording `ladder`, which
`hopperlab bench ladder` writes.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

from .. import recordings
from ..recordings import Record

SMS = 132


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


NO_MACROS = ("BLOCKS", "PROMOTION")                         # fields that the launch needs, not the kernel


class _Configuration:
    """A dataclass whose fields are a kernel's macros in lower case, but for NO_MACROS: `blocks`, the most CTAs of a launch, and `promotion`."""

    @property
    def named(self) -> tuple[str, ...]:
        """Every choice as NAME=value: what a record's options hold, and `parsed` reads."""
        return tuple(f"{f.name.upper()}={getattr(self, f.name)}" for f in fields(self))

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return tuple(f"-D{name}" for name in self.named if name.partition("=")[0] not in NO_MACROS)


@dataclass(frozen=True)
class Final(_Configuration):
    """One configuration of gemm/final.cu. promotion: bytes that a miss of its operands fetches into the L2 (`l2_promotion`); fewer bring a
    CTA's first tile sooner, which counts where it has only one."""

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

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * (self.bm + self.bn) * 128 + self.consumers * self.c_slots * 8192 + 128

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of cluster tiles."""
        return _ceil(m, self.bm * self.cluster_m), _ceil(n, self.bn * self.cluster_n)

    def grid(self, m: int, n: int) -> tuple[int, ...]:
        """One CTA a tile where group is 0; else as few CTAs as make no more waves than `blocks` of them."""
        rows, columns = self.tiles(m, n)
        if self.group == 0:
            return self.cluster * rows, columns
        waves = _ceil(rows * columns, max(1, self.blocks // self.cluster))
        return (self.cluster * _ceil(rows * columns, waves),)

    def without_tma_store(self) -> Final:
        """The same with stores by each warp, for a C whose rows are no multiple of 16 bytes."""
        return replace(self, tma_store=0)


@dataclass(frozen=True)
class SplitK(_Configuration):
    """One configuration of gemm/split_k.cu; always a CTA a tile and part of k."""

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


@dataclass(frozen=True)
class Model:
    """What the cost model knows of the GPU. Cycles are an SM's; bytes a cycle are its share of the L2 and of memory."""

    products_per_cycle: float = 2048                        # bf16 multiply-adds of an SM's tensor cores
    l2_bytes_per_cycle: float = 45
    memory_bytes_per_cycle: float = 20
    added_bytes_per_cycle: float = 8                        # atomic additions
    split_lines: float = 1.75                               # L2 sectors of rows that begin inside a 128-byte line, over those that do not
    start_cycles: float = 2500                              # launch, barriers, first loads
    tile_cycles: float = 600                                # an epilogue the tensor core does not work under
    # The tensor core's time for a tile BN wide over the ideal: it reads A from shared memory for fewer columns.
    slowdown: Mapping[int, float] = field(default_factory=lambda: {64: 1.35, 128: 1.12, 256: 1.0})


MODEL = Model()


def _block_cycles(bm: int, bn: int, shared: int, model: Model) -> float:
    """Cycles of one k-block of 64: the tensor core's or the L2's, whichever is longer. shared: rows that another CTA loads."""
    multiply = bm * bn * 64 / model.products_per_cycle * model.slowdown[bn]
    load = (bm + bn - shared) * 128 / model.l2_bytes_per_cycle
    return max(multiply, load)


def cycles(choice: Choice, m: int, n: int, k: int, model: Model = MODEL, whole_lines: bool = True) -> float:
    """Estimated cycles of a product of m x n x k with a configuration. whole_lines: the rows of both operands begin at multiples of
    128 bytes."""
    if not whole_lines:
        model = replace(model, l2_bytes_per_cycle=model.l2_bytes_per_cycle / model.split_lines)
    k_blocks = _ceil(k, 64)
    memory = 2 * (m * k + n * k + m * n) / model.memory_bytes_per_cycle / SMS
    if isinstance(choice, StreamK):
        tiles = _ceil(m, 128) * _ceil(n, choice.bn)
        share = tiles * k_blocks / choice.blocks
        fix_up = 2 * 128 * choice.bn * 4 / model.added_bytes_per_cycle      # two partial tiles, added up in the L2
        return model.start_cycles + max(memory, share * _block_cycles(128, choice.bn, 0, model)) + fix_up
    if isinstance(choice, SplitK):
        waves = _ceil(_ceil(m, 128) * _ceil(n, choice.bn) * choice.split, SMS)
        fix_up = 2 * 128 * choice.bn * 4 / model.l2_bytes_per_cycle         # the exchange: sent, received
        tile = _ceil(k_blocks, choice.split) * _block_cycles(128, choice.bn, 0, model) + fix_up + model.tile_cycles
        return model.start_cycles + max(memory, waves * tile)
    rows, columns = choice.tiles(m, n)
    waves = _ceil(rows * columns, choice.blocks // choice.cluster)
    shared = choice.bn - choice.bn // choice.cluster_m + choice.bm - choice.bm // choice.cluster_n
    tile = k_blocks * _block_cycles(choice.bm, choice.bn, shared, model) + model.tile_cycles
    return model.start_cycles + max(memory, waves * tile)


def candidates(m: int = 8192, n: int = 8192) -> Iterator[Choice]:
    """The configurations worth considering for a result of m x n."""
    yield Final(in_step=int(m * n >= 1 << 25))
    yield Final(cluster_m=1, group=16)
    yield SplitK(stream_b=int(m <= 128))                    # before the small tiles: where memory is the limit, they tie
    yield Final(bn=128, stages=5, cluster_m=1, stagger=0)
    yield Final(bm=64, bn=128, consumers=1, stages=8, group=0, stagger=0, promotion=128)
    yield Final(bn=64, stages=8, c_slots=1, cluster_m=1, stagger=0)
    yield StreamK(bn=128, stages=6)


def parsed(record: Record) -> Choice:
    """The configuration that a record's options name. Raises KeyError for a kernel that has none, ValueError for a strange option."""
    values = dict(option.split("=") for option in record.options)
    return KINDS[record.kernel](**{name.lower(): int(value) for name, value in values.items()})


def tuned(records: Iterable[Record]) -> dict[tuple[int, ...], Choice]:
    """The fastest configuration of each shape among records of the kernels of KINDS that name one."""
    best: dict[tuple[int, ...], Record] = {}
    for record in records:
        if record.kernel not in KINDS or not record.note or not record.options:
            continue
        known = {f.name.upper() for f in fields(KINDS[record.kernel])}     # a choice that came later has its default there
        readable = {option.partition("=")[0] for option in record.options} <= known
        if readable and (record.shape not in best or record.tflops > best[record.shape].tflops):
            best[record.shape] = record
    return {shape: parsed(record) for shape, record in best.items()}


@lru_cache(maxsize=1)
def table() -> Mapping[tuple[int, ...], Choice]:
    """The configurations measured to be fastest, from the recording `ladder`; empty where there is none."""
    return tuned(recordings.load("ladder")) if "ladder" in recordings.names() else {}


def choose(m: int, n: int, k: int, whole_lines: bool | None = None, known: Mapping[tuple[int, ...], Choice] | None = None) -> Choice:
    """The configuration for a product of m x n x k: that of `known` (None: the table) for the next full tile (128 x 256 x 64), else the
    one with the fewest estimated cycles.

    whole_lines: the rows of both operands begin at multiples of 128 bytes, as they do in `known`; None: as rows without gaps do.
    """
    whole = k % 64 == 0 if whole_lines is None else whole_lines
    full = 128 * _ceil(m, 128), 256 * _ceil(n, 256), 64 * _ceil(k, 64)
    found = (table() if known is None else known).get(full) if whole else None
    return found or min(candidates(m, n), key=lambda choice: cycles(choice, m, n, k, MODEL, whole))
