# SPDX-License-Identifier: Apache-2.0
"""The copy kernels beyond the plain ones: tensors of every rank, reductions, im2col, multicast, between CTAs, reads.

Arrays in, a `Launch` out, in either place, as in launch.py. Shapes and boxes are in the array's order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...hopper import tensormap
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as check
from .launch import SMS, Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
GLOBAL_REDUCTIONS = (
    *(f"add.{kind}" for kind in ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16")),
    *(f"{op}.{kind}" for op in ("min", "max") for kind in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    "inc.u32",
    "dec.u32",
    *(f"{op}.{kind}" for op in ("and", "or", "xor") for kind in ("b32", "b64")),
)
SHARED_REDUCTIONS = (
    "add.u32",
    "add.s32",
    "add.u64",
    "min.u32",
    "min.s32",
    "max.u32",
    "max.s32",
    "inc.u32",
    "dec.u32",
    "and.b32",
    "or.b32",
    "xor.b32",
)
METHODS = {"st": 0, "st.async": 1, "cp.async.bulk": 2}


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _int32(values: Sequence[int]) -> tuple[np.int32, ...]:
    return tuple(np.int32(value) for value in values)


def interleaved_map(array: Array, box: Sequence[int], interleave: str = "16B", swizzle: str = "none") -> TensorMap:
    """A map of an (N, slices, [D, [H,]] W, elements of a pixel) array: pixels of 16 or 32 bytes are TMA's elements.

    box: (N, 1, [D, [H,]] W) pixels. Raises TensorMapError when a pixel has another size than `interleave` says.
    """
    pixel = int(interleave[:-1])
    if array.shape[-1] * array.dtype.itemsize != pixel:
        raise tensormap.TensorMapError(
            f"a pixel of {array.shape[-1]} {array.dtype} is not {pixel} bytes, as interleave {interleave} needs", "interleave"
        )
    rank = array.ndim - 1
    plain = TensorMap.tiled(array[0, 0].reshape(-1, array.shape[-1]), box=(1, array.shape[-1]))
    order = (*range(rank - 1, 1, -1), 1, 0)  # W, H, D, then the slices, then N
    fields = replace(
        plain.fields,
        rank=rank,
        global_dim=tuple(array.shape[axis] for axis in order),
        global_strides=tuple(array.strides[axis] for axis in order[1:]),
        box_dim=tuple(box[axis] for axis in order),
        element_strides=(),
        interleave=interleave,
        swizzle=swizzle,
    )
    return TensorMap(fields, array, plain.place)


def _box_bytes(array, box: Sequence[int], swizzle: str) -> tuple[int, int]:
    """Bytes that a box's barrier counts, and bytes that it takes in shared memory."""
    inner = box[-1] * array.dtype.itemsize
    pitch = inner if swizzle == "none" else max(inner, int(swizzle[:-1]))
    rows = math.prod(box[:-1])
    return rows * inner, max(128, rows * pitch)


def _walk(shape: Sequence[int], box: Sequence[int]) -> tuple[int, tuple[np.int32, ...]]:
    """Number of boxes, and the kernel's arguments step0 … step4, boxes0 … boxes3 (innermost first)."""
    steps = [*reversed(box), *(1,) * (5 - len(box))]
    counts = [_ceil(size, edge) for size, edge in zip(reversed(shape), reversed(box), strict=True)]
    return math.prod(counts), _int32((*steps, *(counts + [1] * 4)[:4]))


def _alike(source, target) -> None:
    if source.shape != target.shape or source.dtype != target.dtype:
        raise check.OperandError(
            "shape",
            f"source is {source.dtype} {tuple(source.shape)} and target is {target.dtype} {tuple(target.shape)}: a copy needs "
            "two arrays of one shape and dtype",
        )


def _one_of(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")


def tensor_copy(
    source: Array, target: Array, box: Sequence[int], swizzle: str = "none", options: Sequence[str] = (), backend: str | None = None
) -> Launch:
    """target = source, 1 to 5 dimensions, one box a block, by copy/tensor_copy.cu."""
    _alike(source, target)
    dtype = "bfloat16" if source.dtype == np.uint16 else None
    kernel = load_kernel("copy/tensor_copy.cu", "tensor_copy", (f"-DRANK={len(box)}", *options), backend=backend)
    maps = tuple(TensorMap.tiled(array, box=tuple(box), swizzle=swizzle, dtype=dtype) for array in (source, target))
    blocks, walk = _walk(source.shape, box)
    counted, held = _box_bytes(source, box, swizzle)
    return Launch(kernel, (blocks,), (32,), (*maps, np.int32(counted), *walk), held)


def interleaved_copy(
    source: Array,
    target: Array,
    box: Sequence[int],
    interleave: str = "16B",
    swizzle: str = "none",
    options: Sequence[str] = (),
    backend: str | None = None,
) -> Launch:
    """The same for (N, slices, [D, [H,]] W, elements of a pixel) arrays; box (N, 1, [D, [H,]] W) in pixels."""
    _alike(source, target)
    kernel = load_kernel("copy/tensor_copy.cu", "tensor_copy", (f"-DRANK={len(box)}", *options), backend=backend)
    maps = tuple(interleaved_map(array, box, interleave, swizzle) for array in (source, target))
    # TMA's order is W [H [D]], slices, N; box has one slice.
    order = [*box[2:], box[1], box[0]] if len(box) == 3 else [*reversed(box[2:]), box[1], box[0]]
    sizes = [*reversed(source.shape[2:-1]), source.shape[1], source.shape[0]]
    blocks, walk = _walk(sizes[::-1], order[::-1])
    counted = math.prod(box) * int(interleave[:-1])
    return Launch(kernel, (blocks,), (32,), (*maps, np.int32(counted), *walk), counted)


def tma_reduce(
    source: Array,
    target: Array,
    op: str = "add",
    box: tuple[int, int] = (32, 64),
    dtype: str | None = None,
    options: Sequence[str] = (),
    backend: str | None = None,
) -> Launch:
    """target = target `op` source, 2-D, by copy/tma_reduce.cu. op: one of REDUCTIONS; a box is a multiple of 128 bytes."""
    _one_of("reduction", op, REDUCTIONS)
    check.same(source, target, dimensions=2, pitched=True)
    check.number("box bytes", box[0] * box[1] * source.itemsize, 128, 227 << 10, 128)
    kernel = load_kernel(
        "copy/tma_reduce.cu",
        "tma_reduce",
        (f"-DREDUCE={op}", f"-DBOX_ROWS={box[0]}", f"-DBOX_COLS={box[1]}", f"-DELEMENT_BYTES={source.itemsize}", *options),
        backend=backend,
    )
    maps = tuple(TensorMap.tiled(array, box=box, dtype=dtype) for array in (source, target))
    rows, columns = source.shape
    return Launch(kernel, (_ceil(columns, box[1]), _ceil(rows, box[0])), (32,), maps, box[0] * box[1] * source.itemsize)


def bulk_reduce(source: Array, target: Array, op_type: str = "add.u32", chunk: int = 4096, backend: str | None = None) -> Launch:
    """target = target op source in global memory, contiguous, a whole number of chunks, by copy/bulk_reduce.cu."""
    _one_of("reduction into global memory", op_type, GLOBAL_REDUCTIONS)
    check.number("chunk", chunk, 16, 227 << 10, 16)
    nbytes = check.flat(source, target, chunk)
    kernel = load_kernel(
        "copy/bulk_reduce.cu", "bulk_reduce", (f"-DOP_TYPE={op_type}", f"-DCHUNK_BYTES={chunk}"), backend=backend
    )
    return Launch(kernel, (nbytes // chunk,), (32,), (source, target), chunk)


def dsmem_reduce(
    source: Array, target: Array, op_type: str = "add.u32", chunk: int = 4096, cluster: int = 4, backend: str | None = None
) -> Launch:
    """Each chunk of target = `cluster` consecutive chunks of source, combined in shared memory, by copy/bulk_reduce.cu."""
    _one_of("reduction into shared memory", op_type, SHARED_REDUCTIONS)
    check.number("chunk", chunk, 16, 227 << 10, 16)
    check.number("cluster", cluster, 2, 8)
    for name, array in (("source", source), ("target", target)):
        check.array(name, array)
    if source.nbytes != cluster * target.nbytes or target.nbytes % chunk:
        raise check.OperandError(
            "size",
            f"source has {source.nbytes} bytes and target {target.nbytes}: target must be whole chunks of {chunk}, and source "
            f"{cluster} times as large",
        )
    options = (f"-DOP_TYPE={op_type}", f"-DCHUNK_BYTES={chunk}", f"-DCLUSTER={cluster}", "-DINTO_SHARED")
    kernel = load_kernel("copy/bulk_reduce.cu", "dsmem_reduce", options, backend=backend)
    return Launch(kernel, (source.nbytes // chunk,), (32,), (source, target), chunk)


def _convolution(image, out, filter_shape: Sequence[int], padding: int, stride: int, dilation: int) -> tuple[list[int], list[int], list[int]]:
    """Lower and upper corners of a convolution's window, and its outputs along each axis. Raises ValueError when image or out does not fit."""
    spatial = len(filter_shape)
    if image.ndim != spatial + 2 or not 1 <= spatial <= 3:
        raise ValueError(
            f"image {image.shape} must be (N, {'D, H, W'[-3 * spatial + 2 :]}, C) for a filter {tuple(filter_shape)}"
        )
    lower = [-padding] * spatial
    upper = [padding - dilation * (edge - 1) for edge in filter_shape]
    outputs = [_ceil(size + up - low, stride) for size, up, low in zip(image.shape[1:-1], upper, lower, strict=True)]
    count, taps = image.shape[0] * math.prod(outputs), math.prod(filter_shape)
    if min(outputs) < 1 or tuple(out.shape) != (count, taps, image.shape[-1]):
        raise ValueError(
            f"out is {tuple(out.shape)}; this convolution has outputs {tuple(outputs)}, so out must be "
            f"({count}, {taps}, {image.shape[-1]})"
        )
    return lower, upper, outputs


def im2col_load(
    image: Array,
    out: Array,
    filter_shape: Sequence[int],
    padding: int = 0,
    stride: int = 1,
    dilation: int = 1,
    pixels: int = 32,
    channels: int = 32,
    backend: str | None = None,
) -> Launch:
    """out (output pixels, filter elements, c) = the matrix of a convolution over image (N, [D, [H,]] W, C).

    filter_shape: ([D, [H,]] W). The same padding, stride and dilation along each axis. By copy/im2col_load.cu.
    """
    lower, upper, outputs = _convolution(image, out, filter_shape, padding, stride, dilation)
    spatial, (count, taps, _) = len(filter_shape), out.shape
    options = (f"-DRANK={image.ndim}", f"-DPIXELS={pixels}", f"-DCHANNELS={channels}", f"-DELEMENT_BYTES={image.itemsize}")
    kernel = load_kernel("copy/im2col_load.cu", "im2col_load", options, backend=backend)
    maps = (
        TensorMap.im2col(image, lower, upper, channels, pixels, element_strides=(1, *[stride] * spatial, 1)),
        TensorMap.tiled(out, box=(pixels, 1, channels)),
    )
    wide, low = ([*values[::-1], *[fill] * (3 - spatial)] for values, fill in ((outputs, 1), (lower, 0)))
    edges = [*filter_shape[::-1], 1, 1]
    numbers = _int32((*wide, *low, *[stride] * spatial, *[1] * (3 - spatial), edges[0], edges[1], dilation))
    return Launch(
        kernel,
        (_ceil(count, pixels), taps, _ceil(image.shape[-1], channels)),
        (32,),
        (*maps, *numbers),
        pixels * channels * image.itemsize,
    )


def multicast_copy(
    source: Array, target: Array, box: tuple[int, int] = (64, 64), cluster: int = 2, multicast: bool = True, backend: str | None = None
) -> Launch:
    """target[i] = source for each of `cluster` i (2, 4 or 8), by copy/multicast_copy.cu. source: (rows, columns)."""
    if cluster not in (2, 4, 8) or box[0] % cluster or box[0] * box[1] * source.itemsize % (128 * cluster):
        raise check.OperandError(
            "size",
            f"{cluster} CTAs cannot share a box of {box[0]} x {box[1]}: clusters have 2, 4 or 8, and each part of a box is whole "
            "rows and a multiple of 128 bytes",
        )
    if tuple(target.shape) != (cluster, *source.shape):
        raise ValueError(f"target is {tuple(target.shape)}; it must be ({cluster}, {source.shape[0]}, {source.shape[1]})")
    options = (
        f"-DCLUSTER={cluster}",
        f"-DMULTICAST={int(multicast)}",
        f"-DBOX_ROWS={box[0]}",
        f"-DBOX_COLS={box[1]}",
        f"-DELEMENT_BYTES={source.itemsize}",
    )
    kernel = load_kernel("copy/multicast_copy.cu", "multicast_copy", options, backend=backend)
    maps = (TensorMap.tiled(source, box=(box[0] // cluster, box[1])), TensorMap.tiled(target, box=(1, *box)))
    rows, columns = source.shape
    return Launch(kernel, (cluster, _ceil(columns, box[1]), _ceil(rows, box[0])), (32,), maps, box[0] * box[1] * source.itemsize)


def dsmem_copy(
    source: Array, target: Array, method: str = "cp.async.bulk", cluster: int = 2, chunk: int = 8192, backend: str | None = None
) -> Launch:
    """target = source through a neighbour's shared memory, by copy/dsmem_copy.cu. method: one of METHODS."""
    _one_of("method", method, tuple(METHODS))
    check.number("chunk", chunk, 2048, 113 << 10, 2048)
    check.number("cluster", cluster, 2, 8)
    nbytes = check.flat(source, target, cluster * chunk)
    options = (f"-DMETHOD={METHODS[method]}", f"-DCLUSTER={cluster}", f"-DCHUNK_BYTES={chunk}")
    kernel = load_kernel("copy/dsmem_copy.cu", "dsmem_copy", options, backend=backend)
    return Launch(kernel, (nbytes // chunk,), (128,), (source, target), 2 * chunk)


def bulk_read(source: Array, out: Array, stages: int = 4, chunk: int = 8192, blocks: int = 4 * SMS, backend: str | None = None) -> Launch:
    """Read a contiguous array and use nothing of it, by copy/bulk_read.cu; out: uint32, one receipt a block."""
    check.array("source", source)
    check.array("out", out, ("uint32",), 1, aligned=4)
    check.number("chunk", chunk, 128, 227 << 10, 128)
    check.number("out.size", out.size, blocks, 1 << 40)
    if source.nbytes % 16:
        raise check.OperandError("size", f"source has {source.nbytes} bytes; bulk copies move multiples of 16")
    kernel = load_kernel("copy/bulk_read.cu", "bulk_read", (f"-DSTAGES={stages}", f"-DCHUNK_BYTES={chunk}"), backend=backend)
    return Launch(kernel, (blocks,), (32,), (source, out, np.int64(source.nbytes)), stages * chunk)


def stream_copy(source: Array, target: Array, threads: int = 512, vectors: int = 1, hints: int = 1, backend: str | None = None) -> Launch:
    """target = source, contiguous, a multiple of 16 bytes, through registers, by copy/stream_copy.cu."""
    nbytes = check.flat(source, target)
    check.number("threads", threads, 32, 1024, 32)
    check.number("hints", hints, 0, 2)
    options = (f"-DTHREADS={threads}", f"-DVECTORS={vectors}", f"-DHINTS={hints}")
    kernel = load_kernel("copy/stream_copy.cu", "stream_copy", options, backend=backend)
    count = nbytes // 16
    return Launch(kernel, (_ceil(count, threads * vectors),), (threads,), (source, target, np.int64(count)))
