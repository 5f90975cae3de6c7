# SPDX-License-Identifier: Apache-2.0
"""Attention on e4m3, ready to call: kernels/attention/forward_fp8.cu in either place. Shapes, sequences, o and lse as in attention.py.

q, k, v: e4m3 (ml_dtypes.float8_e4m3fn, or uint8 holding the bits), to be multiplied by q_scale[head], k_scale[kv_head], v_scale[kv_head] (float32,
greater than 0). o: bf16.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...runtime.arrays import asnumpy
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import attention as bf16
from . import operand_checks as checks
from .launch import Launch
from .fp8 import E4M3, LARGEST

if TYPE_CHECKING:
    from ...runtime.arrays import Array

HEAD_SIZES = bf16.HEAD_SIZES


@dataclass(frozen=True)
class ForwardFp8(bf16.Configuration):
    """One configuration of attention/forward_fp8.cu (wide 0: all of o at once; held: the values' wait stays behind the softmax)."""

    SOURCE: ClassVar[str] = "attention/forward_fp8.cu"
    BYTES: ClassVar[int] = 1
    promoted: int = 1
    wide: int = 0
    held: int = 0

    def options(self, d: int, causal: bool) -> tuple[str, ...]:
        """NVRTC options."""
        return tuple(option for option in super().options(d, causal) if option != "-DWIDE=0")

    def shared_bytes(self, d: int) -> int:
        """Dynamic shared memory of a CTA: q, and a ring of k, v and V^T."""
        return (self.bm + 3 * self.stages * self.bn) * d + 256


BY_HEAD_SIZE = {64: ForwardFp8(bn=192), 128: ForwardFp8(), 256: ForwardFp8(overlap=0, wide=64)}


def choose(d: int, causal: bool, length: int) -> ForwardFp8:
    """The configuration for a head size, a mask and the longest sequence, as attention.choose, from the recording `attention_fp8`."""
    return bf16.nearest(bf16.table("attention_fp8", ForwardFp8), d, causal, length) or BY_HEAD_SIZE[d]


def quantise(values: Array) -> tuple[np.ndarray, np.ndarray]:
    """tokens x heads x D numbers as (e4m3, scales): the largest of each head becomes 448; a head of zeros keeps scale 1."""
    import ml_dtypes
    values = np.asarray(values, np.float32)
    most = np.abs(values).max(axis=(0, 2), initial=0)
    scales = np.where(most > 0, most / LARGEST, 1).astype(np.float32)
    return (values / scales[:, None]).astype(ml_dtypes.float8_e4m3fn), scales


def _check_scales(name: str, scales, heads: int) -> None:
    checks.array(name, scales, ("float32",), 1, aligned=4)
    if scales.shape != (heads,):
        raise checks.OperandError("shape", f"{name} has shape {tuple(scales.shape)}, expected {(heads,)}: one a head")
    values = asnumpy(scales)
    if not (np.isfinite(values) & (values > 0)).all():
        raise checks.OperandError("scale", f"{name} must be finite and greater than 0, else the largest score is not the largest; it is {values.tolist()[:8]}")


def _map(array, rows: int) -> TensorMap:
    wide = min(array.shape[2], 128)
    return TensorMap.tiled(array, box=(rows, 1, wide), swizzle=f"{wide}B", dtype="uint8")


def forward_fp8(q: Array, k: Array, v: Array, o: Array, lse: Array, q_scale: Array, k_scale: Array, v_scale: Array, q_starts: Array, k_starts: Array,
                causal: bool = False, scale: float | None = None, choice: ForwardFp8 | None = None, backend: str | None = None) -> Launch:
    """attention/forward_fp8.cu in one configuration (default: `choose`). scale: of the scores, 1 / sqrt(D) unless given, greater than 0."""
    tokens, heads, kv_heads, d, sequences = bf16.sizes(q, k, v, o, lse, q_starts, k_starts, E4M3)
    for name, scales, count in (("q_scale", q_scale, heads), ("k_scale", k_scale, kv_heads), ("v_scale", v_scale, kv_heads)):
        _check_scales(name, scales, count)
    choice = choice or choose(d, causal, int(np.diff(asnumpy(q_starts)).max()))
    tiles, group, blocks = choice.work(heads, kv_heads, q_starts, k_starts, d, causal)
    kernel = load_kernel(choice.SOURCE, "attention", choice.options(d, causal), backend=backend)
    numbers = tuple(np.int32(x) for x in (tiles, heads, kv_heads, sequences, tokens, group))
    return Launch(kernel, (blocks,), (128 * (choice.consumers + 1),),
                  (_map(q, choice.bm), _map(k, choice.bn), _map(v, choice.bn), o, lse, q_scale, k_scale, v_scale, q_starts, k_starts, bf16.counter(q),
                   np.float32(d ** -0.5 if scale is None else scale), *numbers), choice.shared_bytes(d))


def reference(q: Array, k: Array, v: Array, q_scale: Array, k_scale: Array, v_scale: Array, q_starts: Array, k_starts: Array, causal: bool = False,
              scale: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(o, lse) in float64 of what the e4m3 numbers stand for. A query that sees no key gives 0 and minus infinity."""
    numbers = (x.astype(np.float64) * s.astype(np.float64)[:, None] for x, s in ((q, q_scale), (k, k_scale), (v, v_scale)))
    return bf16.reference(*numbers, q_starts, k_starts, causal, scale)


def rounding(q: Array, k: Array, v: Array, q_scale: Array, k_scale: Array, v_scale: Array, q_starts: Array, k_starts: Array, causal: bool = False,
             scale: float | None = None) -> np.ndarray:
    """What rounding the terms p to e4m3 may cost each element of o, float64.

    A term errs by 2^-4 of itself at most (three bits), or by 2^-18 of the largest one where it is subnormal, so o by no more than the mean of |v| by
    those errors. Signs of errors and of v are independent: with 6 standard deviations the Euclidean norm of p * v bounds it too (Hoeffding, 1e-7).
    """
    names = (q_starts, k_starts, causal)
    scale = q.shape[2] ** -0.5 if scale is None else scale
    q, k, v = (x.astype(np.float64) * s.astype(np.float64)[:, None] for x, s in ((q, q_scale), (k, k_scale), (v, v_scale)))
    mean, lse = bf16.reference(q, k, np.abs(v), *names, scale)
    square, doubled = bf16.reference(q, k, v * v, *names, 2 * scale)
    with np.errstate(invalid="ignore"):
        norm = np.sqrt(square * np.nan_to_num(np.exp(doubled - 2 * lse)).T[:, :, None])
    return 2.0 ** -4 * np.minimum(mean, 6 * norm) + 2.0 ** -18 * len(k) * np.abs(v).max(initial=0)
