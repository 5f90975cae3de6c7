# SPDX-License-Identifier: Apache-2.0
"""Whom attention's backward pass is timed beside: cuDNN's and FlashAttention's kernels through PyTorch, and FlashAttention's own package where it is installed.

Each peer takes the operands of the suite `backward` and gives a callable that computes (dq, dk, dv), batch x heads x length x D, or None where it cannot run.
The forward pass has run before, so only the backward pass is timed.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Run = Callable[[], tuple]


def _leaves(given: Mapping) -> tuple[list[Any], Any]:
    """q, k, v as leaves of a graph, and d_o: batch x length x heads x D, on the suite's memory."""
    made = [given["tensors"][name].unflatten(0, (-1, given["length"])) for name in ("q", "k", "v", "d_o")]
    return [x.detach().requires_grad_() for x in made[:3]], made[3]


def _backward(out: Any, leaves: list[Any], gradient: Any) -> Run:
    import torch
    return lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)


def _torch(given: Mapping, backend: str) -> Run | None:
    """torch's scaled_dot_product_attention with one kernel only."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    leaves, gradient = _leaves(given)
    views = [x.transpose(1, 2).detach().requires_grad_() for x in leaves]
    try:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            out = torch.nn.functional.scaled_dot_product_attention(*views, is_causal=given["causal"])
    except RuntimeError:                                        # no kernel of this kind for these operands
        return None
    return _backward(out, views, gradient.transpose(1, 2))


def cudnn(given: Mapping) -> Run | None:
    """cuDNN's kernel."""
    return _torch(given, "CUDNN_ATTENTION")


def flash(given: Mapping) -> Run | None:
    """FlashAttention 2, as PyTorch carries it."""
    return _torch(given, "FLASH_ATTENTION")


def flash3(given: Mapping) -> Run | None:
    """FlashAttention 3, where its package is installed."""
    try:
        from flash_attn_interface import flash_attn_func
    except ImportError:
        return None
    leaves, gradient = _leaves(given)
    out = flash_attn_func(*leaves, causal=given["causal"])
    run = _backward(out[0] if isinstance(out, tuple) else out, leaves, gradient)
    return lambda: tuple(x.transpose(1, 2) for x in run())


PEERS: Mapping[str, Callable[[Mapping], Run | None]] = {"cuDNN": cudnn, "FlashAttention 2": flash, "FlashAttention 3": flash3}
