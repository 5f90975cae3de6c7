# SPDX-License-Identifier: Apache-2.0
"""Attention, ready to call: o = softmax(scale * q k^T) v by kernels/attention/forward.cu, in either place.

q, o: tokens x heads x D; k, v: tokens x kv_heads x D; bf16 (ml_dtypes.bfloat16, or uint16 bits). Sequences lie packed one after the
other: q_starts and k_starts (int32, one more than sequences) say where each begins, and the end. lse: heads x tokens float32.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from ...runtime.arrays import asnumpy, is_cuda_array
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import heads_at_once
from . import operand_checks as checks
from .. import recordings
from .launch import SMS, Launch
from .named import Named

if TYPE_CHECKING:
    from ...runtime.arrays import Array

HEAD_SIZES = (64, 128, 256)
L2_BYTES = 32 << 20                     # of the 50 MB L2, what k and v of the heads at work may take


@dataclass(frozen=True)
class Configuration(Named):
    """What forward kernels have in common: macros in lower case, `group`, the heads that CTAs work on at once (0: as many as
    fit in the L2), and `blocks`, the most CTAs of a launch (0: one a tile)."""

    SOURCE: ClassVar[str]
    BYTES: ClassVar[int]                # of a number of k and v
    bn: int = 128
    consumers: int = 2
    stages: int = 2
    overlap: int = 1
    turns: int = 1
    group: int = 0
    blocks: int = SMS

    @property
    def bm(self) -> int:
        """Queries of a CTA."""
        return 64 * self.consumers

    def options(self, d: int, causal: bool) -> tuple[str, ...]:
        """NVRTC options."""
        return (f"-DD={d}", f"-DCAUSAL={int(causal)}", *(f"-D{f.name.upper()}={getattr(self, f.name)}" for f in fields(self) if f.name not in ("group", "blocks")))

    @property
    def together(self) -> int:
        """CTAs of a cluster, which take neighbouring tiles."""
        return 1

    def work(self, heads: int, kv_heads: int, q_starts: Array, k_starts: Array, d: int, causal: bool) -> tuple[int, int, int]:
        """(tiles of the longest sequence, a cluster's counted as one; heads at work at once; CTAs)."""
        tiles = -(-int(np.diff(asnumpy(q_starts)).max()) // (self.bm * self.together))
        keys, sequences = np.diff(asnumpy(k_starts)), len(q_starts) - 1
        room = L2_BYTES // (2 * self.BYTES * max(1, int(keys.max())) * d)
        group = self.group or heads_at_once.forward(heads * sequences, room, heads // kv_heads, causal, keys)
        work = max(1, tiles * heads * sequences)
        return tiles, group, self.together * min(work, max(1, self.blocks // self.together) if self.blocks else work)


@dataclass(frozen=True)
class Forward(Configuration):
    """One configuration of attention/forward.cu."""

    SOURCE: ClassVar[str] = "attention/forward.cu"
    BYTES: ClassVar[int] = 2
    q_slots: int = 1
    staged: int = 1
    chains: int = 1
    dealt: int = 0
    cluster: int = 1
    per_sm: int = 1

    @property
    def together(self) -> int:
        """CTAs of a cluster, which take neighbouring tiles."""
        return self.cluster

    def shared_bytes(self, d: int) -> int:
        """Dynamic shared memory of a CTA."""
        return (self.q_slots * self.bm + 2 * self.stages * self.bn) * d * 2 + 256


STEPS: Mapping[str, Forward] = {
    "one_warpgroup": Forward(consumers=1, overlap=0, turns=0, blocks=0),
    "two_consumers": Forward(overlap=0, turns=0, blocks=0),
    "pingpong": Forward(overlap=0, blocks=0),
    "overlapped": Forward(blocks=0),
    "persistent": Forward(),
}
"""The steps in climbing order, as they are for a head size of 128."""

@dataclass(frozen=True)
class Equal:
    """Self-attention over sequences of one length. units, kv_units: heads of queries, and of keys and values, of all sequences together."""

    d: int
    causal: bool
    length: int
    units: int
    kv_units: int


@dataclass(frozen=True)
class ShortModel:
    """start: us of a launch around its tiles; memory: bytes per us; tail: the share of the longest tile's time that the end takes where each head ends with its
    longest; last: of the shortest one's where those of all heads come last; again: how often keys and values beyond KEPT are read again there."""

    start: float
    memory: float
    tail: float
    last: float
    again: float


MODEL = ShortModel(8.9, 4.36e6, 0.52, 0.79, 0.16)
"""Fitted at the cells of both boards' `search_attention`, as are the times of SHORT (`python -m benchmarks.drawn_models`)."""
KEPT = 15e6                             # bytes of keys and values that the L2 still has when the next tiles of the same heads come
SHARPNESS = 2.5                         # of what takes longer, tiles or memory: at 1 they would add up, at infinity the longer one alone would count


@dataclass(frozen=True)
class Short:
    """A configuration for short sequences. tile, block: us of a tile's start and end, and of a block of keys, with as many CTAs per SM as it has."""

    choice: Forward
    tile: float
    block: float

    def suits(self, causal: bool) -> bool:
        """Whether it was measured with this mask: all heads at once are for tiles of several lengths, pairs, which are dealt out in advance, for those of one."""
        return not (self.choice.dealt if causal else self.choice.group == 0)

    def estimated(self, work: Equal, model: ShortModel = MODEL) -> float:
        """Microseconds: what the tiles take and what the bytes take, mostly the longer of the two."""
        tiles, memory = self.multiplied(work, model), self.moved(work, model) / model.memory
        return model.start + (tiles ** SHARPNESS + memory ** SHARPNESS) ** (1 / SHARPNESS)

    def multiplied(self, work: Equal, model: ShortModel = MODEL) -> float:
        """Microseconds of the tiles. Equal ones go in whole rounds; of unequal ones the end is as long as the shortest where those of all heads come last, and up to
        the longest where each head ends with its own."""
        choice = self.choice
        high, places = choice.bm * choice.together, choice.blocks // choice.together
        seen = [min(work.length, (tile + 1) * high if work.causal else work.length) for tile in range(-(-work.length // high))]
        times = [self.tile + self.block * -(-keys // choice.bn) for keys in seen]
        if times[0] == times[-1]:
            return -(-work.units * len(times) // places) * times[0]
        return max(times[-1], work.units * sum(times) / places + (model.tail * times[-1] if choice.group else model.last * times[0]))

    def moved(self, work: Equal, model: ShortModel = MODEL) -> float:
        """Bytes between memory and the L2: each operand once, and what the L2 cannot keep of keys and values again where tiles of all heads take turns."""
        rows = 2 * work.d * work.length
        read = 2 * rows * work.kv_units
        turns = not self.choice.group and work.length > self.choice.bm
        return 2 * rows * work.units + read + (model.again * max(0.0, read - KEPT) if turns else 0.0)


_ALONE = Forward(consumers=1, turns=0, q_slots=2, group=1)
_TWO, _THREE = replace(_ALONE, per_sm=2, blocks=2 * SMS), replace(_ALONE, bn=64, stages=3, per_sm=3, blocks=3 * SMS)
_THRICE, _WHOLE = Forward(consumers=3, q_slots=2), Forward(stages=1, overlap=0)
SHORT: Mapping[int, Mapping[str, Short]] = {
    64: {"192 queries": Short(replace(_THRICE, group=1), 0.98, 1.41), "192 queries, all heads": Short(_THRICE, 1.15, 1.31),
         "64 queries, two an SM": Short(_TWO, 0.98, 1.18), "64 queries, three an SM": Short(_THREE, 0.60, 0.99),
         "64 queries, three an SM, all heads": Short(replace(_THREE, group=0), 1.10, 0.87)},
    128: {"128 queries": Short(Forward(q_slots=2, group=1), 1.00, 1.61), "all heads": Short(Forward(q_slots=2), 1.51, 1.45),
          "pairs": Short(Forward(q_slots=2, dealt=1, cluster=2, group=1), 1.21, 1.55), "64 queries, two an SM": Short(replace(_TWO, bn=64), 1.05, 1.00),
          "192 queries, all heads": Short(replace(_THRICE, bn=64, stages=3, turns=0), 0.38, 1.19)},
    256: {"128 queries": Short(Forward(bn=80, group=1), 3.17, 1.65), "all heads": Short(Forward(bn=80), 3.52, 1.78),
          "128 queries, blocks of 64": Short(Forward(bn=64, group=1), 2.93, 1.50),
          "64 queries, two an SM": Short(replace(_TWO, q_slots=1, bn=64, stages=1, overlap=0), 2.74, 1.64),
          "128 queries, a second slot": Short(replace(_WHOLE, bn=64, q_slots=2, group=1), 1.13, 1.76),
          "128 queries, blocks of 128": Short(replace(_WHOLE, group=1), 2.64, 2.74), "128 queries, blocks of 128, all heads": Short(_WHOLE, 3.06, 2.53)}}
"""What sequences shorter than LONG may get, by head size, with fitted times."""
LONG = 2048                             # from here on what was measured at the nearest length

BY_HEAD_SIZE = {64: Forward(consumers=3), 128: Forward(bn=192), 256: Forward(bn=80)}


Kind = TypeVar("Kind", bound=Configuration)


def parsed(options: Sequence[str], kind: type[Kind] = Forward) -> Kind:
    """The configuration that a record's options name ('BN=192', …). Raises ValueError for one that does not exist any more."""
    known = {f.name for f in fields(kind)}
    values = dict(option.lower().split("=") for option in options)
    if set(values) - known:
        raise ValueError(f"{kind.SOURCE} has no {', '.join(sorted(set(values) - known))}")
    return kind(**{name: int(value) for name, value in values.items()})


@lru_cache(maxsize=2)
def table(recording: str = "attention", kind: type[Kind] = Forward) -> Mapping[tuple[int, bool, int], Kind]:
    """The configuration measured to be fastest by head size, mask and length, from a recording; empty where there is none."""
    if recording not in recordings.names():
        return {}
    return {(record.shape[3], record.options[1] == "causal", record.shape[1]): parsed(record.options[2:], kind)
            for record in recordings.load(recording) if record.kernel == "final" and len(record.options) > 2}


def nearest(measured: Mapping[tuple[int, bool, int], Kind], d: int, causal: bool, length: int) -> Kind | None:
    """What is in the table for a head size, a mask and the length nearest to this one; None where nothing is."""
    known = {size: choice for (head, masked, size), choice in measured.items() if (head, masked) == (d, causal)}
    return known[min(known, key=lambda size: abs(math.log(size / max(1, length))))] if known else None


def choose(d: int, causal: bool, length: int, units: int = 1024, kv_units: int | None = None) -> Forward:
    """The configuration for a head size, a mask and the longest sequence: below LONG, but for lengths in the table, what is estimated to be fastest; else
    that of the nearest length in the table, or one per head size. units: heads of sequences of that length, as many as the tokens make; kv_units: those of keys
    and values, as many unless given."""
    if length < LONG and (d, causal, length) not in table():
        suited = (short for short in SHORT[d].values() if short.suits(causal))
        work = Equal(d, causal, max(1, length), max(1, units), max(1, units if kv_units is None else kv_units))
        return min(suited, key=lambda short: short.estimated(work)).choice
    return nearest(table(), d, causal, length) or BY_HEAD_SIZE[d]


def sizes(q: Array, k: Array, v: Array, o: Array, lse: Array, q_starts: Array, k_starts: Array,
          dtypes: Sequence[str] = checks.BF16) -> tuple[int, int, int, int, int]:
    """(tokens, heads, kv_heads, D, sequences); q, k, v of `dtypes`. Raises OperandError that names the rule an array breaks."""
    for name, value in (("q", q), ("k", k), ("v", v)):
        checks.array(name, value, dtypes, 3)
    checks.array("o", o, checks.BF16, 3)
    tokens, heads, d = q.shape
    kv_heads = k.shape[1]
    if d not in HEAD_SIZES:
        raise checks.OperandError("shape", f"head size {d}: this kernel takes {', '.join(map(str, HEAD_SIZES))}")
    if k.shape != v.shape or k.shape[2] != d or o.shape != q.shape:
        raise checks.OperandError("shape", f"q is {q.shape}, k {k.shape}, v {v.shape}, o {o.shape}: k and v must be alike, o like q, all of one head size")
    if heads % kv_heads:
        raise checks.OperandError("shape", f"{heads} query heads over {kv_heads} heads of k and v: the former must be a multiple of the latter")
    checks.array("lse", lse, ("float32",), 2, aligned=4)
    if lse.shape != (heads, tokens):
        raise checks.OperandError("shape", f"lse has shape {tuple(lse.shape)}, expected {(heads, tokens)} (heads x tokens)")
    for name, starts, end in (("q_starts", q_starts, tokens), ("k_starts", k_starts, k.shape[0])):
        checks.array(name, starts, ("int32",), 1, aligned=4)
        values = asnumpy(starts)
        if len(values) < 2 or values[0] != 0 or values[-1] != end or (np.diff(values) < 0).any():
            raise checks.OperandError("shape", f"{name} must rise from 0 to the number of tokens, {end}; it is {values.tolist()[:8]}")
    if q_starts.shape != k_starts.shape:
        raise checks.OperandError("shape", f"q_starts names {q_starts.shape[0] - 1} sequences, k_starts {k_starts.shape[0] - 1}")
    return tokens, heads, kv_heads, d, q_starts.shape[0] - 1


def _map(array, rows: int) -> TensorMap:
    return TensorMap.tiled(array, box=(rows, 1, 64), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16 else None)


def counter(array: Array) -> Array:
    """Two zeros where the array is: one a launch object, launches of one must not overlap."""
    if not is_cuda_array(array):
        return np.zeros(2, np.int32)
    import cupy
    return cupy.zeros(2, np.int32)


def forward(q: Array, k: Array, v: Array, o: Array, lse: Array, q_starts: Array, k_starts: Array, causal: bool = False, scale: float | None = None,
            choice: Forward | None = None, backend: str | None = None) -> Launch:
    """attention/forward.cu in one configuration (default: `choose`). scale: of the scores, 1 / sqrt(D) unless given."""
    tokens, heads, kv_heads, d, sequences = sizes(q, k, v, o, lse, q_starts, k_starts)
    longest = int(np.diff(asnumpy(q_starts)).max())
    choice = choice or choose(d, causal, longest, *(units * tokens // max(1, longest) for units in (heads, kv_heads)))
    tiles, group, blocks = choice.work(heads, kv_heads, q_starts, k_starts, d, causal)
    kernel = load_kernel(choice.SOURCE, "attention", choice.options(d, causal), backend=backend)
    numbers = tuple(np.int32(x) for x in (tiles, heads, kv_heads, sequences, tokens, group))
    maps = (_map(q, choice.bm), _map(k, choice.bn // choice.cluster), _map(v, choice.bn // choice.cluster), _map(o, 64))
    return Launch(kernel, (blocks,), (128 * (choice.consumers + 1),),
                  (*maps, o, lse, q_starts, k_starts, counter(q), np.float32(d ** -0.5 if scale is None else scale), *numbers), choice.shared_bytes(d))


def reference(q: Array, k: Array, v: Array, q_starts: Array, k_starts: Array, causal: bool = False,
              scale: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(o, lse) in float64, from arrays of numbers. A query that sees no key gives 0 and minus infinity."""
    tokens, heads, d = q.shape
    share, scale = heads // k.shape[1], d ** -0.5 if scale is None else scale
    o, lse = np.zeros(q.shape), np.full((heads, tokens), -np.inf)
    for (a, b), (c, e) in zip(zip(q_starts, q_starts[1:]), zip(k_starts, k_starts[1:]), strict=False):
        for head in range(heads):
            scores = scale * q[a:b, head].astype(np.float64) @ k[c:e, head // share].astype(np.float64).T
            if causal:
                seen = np.arange(e - c)[None] <= np.arange(b - a)[:, None] + (e - c) - (b - a)
                scores = np.where(seen, scores, -np.inf)
            most = scores.max(axis=1, initial=-np.inf)
            terms = np.exp(scores - np.where(np.isinf(most), 0, most)[:, None])
            total = terms.sum(axis=1)
            o[a:b, head] = terms @ v[c:e, head // share].astype(np.float64) / np.where(total > 0, total, 1)[:, None]
            with np.errstate(divide="ignore"):
                lse[head, a:b] = np.where(np.isinf(most), 0, most) + np.log(total)
    return o, lse


