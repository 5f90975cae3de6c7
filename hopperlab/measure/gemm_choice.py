"""Which configuration of gemm/final.cu (or gemm/stream_k.cu) a shape gets: a small cost model and a table of exceptions.

The model counts, in cycles of one SM, the waves of tiles, each bounded by the tensor core or by the L2.
Numbers are in MODEL. The table is not written here: it is read from the recording `ladder`, which
`python -m hopperlab.measure.ladder` writes.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from . import recordings
from .recordings import Record

SMS = 132
_STREAM_K = {"bn": "BN", "stages": "STAGES", "blocks": "BLOCKS"}   # field: its name among a record's options
_FINAL = {"bm": "BM", "cluster": "CLUSTER", "group": "GROUP", "slots": "C_SLOTS", "in_flight": "IN_FLIGHT",
          "tma_store": "TMA_STORE", **_STREAM_K}


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Final:
    """One configuration of gemm/final.cu; the fields are its macros in lower case, `blocks` the most CTAs."""

    bm: int = 128
    bn: int = 256
    stages: int = 3
    cluster: int = 2
    group: int = 8
    slots: int = 4
    in_flight: int = 0
    tma_store: int = 1
    blocks: int = SMS

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return (f"-DBM={self.bm}", f"-DBN={self.bn}", f"-DSTAGES={self.stages}", f"-DCLUSTER={self.cluster}",
                f"-DGROUP={self.group}", f"-DC_SLOTS={self.slots}", f"-DIN_FLIGHT={self.in_flight}",
                f"-DTMA_STORE={self.tma_store}")

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * (self.bm + self.bn) * 128 + self.tma_store * self.slots * 16384 + 128

    def without_tma_store(self) -> Final:
        """The same with plain stores, for a C whose rows are no multiple of 16 bytes."""
        return replace(self, tma_store=0)


@dataclass(frozen=True)
class StreamK:
    """One configuration of gemm/stream_k.cu."""

    bn: int = 256
    stages: int = 4
    blocks: int = SMS

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return f"-DBN={self.bn}", f"-DSTAGES={self.stages}"

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * (128 + self.bn) * 128 + 32768 + 128


@dataclass(frozen=True)
class Model:
    """What the cost model knows of the GPU. Cycles are an SM's; bytes a cycle are its share of the L2 and of memory."""

    products_per_cycle: float = 2048                        # bf16 multiply-adds of an SM's tensor cores
    l2_bytes_per_cycle: float = 45
    memory_bytes_per_cycle: float = 20
    start_cycles: float = 2500                              # launch, barriers, first loads
    tile_cycles: float = 600                                # an epilogue the tensor core does not work under
    # The tensor core's time for a tile BN wide over the ideal: it reads A from shared memory for fewer columns.
    slowdown: Mapping[int, float] = field(default_factory=lambda: {64: 1.35, 128: 1.12, 256: 1.0})


MODEL = Model()


def _block_cycles(bm: int, bn: int, cluster: int, model: Model) -> float:
    """Cycles of one k-block of 64: the tensor core's or the L2's, whichever is longer."""
    multiply = bm * bn * 64 / model.products_per_cycle * model.slowdown[bn]
    load = (bm + bn / cluster) * 128 / model.l2_bytes_per_cycle
    return max(multiply, load)


def cycles(choice: Final | StreamK, m: int, n: int, k: int, model: Model = MODEL) -> float:
    """Estimated cycles of a product of m x n x k with a configuration."""
    k_blocks = _ceil(k, 64)
    memory = 2 * (m * k + n * k + m * n) / model.memory_bytes_per_cycle / SMS
    if isinstance(choice, StreamK):
        tiles = _ceil(m, 128) * _ceil(n, choice.bn)
        share = tiles * k_blocks / choice.blocks
        fix_up = 2 * 128 * choice.bn * 4 / model.l2_bytes_per_cycle * 2     # two partial tiles: written, read
        return model.start_cycles + max(memory, share * _block_cycles(128, choice.bn, 1, model)) + fix_up
    tiles = _ceil(m, choice.bm * choice.cluster) * _ceil(n, choice.bn)
    waves = _ceil(tiles, choice.blocks // choice.cluster)
    tile = k_blocks * _block_cycles(choice.bm, choice.bn, choice.cluster, model) + model.tile_cycles
    return model.start_cycles + max(memory, waves * tile)


def candidates() -> Iterator[Final | StreamK]:
    """The configurations worth considering."""
    yield Final()
    yield Final(cluster=1)
    for cluster in (1, 2):
        yield Final(bn=128, stages=5, cluster=cluster, slots=2)
        yield Final(bn=64, stages=7, cluster=cluster, slots=1)
    yield StreamK()
    yield StreamK(bn=128, stages=6)


def _parsed(record: Record) -> Final | StreamK:
    """The configuration that a record's options name."""
    kind, macros = (StreamK, _STREAM_K) if record.kernel == "stream_k" else (Final, _FINAL)
    values = dict(option.split("=") for option in record.options)
    return kind(**{field: int(values[macro]) for field, macro in macros.items()})


def tuned(records: Iterable[Record]) -> dict[tuple[int, ...], Final | StreamK]:
    """The fastest configuration of each shape among records of gemm/final.cu and gemm/stream_k.cu that name one."""
    best: dict[tuple[int, ...], Record] = {}
    for record in records:
        named = record.kernel in ("final", "stream_k") and record.options and record.note
        if named and (record.shape not in best or record.tflops > best[record.shape].tflops):
            best[record.shape] = record
    return {shape: _parsed(record) for shape, record in best.items()}


@lru_cache(maxsize=1)
def table() -> Mapping[tuple[int, ...], Final | StreamK]:
    """The configurations measured to be fastest, from the recording `ladder`; empty where there is none."""
    return tuned(recordings.load("ladder")) if "ladder" in recordings.names() else {}


def choose(m: int, n: int, k: int) -> Final | StreamK:
    """The configuration for a product of m x n x k: the table's, else the one with the fewest estimated cycles."""
    return table().get((m, n, k)) or min(candidates(), key=lambda choice: cycles(choice, m, n, k))
