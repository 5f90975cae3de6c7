# SPDX-License-Identifier: Apache-2.0
"""Products that lessons use as controls, ready to call: the 2x2 of copies and tensor cores, operand types, roles, C++ pipelines.

a: m x k, b: n x k, c: m x n unless said otherwise; bf16 as ml_dtypes.bfloat16 or uint16 bits. Arrays in, a `Launch` out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as check
from .launch import Launch, tma_wgmma, warp_specialized
from .gemm import tma_mma

if TYPE_CHECKING:
    from ...runtime.arrays import Array


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _grid(m: int, n: int) -> tuple[int, int]:
    return _ceil(n, 128), _ceil(m, 128)


def _numbers(*sizes: int) -> tuple[np.int32, ...]:
    return tuple(np.int32(size) for size in sizes)


def _one_of(name: str, value, known: Sequence) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}; this kernel takes {', '.join(map(str, known))}")


def _without_maps(path: str, a, b, c, options: Sequence[str], stages: int, backend: str | None, least: int = 2) -> Launch:
    m, n, k = check.product(a, b, c, 8)
    check.number("stages", stages, least, 7)
    kernel = load_kernel(path, "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, _grid(m, n), (256,), (a, b, c, *_numbers(m, n, k)), stages * 32768)


def cp_async_mma(a: Array, b: Array, c: Array, stages: int = 3, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/cp_async_mma.cu: Ampere on both sides, on the tiles of the 2x2. k a multiple of 8; at most 7 stages."""
    return _without_maps("gemm/cp_async_mma.cu", a, b, c, options, stages, backend)


def cp_async_barriers(a: Array, b: Array, c: Array, stages: int = 3, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/cp_async_barriers.cu: cp_async_mma with full and empty mbarriers in place of groups. k a multiple of 8; at most 7 stages."""
    return _without_maps("gemm/cp_async_barriers.cu", a, b, c, options, stages, backend)


def cp_async_wgmma(a: Array, b: Array, c: Array, stages: int = 3, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/cp_async_wgmma.cu: Ampere's copies, Hopper's tensor core. k a multiple of 8; 3 to 7 stages."""
    return _without_maps("gemm/cp_async_wgmma.cu", a, b, c, options, stages, backend, 3)


def cuda_pipeline(
    a: Array, b: Array, c: Array, stages: int = 3, scope: str = "thread", options: Sequence[str] = (), backend: str | None = None
) -> Launch:
    """gemm/cuda_pipeline.cu: cp_async_mma in C++, with a pipeline of each thread or of the block. k a multiple of 8."""
    scopes = {"thread": "-DSCOPE=0", "block": "-DSCOPE=1"}
    _one_of("scope", scope, tuple(scopes))
    return _without_maps("gemm/cuda_pipeline.cu", a, b, c, (scopes[scope], *options), stages, backend)


def _bf16_map(array, columns: int = 64) -> TensorMap:
    dtype = "bfloat16" if array.dtype == np.uint16 else None
    return TensorMap.tiled(array, box=(128, columns), swizzle=f"{2 * columns}B", dtype=dtype)


def multistage(a: Array, b: Array, c: Array, stages: int = 4, bk: int = 64, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/multistage.cu: TMA and wgmma without roles; bk 32, 64 or 128 columns per stage. k a multiple of 8."""
    m, n, k = check.product(a, b, c, 8)
    check.number("stages", stages, 2, 8)
    _one_of("bk", bk, (32, 64, 128))
    kernel = load_kernel("gemm/multistage.cu", "gemm", (f"-DSTAGES={stages}", f"-DBK={bk}", *options), backend=backend)
    maps = (_bf16_map(a, min(bk, 64)), _bf16_map(b, min(bk, 64)))
    return Launch(kernel, _grid(m, n), (256,), (*maps, c, *_numbers(m, n, k)), stages * (512 * bk + 16))


def producer_warp(a: Array, b: Array, c: Array, stages: int = 4, warps: int = 1, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/producer_warp.cu: warp_specialized with a producer of 1 or 4 warps. k a multiple of 8."""
    m, n, k = check.product(a, b, c, 8)
    check.number("stages", stages, 2, 7)
    _one_of("warps", warps, (1, 4))
    kernel = load_kernel(
        "gemm/producer_warp.cu", "gemm", (f"-DSTAGES={stages}", f"-DPRODUCER_WARPS={warps}", *options), backend=backend
    )
    return Launch(
        kernel, _grid(m, n), (256 + 32 * warps,), (_bf16_map(a), _bf16_map(b), c, *_numbers(m, n, k)), stages * (32768 + 16)
    )


@dataclass(frozen=True)
class Operand:
    """One of wgmma's input types: INPUT of gemm/wgmma_operands.cu, the tensor map's type, bytes, and C's NumPy type."""

    code: int
    map_dtype: str | None
    bytes: int
    result: str


OPERANDS: Mapping[str, Operand] = {
    "bf16": Operand(0, "bfloat16", 2, "float32"),
    "f16": Operand(1, None, 2, "float32"),
    "tf32": Operand(2, None, 4, "float32"),
    "e4m3": Operand(3, "uint8", 1, "float32"),
    "s8": Operand(4, "uint8", 1, "int32"),
}


def _operand_map(array, kind: str, mn_major: bool) -> TensorMap:
    operand = OPERANDS[kind]
    box = (64, 64) if mn_major else (128, 128 // operand.bytes)
    return TensorMap.tiled(array, box=box, swizzle="128B", dtype=operand.map_dtype)


def _operand_sizes(a, b, c, kind: str, source: str, a_major: str, b_major: str) -> tuple[int, int, int]:
    """m, n and k of a product by gemm/wgmma_operands.cu. Raises ValueError for what wgmma cannot read, and for arrays that do not fit."""
    _one_of("kind", kind, tuple(OPERANDS))
    _one_of("source", source, ("SS", "RS"))
    for major in (a_major, b_major):
        _one_of("major", major, ("K", "MN"))
    for name, value in (("a", a), ("b", b), ("c", c)):
        check.array(name, value, dimensions=2)
    operand = OPERANDS[kind]
    if operand.bytes != 2 and (a_major, b_major) != ("K", "K"):
        raise ValueError(f"wgmma reads {kind} K-major only; MN-major operands are f16 or bf16")
    if a.itemsize != operand.bytes or c.dtype.name != operand.result:
        raise ValueError(
            f"{kind} products take {operand.bytes}-byte a and b and give {operand.result}, not {a.dtype} and {c.dtype}"
        )
    (m, k), (n, other) = (array.shape[::-1] if major == "MN" else array.shape for array, major in ((a, a_major), (b, b_major)))
    if k != other or tuple(c.shape) != (m, n):
        raise ValueError(
            f"a is {a.shape} ({a_major}-major), b is {b.shape} ({b_major}-major) and c is {c.shape}: k or c does not fit"
        )
    return m, n, k


def wgmma_operands(
    a: Array,
    b: Array,
    c: Array,
    kind: str = "bf16",
    source: str = "SS",
    a_major: str = "K",
    b_major: str = "K",
    stages: int = 4,
    options: Sequence[str] = (),
    backend: str | None = None,
) -> Launch:
    """c = a * b^T by gemm/wgmma_operands.cu: any input type of wgmma, c float32 (int32 for s8).

    kind: a key of OPERANDS; source: "SS" or "RS" (a from registers); a_major "MN": a is k x m, b_major "MN": b is k x n (16-bit
    types). Rows of every matrix are multiples of 16 bytes. Raises ValueError for what wgmma cannot read.
    """
    m, n, k = _operand_sizes(a, b, c, kind, source, a_major, b_major)
    check.number("stages", stages, 2, 7)
    chosen = (
        f"-DINPUT={OPERANDS[kind].code}",
        f"-DA_SOURCE={int(source == 'RS')}",
        f"-DA_MN={int(a_major == 'MN')}",
        f"-DB_MN={int(b_major == 'MN')}",
        f"-DSTAGES={stages}",
    )
    kernel = load_kernel("gemm/wgmma_operands.cu", "gemm", (*chosen, *options), backend=backend)
    maps = (_operand_map(a, kind, a_major == "MN"), _operand_map(b, kind, b_major == "MN"))
    return Launch(kernel, _grid(m, n), (288,), (*maps, c, *_numbers(m, n, k)), stages * (32768 + 16))


def _two_blocks(make: Callable[..., Launch], fixed: int | None = None) -> Callable[..., Launch]:
    def launch(a, b, c, stages: int = 3, blocks: int = 2, options: Sequence[str] = (), backend: str | None = None) -> Launch:
        budget = () if fixed == blocks else (f"-DBLOCKS_PER_SM={blocks}",)
        return make(a, b, c, stages=stages, options=(*budget, *options), backend=backend)

    return launch


# {cp.async, TMA} x {mma.sync, wgmma} on equal tiles: 128 x 128 x 64, 256 threads, the same ring. tma_mma is budgeted for two
# blocks per SM as it stands.
TWO_BY_TWO: Mapping[tuple[str, str], Callable[..., Launch]] = {
    ("cp.async", "mma.sync"): _two_blocks(cp_async_mma),
    ("TMA", "mma.sync"): _two_blocks(tma_mma, fixed=2),
    ("cp.async", "wgmma"): _two_blocks(cp_async_wgmma),
    ("TMA", "wgmma"): _two_blocks(multistage),
}

VARIANTS: Mapping[str, Callable[..., Launch]] = {
    "cp_async_mma": cp_async_mma,
    "tma_mma": tma_mma,
    "cp_async_barriers": cp_async_barriers,
    "cp_async_wgmma": cp_async_wgmma,
    "multistage": multistage,
    "cuda_pipeline": cuda_pipeline,
    "producer_warp": producer_warp,
    "tma_wgmma": tma_wgmma,
    "warp_specialized": warp_specialized,
}
"""Every bf16 product here by name, with the same signature: make(a, b, c, stages=…, options=…, backend=…)."""
