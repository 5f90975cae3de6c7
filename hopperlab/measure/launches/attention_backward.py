# SPDX-License-Identifier: Apache-2.0
"""Attention's backward pass, ready to call: dq, dk, dv by kernels/attention_backward/begin.cu, backward.cu and end.cu, in either place.

q, k, v, o, d_o, dq, dk, dv: tokens x heads x D, bf16 (ml_dtypes.bfloat16, or uint16 bits), sequences of one length packed one after the other.
lse: heads x tokens float32, as attention/forward.cu leaves it. o and lse are the forward pass's results on the same q, k, v.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...runtime.arrays import is_cuda_array
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import heads_at_once
from . import operand_checks as checks
from .launch import Launch
from .named import Named

if TYPE_CHECKING:
    from ...runtime.arrays import Array

HEAD_SIZES = (64, 128)
L2_BYTES = 24 << 20                     # of the 50 MB L2, what the heads at work may take: q, do and the fp32 sums of dq
DQ: Mapping[str, int] = {"atomics": 0, "bulk": 1, "ordered": 2}
"""How dq grows -> DQ of backward.cu."""
GIVEN, MADE = ("q", "k", "v", "o", "d_o"), ("dq", "dk", "dv")


@dataclass(frozen=True)
class Backward(Named):
    """One configuration of attention_backward/backward.cu: macros in lower case, and `group`, the heads that CTAs work on at once (0: as many as fit in the L2)."""

    SOURCE: ClassVar[str] = "attention_backward/backward.cu"
    consumers: int = 2
    stages: int = 2
    overlap: int = 1
    ahead: int = 0
    dq: str = "bulk"
    rotated: int = 1
    group: int = 0

    @property
    def bn(self) -> int:
        """Keys of a CTA."""
        return 64 * self.consumers

    def bm(self, d: int) -> int:
        """Queries of a block: dq of one is 64 x 64 a warpgroup."""
        return 4096 * self.consumers // d

    def options(self, d: int, causal: bool) -> tuple[str, ...]:
        """NVRTC options of backward.cu."""
        return (f"-DD={d}", f"-DCAUSAL={int(causal)}", f"-DCONSUMERS={self.consumers}", f"-DSTAGES={self.stages}", f"-DOVERLAP={self.overlap}",
                f"-DAHEAD={self.ahead}", f"-DDQ={DQ[self.dq]}",
                f"-DROTATED={self.rotated}")

    def shared_bytes(self, d: int) -> int:
        """Dynamic shared memory of a CTA: k and v, rings of q and do with a float a row each, two of ds, dq, barriers."""
        bm, bn = self.bm(d), self.bn
        return 4 * bn * d + self.stages * (4 * bm * d + 8 * bm) + 4 * bm * bn + (0 if self.dq == "atomics" else 16384 * self.consumers) + 128

    def at_once(self, length: int, d: int, units: int, causal: bool) -> int:
        """`group`, or as many heads as fit in the L2 (heads_at_once.backward)."""
        return self.group or heads_at_once.backward(units, L2_BYTES // (8 * length * d), -(-length // self.bn), causal)


def parsed(options: tuple[str, ...]) -> Backward:
    """The configuration that a record's options name ('CONSUMERS=2', 'DQ=bulk', …). Raises ValueError for one that does not exist any more."""
    known = {f.name for f in fields(Backward)}
    values = dict(option.split("=") for option in options)
    if {name.lower() for name in values} - known:
        raise ValueError(f"{Backward.SOURCE} has no {', '.join(sorted(name for name in values if name.lower() not in known))}")
    return Backward(**{name.lower(): value if name == "DQ" else int(value) for name, value in values.items()})


STEPS: Mapping[str, Backward] = {
    "one_warpgroup": Backward(consumers=1, overlap=0, dq="atomics", rotated=0),
    "two_consumers": Backward(overlap=0, dq="atomics", rotated=0),
    "bulk": Backward(overlap=0, rotated=0),
    "rotated": Backward(overlap=0),
    "overlapped": Backward(),
    "ahead": Backward(ahead=1),
    "ordered": Backward(dq="ordered"),
}
"""The steps in climbing order, and the one whose result is the same in every run. The first takes heads of 64 only."""


@dataclass(frozen=True)
class BackwardPass:
    """The three launches, in order, and the arrays between them: sums (of dq, fp32), lse2 and delta (a float a row), done (counters). Call it to run all."""

    launches: tuple[Launch, Launch, Launch]
    sums: Array
    lse2: Array
    delta: Array
    done: Array

    def __call__(self) -> None:
        for launch in self.launches:
            launch()

    def bound(self) -> Callable[[], None]:
        """The same without checks, for timing on a GPU."""
        runs = [launch.bound() for launch in self.launches]

        def run() -> None:
            for one in runs:
                one()
        return run


def sizes(arrays: Mapping[str, Array], lse: Array, length: int) -> tuple[int, int, int]:
    """(batch, heads, D). Raises OperandError that names the rule an array breaks."""
    for name, value in arrays.items():
        checks.array(name, value, checks.BF16, 3)
        if value.shape != arrays["q"].shape:
            raise checks.OperandError("shape", f"{name} is {tuple(value.shape)} and q {tuple(arrays['q'].shape)}: all of {', '.join(arrays)} have one shape")
    tokens, heads, d = arrays["q"].shape
    if d not in HEAD_SIZES:
        raise checks.OperandError("shape", f"head size {d}: this kernel takes {', '.join(map(str, HEAD_SIZES))}")
    if length < 1 or tokens % length:
        raise checks.OperandError("shape", f"{tokens} tokens are no whole number of sequences of {length}")
    checks.array("lse", lse, ("float32",), 2, aligned=4)
    if lse.shape != (heads, tokens):
        raise checks.OperandError("shape", f"lse has shape {tuple(lse.shape)}, expected {(heads, tokens)} (heads x tokens)")
    return tokens // length, heads, d


def _map(array: Array, length: int, rows: int) -> TensorMap:
    tokens, heads, d = array.shape
    return TensorMap.tiled(array.reshape(tokens // length, length, heads, d), box=(1, rows, 1, 64), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16
                           else None)


def _between(like: Array, units: int, rows: int, tiles: int, d: int) -> tuple[Array, Array, Array, Array]:
    """(sums, lse2, delta, done) where the arrays are, not filled: the first launch writes what the second needs."""
    xp: Any = np
    if is_cuda_array(like):
        import cupy as xp
    return (xp.empty(units * rows * d, np.float32), xp.empty((units, rows), np.float32), xp.empty((units, rows), np.float32), xp.zeros(units * tiles + 1, np.uint32))


def backward(q: Array, k: Array, v: Array, o: Array, d_o: Array, lse: Array, dq: Array, dk: Array, dv: Array, length: int, causal: bool = False,
             scale: float | None = None,
             choice: Backward | None = None, backend: str | None = None) -> BackwardPass:
    """dq, dk, dv of attention in one configuration. length: of every sequence; scale: of the scores, 1 / sqrt(D) unless given. Raises OperandError."""
    arrays = dict(zip((*GIVEN, *MADE), (q, k, v, o, d_o, dq, dk, dv), strict=True))
    batch, heads, d = sizes(arrays, lse, length)
    choice = choice or Backward()
    if choice.consumers == 1 and d != 64:
        raise checks.OperandError("shape", f"head size {d} with one consumer: one warpgroup has no registers for dq beside dk and dv; it takes 64")
    bm, units = choice.bm(d), batch * heads
    tiles, blocks = -(-length // bm), -(-length // choice.bn)
    sums, lse2, delta, done = _between(q, units, tiles * bm, tiles, d)
    size, group = np.float32(d ** -0.5 if scale is None else scale), np.int32(choice.at_once(length, d, units, causal))
    numbers = (np.int32(length), np.int32(heads), np.int32(units))
    begin = load_kernel("attention_backward/begin.cu", "attention_backward_begin", (f"-DD={d}", f"-DBM={bm}", f"-DZEROED={int(choice.dq != 'ordered')}"), backend=backend)
    middle = load_kernel(choice.SOURCE, "attention_backward", choice.options(d, causal), backend=backend)
    end = load_kernel("attention_backward/end.cu", "attention_backward_end", (f"-DD={d}", f"-DCONSUMERS={choice.consumers}"), backend=backend)
    maps = [_map(array, length, rows) for array, rows in ((q, bm), (k, choice.bn), (v, choice.bn), (d_o, bm), (dk, 64), (dv, 64))]
    return BackwardPass((Launch(begin, (tiles, units), (256,), (o, d_o, lse, lse2, delta, sums, done, *numbers)),
                         Launch(middle, (blocks * units,), (128 * (choice.consumers + 1),), (*maps, lse2, delta, sums, done, size, *numbers, group),
                                choice.shared_bytes(d)),
                         Launch(end, (tiles, units), (128 * choice.consumers,), (_map(dq, length, 64), sums, size, np.int32(length), np.int32(heads)),
                                8192 * choice.consumers)),
                        sums, lse2, delta, done)


def gradients(q: Array, k: Array, v: Array, d_o: Array, causal: bool, scale: float, xp: Any = np) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    """((dq, dk, dv), how far each of their elements may be off) of one head in float64; q, k, v, d_o: length x D, arrays of xp.

    p and ds are rounded to bf16 (2^-9 of a term; ds twice that where p in it is rounded already), so is o, from which delta comes, and before it the forward
    pass's p, and each result; sums in fp32 add less. The bound lets every rounding be as large as it can be and all of one sign.
    """
    q, k, v, d_o = (x.astype(xp.float64) for x in (q, k, v, d_o))
    p = scale * q @ k.T
    if causal:
        p[xp.triu(xp.ones(p.shape, bool), 1)] = -xp.inf
    p = xp.exp(p - p.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    dp, o = d_o @ v.T, p @ v
    ds = scale * p * (dp - (d_o * o).sum(axis=1, keepdims=True))
    made = (ds @ k, ds.T @ q, p.T @ d_o)
    off = 2.0 ** -8 * abs(ds) + 2.0 ** -9 * scale * p * (abs(d_o) * (abs(o) + p @ abs(v))).sum(axis=1, keepdims=True)
    terms = (off @ abs(k), off.T @ abs(q), 2.0 ** -8 * p.T @ abs(d_o))
    return made, tuple(1.01 * term + 2.0 ** -8 * abs(x) + 1e-30 for x, term in zip(made, terms, strict=True))  # type: ignore[return-value]


def reference(q: Array, k: Array, v: Array, d_o: Array, length: int, causal: bool = False, scale: float | None = None) -> tuple[tuple[np.ndarray, ...],
        tuple[np.ndarray, ...]]:
    """`gradients` of every head and sequence: ((dq, dk, dv), bounds), each tokens x heads x D."""
    tokens, heads, d = q.shape
    made = tuple(tuple(np.zeros(q.shape) for _ in range(3)) for _ in range(2))
    for first in range(0, tokens, length):
        for head in range(heads):
            of = (slice(first, first + length), head)
            found = gradients(q[of], k[of], v[of], d_o[of], causal, d ** -0.5 if scale is None else scale)
            for outs, values in zip(made, found, strict=True):
                for out, value in zip(outs, values, strict=True):
                    out[of] = value
    return made[0], made[1]
