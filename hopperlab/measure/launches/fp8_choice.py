# SPDX-License-Identifier: Apache-2.0
"""Configurations of fp8/block_scaled.cu, and which one a shape gets: what was measured to be fastest there, else what a model of its time ranks first."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from .. import recordings
from .gemm_configurations import clusters_at_once
from .launch import SMS

BLOCK = 128                             # columns of k, and rows of b, that share a scale
SECTOR = 32                             # bytes of a line that the L2 hands out
MOST_STAGES = 8                         # whose barriers fit into the 128 bytes behind the ring


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class BlockScaled:
    """One configuration of fp8/block_scaled.cu: its macros in lower case; `blocks`, the most CTAs of a launch; and `promotion`, bytes that
    a miss of a or b fetches into the L2 (0: the sectors asked for)."""

    bn: int = 128
    consumers: int = 2
    rows: int = 1
    stages: int = 5
    cluster_n: int = 2
    parts: int = 2
    unroll: int = 1
    stream_b: int = 0
    group: int = 8
    split: int = 1
    c_slots: int = 1
    blocks: int = SMS
    promotion: int = 0

    @property
    def bm(self) -> int:
        """Rows of a tile."""
        return 64 * self.rows * self.consumers

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return tuple(f"-D{f.name.upper()}={getattr(self, f.name)}" for f in fields(self) if f.name not in ("blocks", "promotion"))

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA."""
        return self.stages * ((self.bm + self.bn) * BLOCK + self.bm * 4) + self.consumers * self.c_slots * 8192 + 128

    @property
    def mail_bytes(self) -> int:
        """What a CTA receives of the others that share its k, where the ring was."""
        own = self.bn // 2 // min(self.split, self.bn // 64)
        return self.consumers * (self.split - 1) * self.rows * own * 4 * 128

    def grid(self, m: int, n: int) -> tuple[int, ...]:
        """One CTA per tile where group is 0; else as few CTAs as make no more waves of tiles than `blocks` of them."""
        rows, columns = _ceil(m, self.bm), _ceil(n, self.bn * self.cluster_n)
        if self.group == 0:
            return self.cluster_n * self.split * columns, rows
        waves = _ceil(rows * columns, max(1, self.blocks // self.cluster_n))
        return (self.cluster_n * _ceil(rows * columns, waves),)


TALL = BlockScaled(rows=2, parts=1, stages=3, c_slots=4)        # pairs; a slot for each chunk of C that a warpgroup stores
DEEP = replace(TALL, unroll=8)
NARROW = BlockScaled(bn=64, cluster_n=1, group=0, stages=8)     # 128 x 64, a CTA each
HIGH = BlockScaled(consumers=3, parts=1, stages=4, unroll=8, c_slots=2)         # 192 x 128, in pairs that share A
SHORT = BlockScaled(consumers=1, cluster_n=1, group=0, stages=8)        # 64 x 128


def parsed(options: Sequence[str]) -> BlockScaled:
    """The configuration that a record's options name ('BN=256', …). Raises ValueError for one that does not exist any more."""
    known = {f.name for f in fields(BlockScaled)}
    values = dict(option.lower().split("=") for option in options)
    if set(values) - known:
        raise ValueError(f"fp8/block_scaled.cu has no {', '.join(sorted(set(values) - known))}")
    return BlockScaled(**{name: int(value) for name, value in values.items()})


@lru_cache(maxsize=1)
def table() -> Mapping[tuple[int, ...], BlockScaled]:
    """The configuration measured to be fastest at each shape, from the recording `fp8`; empty where there is none."""
    if "fp8" not in recordings.names():
        return {}
    known = {f.name for f in fields(BlockScaled)}
    return {record.shape: parsed(record.options) for record in recordings.load("fp8") if record.kernel == "final" and record.options
            and {option.partition("=")[0].lower() for option in record.options} <= known}


@dataclass(frozen=True)
class Cost:
    """Of a kind of tiles, in us: a k-block of one, and the start and end of one."""

    k_block: float
    tile: float


@dataclass(frozen=True)
class CostModel:
    """start: of a launch until its first tile is there, us; exchange: of a tile's parts that add up, and more for each part; bytes a us from memory and from
    the L2; inside, begun: how much longer a k-block takes, and how much more the L2 reads, where rows of k begin inside a sector of 32 bytes."""

    start: float
    exchange: float
    part: float
    memory: float
    l2: float
    inside: float
    begun: float
    kinds: Mapping[str, Cost]


SPLITS = (1, 2, 3, 4, 6, 8)
KINDS: Mapping[str, BlockScaled] = {
    "64 x 128": SHORT, "128 x 64": NARROW, "128 x 128": BlockScaled(cluster_n=1, group=0), "64 x 128 that stay": replace(SHORT, group=8),
    "128 x 64 that stay": replace(NARROW, group=8), "128 x 128 that stay": BlockScaled(cluster_n=1), "128 x 128 pairs": BlockScaled(),
    "192 x 128": replace(HIGH, cluster_n=1), "192 x 128 pairs": HIGH, "256 x 128": replace(DEEP, cluster_n=1), "256 x 128 pairs": DEEP}
"""Tiles that a product may be made of; those of one CTA each may be split along k."""

MODEL = CostModel(6.87, 0.76, 0.55, 3.48e6, 19e6, 1.08, 2.48, {
    "64 x 128": Cost(0.210, 0.04), "128 x 64": Cost(0.223, 0.05), "128 x 128": Cost(0.298, 1.24), "64 x 128 that stay": Cost(0.217, 0.68),
    "128 x 64 that stay": Cost(0.224, 0.46), "128 x 128 that stay": Cost(0.311, 0.86), "128 x 128 pairs": Cost(0.321, 0.79), "192 x 128": Cost(0.444, 0.85),
    "192 x 128 pairs": Cost(0.452, 0.81), "256 x 128": Cost(0.621, 1.22), "256 x 128 pairs": Cost(0.629, 0.87)})
"""Fitted to `search_fp8` and to two draws of what was picked before (`python -m benchmarks.drawn_models`)."""


def estimated(kind: str, choice: BlockScaled, m: int, n: int, k: int, model: CostModel = MODEL) -> float:
    """Microseconds of a product: what the CTA with most tiles multiplies, what its bytes take from memory, and those of all tiles from the L2: mostly the
    longest of the three, and more where two are alike."""
    rows, columns, k_blocks = _ceil(m, choice.bm), _ceil(n, choice.bn * choice.cluster_n), _ceil(_ceil(k, BLOCK), choice.split)
    waves, cost, whole = _ceil(rows * columns, clusters_at_once(choice.cluster_n * choice.split)), model.kinds[kind], k % SECTOR == 0
    exchange = model.exchange + model.part * choice.split if choice.split > 1 else 0
    multiplied = waves * (k_blocks * cost.k_block * (1 if whole else model.inside) + cost.tile + exchange)
    of_l2 = (m * k * columns + n * k * rows) * (1 if whole else model.begun)
    return model.start + math.hypot(multiplied, (m * k + n * k + 2 * m * n) / model.memory, of_l2 / model.l2)


def possible(m: int, n: int, k: int) -> Mapping[str, tuple[str, BlockScaled]]:
    """name -> kind and configuration of what a product may be made of."""
    found = {}
    for kind, base in KINDS.items():
        tiles = _ceil(m, base.bm) * _ceil(n, base.bn)
        if base.group == 0 and tiles > SMS:
            continue                                        # for those there are CTAs that stay
        for split in SPLITS if base.group == 0 else (1,):
            choice = replace(base, split=split, stream_b=int(m <= base.bm <= 128))
            if split == 1 or choice.mail_bytes <= choice.stages * (choice.bm + choice.bn) * BLOCK and 2 * split <= _ceil(k, BLOCK) and tiles <= clusters_at_once(split):
                found[f"{kind}, k by {split}" if split > 1 else kind] = kind, choice
    return found


def ranked(m: int, n: int, k: int, model: CostModel = MODEL) -> list[str]:
    """Names of what is possible, the fastest by the model first."""
    found = possible(m, n, k)
    return sorted(found, key=lambda name: estimated(*found[name], m, n, k, model))


def choose(m: int, n: int, k: int) -> BlockScaled:
    """The configuration for a shape: the table's, else the fastest by the model."""
    return table().get((m, n, k)) or possible(m, n, k)[ranked(m, n, k)[0]][1]
