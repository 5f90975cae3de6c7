# SPDX-License-Identifier: Apache-2.0
"""PyTorch's products of smaller weights, as peers of lesson 15x's kernels: 4-bit weights in groups, and 2:4 sparse weights. None where this PyTorch has none.

A peer is tried once when it is made: what raises or is wrong is told in a line and left out, since it is not ours to mend.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

MOST_ERROR = 2.0 ** -5      # of the largest result: PyTorch adds a zero point and rounds its own way; what is in the wrong order is off by far more


def _left_out(name: str, why: object) -> None:
    print(f"{name} is left out: {why}", file=sys.stderr, flush=True)


def _tried(name: str, run: Callable[[], Any], wanted: Any) -> Callable[[], object] | None:
    """`run`, if its result is close to `wanted` (a CuPy array, float32)."""
    try:
        import cupy
        got = cupy.asarray(run().float().contiguous())
    except Exception as problem:        # another library's: every kind of failure means the same, that it does not run here
        _left_out(name, f"{type(problem).__name__}: {str(problem)[:160]}")
        return None
    worst = float(abs(got - wanted).max() / abs(wanted).max())
    if not worst < MOST_ERROR:
        _left_out(name, f"its result is off by {worst:.3f} of the largest")
        return None
    return run


def _tensor(array: Any, view: str) -> Any:
    import torch
    return torch.as_tensor(array.view("int16"), device="cuda").view(getattr(torch, view))


def torch_int4(x: Any, q: Any, scales: Any, group: int, wanted: Any) -> Callable[[], object] | None:
    """torch._weight_int4pack_mm on the same 4-bit weights. x: bf16 bits m x k; q: int8 n x k, -8 to 7; scales: bf16 bits n x k / group (CuPy); wanted: float32 m x n."""
    name = "torch int4"
    try:
        import torch
    except ImportError:
        return None
    if group not in (32, 64, 128, 256) or not hasattr(torch, "_weight_int4pack_mm"):
        return None
    try:
        fields = torch.as_tensor(q, device="cuda").to(torch.uint8) + 8
        packed = torch.ops.aten._convert_weight_to_int4pack((fields[:, ::2] << 4 | fields[:, 1::2]).contiguous(), 8)
        sizes = _tensor(scales, "bfloat16").T.contiguous()
        both = torch.stack([sizes, torch.zeros_like(sizes)], dim=2).contiguous()
    except Exception as problem:        # as in _tried
        _left_out(name, f"{type(problem).__name__}: {str(problem)[:160]}")
        return None
    left = _tensor(x, "bfloat16")
    return _tried(name, lambda: torch._weight_int4pack_mm(left, packed, group, both), wanted)


def torch_sparse(x: Any, w: Any, wanted: Any) -> Callable[[], object] | None:
    """torch.sparse.to_sparse_semi_structured's product. x: bf16 bits m x k; w: bf16 bits n x k with two of four (CuPy); wanted: float32 m x n."""
    name = "torch semi-structured"
    try:
        import torch
        from torch.sparse import to_sparse_semi_structured
    except ImportError:
        return None
    try:
        compressed = to_sparse_semi_structured(_tensor(w, "bfloat16"))
    except Exception as problem:        # as in _tried
        _left_out(name, f"{type(problem).__name__}: {str(problem)[:160]}")
        return None
    left = _tensor(x, "bfloat16")
    return _tried(name, lambda: torch.nn.functional.linear(left, compressed), wanted)
