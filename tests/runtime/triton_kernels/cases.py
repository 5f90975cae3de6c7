# SPDX-License-Identifier: Apache-2.0
"""What the tests compile of triton_examples.py, launch and expect. A case names no module of Triton, so that its stored PTX runs where Triton is not installed."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from hopperlab.lessons.l18_after_hopper import other_languages

STORED = Path(__file__).parent / "stored"
BF16 = ml_dtypes.bfloat16
TILE = "tensordesc<fp16[64,64],NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, transposed=False, fp4_padded=False, cga_layout=[])>"
LAYOUT = "BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])"


def stored_ptx(name: str) -> Path:
    """Where a case's PTX lies: with lesson 18 where that runs it, else in stored/."""
    shown = other_languages.STORED / f"{name}.ptx"
    return shown if shown.exists() else STORED / f"{name}.ptx"


@dataclass(frozen=True)
class Case:
    """kernel: of triton_examples.py. arguments(): fresh, in order; right(arguments) says whether the result is. hazards: (kind, words of the line
    where, words of the other line or '') of each that is found; other lines stand in triton_examples.py. gluon: constexprs whose values are written in
    Gluon."""

    kernel: str
    signature: dict[str, str]
    constexprs: dict[str, Any]
    grid: Any
    arguments: Callable[[], tuple[Any, ...]]
    right: Callable[[tuple[Any, ...]], bool]
    options: dict[str, int] = field(default_factory=dict)
    gluon: dict[str, str] = field(default_factory=dict)
    hazards: tuple[tuple[str, str, str], ...] = ()


def ints(shape: Any, dtype: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def _product(m: int, n: int, k: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (ints((m, k), BF16, 1), ints((n, k), BF16, 2), np.zeros((m, n), BF16), k)


def _is_product(args: tuple[Any, ...]) -> bool:
    a, b, c = (array.astype(np.float32) for array in args[:3])
    return bool(((a @ b.T).astype(BF16).astype(np.float32) == c).all())


def _pointers() -> tuple[Any, ...]:
    a, b, c = ints((70, 48), np.float16, 3), ints((48, 56), np.float16, 4), np.zeros((70, 56), np.float16)
    return a, b, c, 70, 56, 48, 48, 1, 56, 1, 56, 1


def _is_softmax(args: tuple[Any, ...]) -> bool:
    e = np.exp(args[1].astype(np.float64) - args[1].max(1, keepdims=True))
    return bool(np.abs(args[0] - e / e.sum(1, keepdims=True)).max() < 1e-6)


def _copied(factor: int) -> Callable[[tuple[Any, ...]], bool]:
    return lambda args: bool((args[1] == args[0] * factor).all())


def _sized(m: int, n: int, k: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (*_product(m, n, k)()[:3], m, n, k)


MATRICES = {"a": "tensordesc<bf16[64,64]>", "b": "tensordesc<bf16[64,64]>", "c": "tensordesc<bf16[64,64]>", "k": "i32:16"}
STRIDES = {**dict.fromkeys("abc", "*fp16:16"), "m": "i32", "n": "i32", "k": "i32:16", "stride_am": "i32:16", "stride_ak": "i32:1", "stride_bk": "i32",
           "stride_bn": "i32:1",
           "stride_cm": "i32", "stride_cn": "i32:1"}
SIZED = {**MATRICES, "c": "*bf16:16", "m": "i32:16", "n": "i32:16", "k": "i32:16"}
TILES = {"source": TILE, "target": TILE}
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
TILE_ARGUMENTS = lambda: (ints((64, 64), np.float16, 6), np.zeros((64, 64), np.float16))

CASES = {
    "product": Case("product", MATRICES, BLOCKS, (2, 2), _product(128, 104, 128), _is_product),
    "product_without_roles": Case("product_with_roles", SIZED, {**BLOCKS, "ROLES": False}, (2, 2), _sized(128, 128, 128), _is_product),
    # Triton 3.6: two consumers make the same tile, each all of it; barriers are initialised twice, three that nobody uses lie where tiles land, and the
    # workers run two setmaxnreg in a row. Nothing of this makes the values wrong.
    "product_with_roles": Case("product_with_roles", SIZED, {**BLOCKS, "ROLES": True}, (2, 2), _sized(128, 128, 128), _is_product,
                               hazards=(("barrier-misuse", "def product_with_roles(", "def product_with_roles("), ("race", "tl.store(", "tl.store("),
                                        ("register-budget", "def product_with_roles(", "def product_with_roles("))),
    # Tiles of 128 rows: each consumer's half of A is loaded by the map of the whole tile, twice the bytes that were announced. On a GPU it hangs.
    "product_with_roles_128": Case("product_with_roles", {**SIZED, "a": "tensordesc<bf16[128,64]>"}, {**BLOCKS, "BM": 128, "ROLES": True}, (1, 1), _sized(128, 64, 64),
                                   lambda args: not _is_product(args),
                                   hazards=(("barrier-misuse", "def product_with_roles(", "def product_with_roles("),
                                            ("register-budget", "def product_with_roles(", "def product_with_roles("))),
    "product_two_ctas": Case("product", {**MATRICES, "b": "tensordesc<bf16[128,64]>", "c": "tensordesc<bf16[64,128]>"}, {**BLOCKS, "BN": 128}, (1, 2),
                             _product(64, 200, 128), _is_product, {"num_ctas": 2}),
    "product_by_pointers": Case("product_by_pointers", STRIDES, {"BM": 64, "BN": 64, "BK": 32}, (2, 1), _pointers,
                                lambda args: bool((args[0].astype(np.float32) @ args[1].astype(np.float32) == args[2]).all())),
    "softmax": Case("softmax", {"out": "*fp32:16", "x": "*fp32:16", "columns": "i32"}, {"BLOCK": 128}, 3,
                    lambda: (np.zeros((3, 100), np.float32), np.random.default_rng(5).standard_normal((3, 100)).astype(np.float32), 100), _is_softmax, {"num_warps": 2}),
    "odd_order": Case("odd_order", {"scale": "fp32", "out": "*fp32", "n": "i32", "x": "*fp32", "shift": "fp32", "stride": "i32"}, {"BLOCK": 64, "TWICE": True}, 2,
                      lambda: (2.0, np.zeros(100, np.float32), 100, np.arange(200, dtype=np.float32), 0.5, 2),
                      lambda args: bool((args[1] == (args[3][::2] * 2 + 0.5) * 2).all()), {"num_warps": 1}),
    "tma_copy": Case("tma_copy", TILES, {"WAIT": True}, 1, TILE_ARGUMENTS, _copied(1)),
    "tma_copy_without_wait": Case("tma_copy", TILES, {"WAIT": False}, 1, TILE_ARGUMENTS, lambda args: True,
                                  hazards=(("exit-in-flight", "tma.async_copy_global_to_shared(", ""), ("barrier-misuse", "mbarrier.invalidate(",
                                          "tma.async_copy_global_to_shared("),
                                           ("read-before-arrival", "tma.async_copy_shared_to_global(", "tma.async_copy_global_to_shared("))),
    "through_registers": Case("through_registers", TILES, {"FENCE": True}, 1, TILE_ARGUMENTS, _copied(2), gluon={"layout": LAYOUT}),
    "through_registers_without_fence": Case("through_registers", TILES, {"FENCE": False}, 1, TILE_ARGUMENTS, lambda args: True, gluon={"layout": LAYOUT},
                                            hazards=(("missing-proxy-fence", "tma.async_copy_shared_to_global(", "tile.store("),)),
}
