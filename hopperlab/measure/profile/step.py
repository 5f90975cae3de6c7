# SPDX-License-Identifier: Apache-2.0
"""One launch of one kernel, as a target for a profiler: `python -m hopperlab.measure.profile.step STEP [SIZE | M N K]`.

STEP is a step of the ladder, `fp8`, the block-scaled product, or `tensor_scale`, that with one scale a matrix (one SIZE, default 4096, or
M N K); `attention` (head size, `full` or `causal`, length: 16384 tokens and a hidden size of 2048); or `two_by_two` (`cp.async` or `TMA`,
`mma.sync` or `wgmma`, one SIZE or M N K: lesson 09's four products, 3 stages, two blocks per SM). All but the ladder's steps and the last need a GPU, CuPy and PyTorch.

    hopperlab profile --metrics lessons --kernel gemm -m hopperlab.measure.profile.step final 4096
    hopperlab profile --metrics lessons --kernel gemm -m hopperlab.measure.profile.step fp8 2048
    hopperlab profile --metrics lessons --kernel attention -m hopperlab.measure.profile.step attention 64 causal 1024
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...runtime.arrays import array_module, synchronize
from ..launches import gemm, variants
from ..launches.launch import Launch
from ..launches.operands import normal_bf16


def _shape(sizes: Sequence[str]) -> tuple[int, int, int]:
    given = [int(size) for size in sizes] or [4096]
    if len(given) not in (1, 3):
        raise ValueError(f"one size or m, n and k, not {len(given)} numbers")
    return tuple(given * 3 if len(given) == 1 else given)


def _step(name: str, *sizes: str) -> Launch:
    xp, (m, n, k) = array_module(), _shape(sizes)
    a, b, c = normal_bf16(xp, (m, k), 11), normal_bf16(xp, (n, k), 12), xp.zeros((m, n), np.uint16)
    return gemm.launch(name, a, b, c)


def _two_by_two(copied: str = "TMA", multiplied: str = "wgmma", *sizes: str) -> Launch:
    if (copied, multiplied) not in variants.TWO_BY_TWO:
        raise ValueError(f"no product copies by {copied} and multiplies by {multiplied}")
    xp, (m, n, k) = array_module(), _shape(sizes)
    a, b, c = normal_bf16(xp, (m, k), 1), normal_bf16(xp, (n, k), 2), xp.zeros((m, n), np.uint16)
    return variants.TWO_BY_TWO[copied, multiplied](a, b, c, stages=3, blocks=2)


def _fp8(*sizes: str) -> Launch:
    from ..launches.fp8 import block_scaled
    from ..suites import fp8_operands
    given = fp8_operands.operands(_shape(sizes))
    return block_scaled(*(given[name] for name in ("a", "b", "c", "a_scales", "b_scales")))


def _tensor_scale(*sizes: str) -> Launch:
    from ..launches.fp8 import tensor_scale
    from ..suites import fp8_operands
    given = fp8_operands.operands(_shape(sizes))
    return tensor_scale(given["a"], given["b"], given["c"])


def _attention(d: str = "128", mask: str = "full", length: str = "4096") -> Launch:
    from ..launches.attention import choose
    from ..suites import attention
    if mask not in ("full", "causal"):
        raise ValueError(f"the mask is full or causal, not {mask}")
    size, long = int(d), int(length)
    heads, lengths = attention.HIDDEN // size, [long] * (attention.TOKENS // long)
    return attention.make(attention.operands(lengths, lengths, heads, heads, size), mask == "causal", choose(size, mask == "causal", long, heads * len(lengths)))


CAPSTONES: Mapping[str, Callable[..., Launch]] = {"fp8": _fp8, "tensor_scale": _tensor_scale, "attention": _attention, "two_by_two": _two_by_two}


def main(arguments: Sequence[str]) -> int:
    """Launch the kernel once on random normal operands."""
    known = [*gemm.LADDER, *CAPSTONES]
    if not arguments or arguments[0] not in known:
        print(f"which step? {', '.join(known)}", file=sys.stderr)
        return 2
    name, *sizes = arguments
    try:
        launch = CAPSTONES[name](*sizes) if name in CAPSTONES else _step(name, *sizes)
    except (TypeError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    launch()
    synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
