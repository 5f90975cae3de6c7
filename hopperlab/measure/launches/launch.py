# SPDX-License-Identifier: Apache-2.0
"""The course's kernels, ready to call: arrays in, a `Launch` out, in either place. One recipe a kernel.

A recipe knows the kernel's grid, block, shared memory and tensor maps, which its header documents. bf16 arrays are
ml_dtypes.bfloat16, or uint16 holding the same bits. Arrays that break a kernel's rules raise OperandError (operand_checks).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.launch_attributes import LaunchAttributes
from ...runtime.library import load_kernel
from ...runtime.module import RawKernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks

if TYPE_CHECKING:
    from ...runtime.arrays import Array

SMS = 132                                                   # multiprocessors of an H200
MOST_STAGES = 32                                            # of a ring; what fits into shared memory, a launch checks


@dataclass(frozen=True)
class Launch:
    """A kernel with everything it is launched with. Call it to launch (checked); `bound()` skips the checks, for timing. dependent: it may begin before the launch
    in front of it in its stream has ended (programmatic dependent launch), for a kernel that waits for that."""

    kernel: RawKernel
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple
    shared_mem: int = 0
    dependent: bool = False

    def __call__(self) -> None:
        self.kernel(self.grid, self.block, self.args, shared_mem=self.shared_mem, dependent=self.dependent)

    def bound(self) -> Callable[[], None]:
        """A callable that launches the cupy.RawKernel directly, a dependent launch in what is now CuPy's current stream. Launches once, checked, to raise its limits
        and compile."""
        self()
        raw, grid, block, size = self.kernel.cupy, self.grid, self.block, self.shared_mem
        args = tuple(arg.value if isinstance(arg, TensorMap) else arg for arg in self.args)
        if self.dependent:
            from ...runtime.gpu import launch_ex
            return launch_ex.prepared(raw, self.kernel.name, grid, block, args, size, None, LaunchAttributes(dependent=True))
        return lambda: raw(grid, block, args, shared_mem=size)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _bf16_map(array, box: Sequence[int], swizzle: str) -> TensorMap:
    return TensorMap.tiled(array, box=box, swizzle=swizzle, dtype="bfloat16" if array.dtype == np.uint16 else None)


def _tma_gemm(path: str, threads: int, a, b, c, stages: int, options: Sequence[str], backend: str | None) -> Launch:
    m, n, k = checks.product(a, b, c, k_multiple=8)
    checks.number("stages", stages, 1, MOST_STAGES)
    kernel = load_kernel(path, "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    maps = (_bf16_map(a, (128, 64), "128B"), _bf16_map(b, (128, 64), "128B"))
    return Launch(kernel, (_ceil(n, 128), _ceil(m, 128)), (threads,), (*maps, c, np.int32(m), np.int32(n), np.int32(k)),
                  stages * 32768 + 128)


def warp_specialized(a: Array, b: Array, c: Array, stages: int = 4, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """c[m,n] = a[m,k] * b[n,k]^T by gemm/warp_specialized.cu, bf16; k a multiple of 8; at most 6 stages."""
    return _tma_gemm("gemm/warp_specialized.cu", 384, a, b, c, stages, options, backend)


def tma_wgmma(a: Array, b: Array, c: Array, stages: int = 4, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """The same by gemm/tma_wgmma.cu, where the multiplying warps also issue the loads."""
    return _tma_gemm("gemm/tma_wgmma.cu", 256, a, b, c, stages, options, backend)


def mma_multistage(a: Array, b: Array, c: Array, stages: int = 4, bm: int = 128, bn: int = 128, options: Sequence[str] = (),
                   backend: str | None = None) -> Launch:
    """The same by gemm/mma_multistage.cu (cp.async, ldmatrix, mma.sync), with a tile of bm x bn."""
    m, n, k = checks.product(a, b, c, k_multiple=8)
    checks.number("stages", stages, 2, MOST_STAGES)
    kernel = load_kernel("gemm/mma_multistage.cu", "gemm", (f"-DSTAGES={stages}", f"-DBM={bm}", f"-DBN={bn}", *options),
                         backend=backend)
    return Launch(kernel, (_ceil(n, bn), _ceil(m, bm)), (256,), (a, b, c, np.int32(m), np.int32(n), np.int32(k)),
                  stages * (bm + bn) * 64)


GEMMS = {"mma_multistage": mma_multistage, "tma_wgmma": tma_wgmma, "warp_specialized": warp_specialized}


def _box_options(box: Sequence[int], itemsize: int) -> tuple[str, ...]:
    return (f"-DBOX_ROWS={box[0]}", f"-DBOX_COLS={box[1]}", f"-DELEMENT_BYTES={itemsize}")


def _slot_bytes(box: Sequence[int], itemsize: int) -> int:
    return _ceil(box[0] * box[1] * itemsize, 1024) * 1024


def tma_copy(source: Array, target: Array, box: tuple[int, int] = (64, 64), swizzle: str = "none", options: Sequence[str] = (),
             backend: str | None = None) -> Launch:
    """target = source, 2-D, one box a block, by copy/tma_copy.cu."""
    checks.same(source, target, dimensions=2, pitched=True)
    kernel = load_kernel("copy/tma_copy.cu", "tma_copy", (*_box_options(box, source.itemsize), *options), backend=backend)
    maps = (_bf16_map(source, box, swizzle), _bf16_map(target, box, swizzle))
    rows, columns = source.shape
    return Launch(kernel, (_ceil(columns, box[1]), _ceil(rows, box[0])), (32,), maps, _slot_bytes(box, source.itemsize))


def tma_copy_ring(source: Array, target: Array, box: tuple[int, int] = (64, 64), swizzle: str = "none", stages: int = 4, blocks: int = SMS,
                  options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """target = source, 2-D, `blocks` blocks that walk over the boxes with `stages` in flight."""
    checks.same(source, target, dimensions=2, pitched=True)
    kernel = load_kernel("copy/tma_copy.cu", "tma_copy_ring",
                         (*_box_options(box, source.itemsize), f"-DSTAGES={stages}", *options), backend=backend)
    maps = (_bf16_map(source, box, swizzle), _bf16_map(target, box, swizzle))
    rows, columns = source.shape
    return Launch(kernel, (blocks,), (32,), (*maps, np.int32(rows), np.int32(columns)),
                  stages * _slot_bytes(box, source.itemsize))


def tma_landing(source: Array, out: Array, box: Sequence[int], coordinates: Sequence[int], box_bytes: int, swizzle: str = "none",
                options: Sequence[str] = (), backend: str | None = None, **map_choices: Any) -> Launch:
    """Shared memory as TMA leaves it, byte for byte into `out` (uint8), after loading one box of 1 to 5 dimensions.

    box and coordinates in the array's order; box_bytes: what the barrier expects; map_choices: for TensorMap.tiled.
    """
    rank = len(box)
    checks.array("out", out, ("uint8",), 1)
    if not 1 <= rank <= 5 or rank != source.ndim or rank != len(coordinates):
        raise checks.OperandError("shape", f"source has {source.ndim} dimensions, the box {rank} edges, and there are {len(coordinates)} "
                                           "coordinates: all three are the same, 1 to 5")
    kernel = load_kernel("copy/tma_copy.cu", "tma_landing", (f"-DRANK={rank}", *options), backend=backend)
    place = [np.int32(value) for value in (*reversed(coordinates), *(0,) * (5 - rank))]
    source_map = TensorMap.tiled(source, box=tuple(box), swizzle=swizzle, **map_choices)
    return Launch(kernel, (1,), (128,), (source_map, out, np.int32(out.size), np.int32(box_bytes), *place), out.size)


def tma_scale(source: Array, target: Array, factor: float, blocks: int = SMS, options: Sequence[str] = (),
              backend: str | None = None) -> Launch:
    """target = factor * source, float32, 2-D, by copy/tma_scale.cu with 64 x 32 boxes and the 128-byte swizzle."""
    checks.same(source, target, ("float32",), 2, pitched=True)
    kernel = load_kernel("copy/tma_scale.cu", "tma_scale", tuple(options), backend=backend)
    maps = tuple(TensorMap.tiled(array, box=(64, 32), swizzle="128B") for array in (source, target))
    rows, columns = source.shape
    return Launch(kernel, (blocks,), (128,), (*maps, np.int32(rows), np.int32(columns), np.float32(factor)), 2 * 8192)


def bulk_copy(source: Array, target: Array, stages: int = 4, chunk: int = 4096, blocks: int = 8 * SMS, options: Sequence[str] = (),
              backend: str | None = None) -> Launch:
    """target = source, contiguous, a multiple of 16 bytes, by copy/bulk_copy.cu with chunks of `chunk` bytes."""
    checks.number("chunk", chunk, 16, 227 * 1024 // stages, multiple=16)
    total = checks.flat(source, target)
    kernel = load_kernel("copy/bulk_copy.cu", "bulk_copy", (f"-DSTAGES={stages}", f"-DCHUNK_BYTES={chunk}", *options),
                         backend=backend)
    return Launch(kernel, (blocks,), (32,), (source, target, np.int64(total)), stages * chunk)


def cp_async_copy(source: Array, target: Array, stages: int = 8, blocks: int = 4 * SMS, options: Sequence[str] = (),
                  backend: str | None = None) -> Launch:
    """The same through shared memory with cp.async, by copy/cp_async_copy.cu."""
    total = checks.flat(source, target)
    kernel = load_kernel("copy/cp_async_copy.cu", "cp_async_copy", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, (blocks,), (256,), (source, target, np.int64(total // 16)), stages * 4096)


def vector_copy(source: Array, target: Array, unroll: int = 4, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """The same through registers, by copy/vector_copy.cu."""
    vectors = checks.flat(source, target) // 16
    kernel = load_kernel("copy/vector_copy.cu", "vector_copy", (f"-DUNROLL={unroll}", *options), backend=backend)
    return Launch(kernel, (_ceil(vectors, 256 * unroll),), (256,), (source, target, np.int64(vectors)))


def box_load(how: str, matrix: Array, out: Array, box: tuple[int, int], stages: int = 4, blocks: int = SMS,
             backend: str | None = None) -> Launch:
    """Load every box of a bf16 matrix and use none, by micro/tma_vs_cp_async.cu. how: 'tma' or 'cp_async'.

    matrix: rows and columns multiples of the box's; out: uint32 zeros, one a block.
    """
    checks.array("matrix", matrix, checks.BF16, 2)
    checks.array("out", out, ("uint32",), 1)
    rows, columns = matrix.shape
    if how not in ("tma", "cp_async") or rows % box[0] or columns % box[1] or out.size < blocks:
        raise checks.OperandError("shape", f"how is {how!r}, matrix {rows} x {columns}, box {box[0]} x {box[1]}, out {out.size} numbers "
                                           f"for {blocks} blocks: how is 'tma' or 'cp_async', the matrix is a whole number of boxes, "
                                           "and out has a number a block")
    options = (f"-DBOX_ROWS={box[0]}", f"-DBOX_COLS={box[1]}", f"-DSTAGES={stages}")
    kernel = load_kernel("micro/tma_vs_cp_async.cu", f"{how}_load", options, backend=backend)
    source = _bf16_map(matrix, box, "none") if how == "tma" else matrix
    return Launch(kernel, (blocks,), (128,), (source, out, np.int32(rows), np.int32(columns)), stages * box[0] * box[1] * 2)


def fold(number: int, x: Array, y: Array, blocks: int = SMS, backend: str | None = None) -> Launch:
    """Kernel 1 to 4 of lesson 00: y[i] = x[i] + its mirror image inside 128 numbers; float32, a multiple of 512 numbers."""
    checks.number("number", number, 1, 4)
    checks.same(x, y, ("float32",))
    checks.flat(x, y, 2048)
    kernel = load_kernel(f"start_here/kernel_{number}.cu", "fold", backend=backend)
    return Launch(kernel, (blocks,), (128,), (x, y, np.int32(x.size // 512)))
