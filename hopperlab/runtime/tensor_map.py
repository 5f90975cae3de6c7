# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: what TMA is told about an array. Python writes shapes in the array's order; the driver's is the reverse.

Every rule of cuTensorMapEncodeTiled is checked first (`hopper.tensormap`), since the driver answers each breach with
CUDA_ERROR_INVALID_VALUE alone. On the GPU the driver then encodes the map; in the emulator it is our own 128-byte image.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..hopper import tensormap
from .arrays import Array, address_of, is_cuda_array, overreach
from .errors import GpuError


class TensorMap:
    """A tensor map of an array, passed to a kernel by value (`const __grid_constant__ TensorMap`, which
    <hopperlab/tma.cuh> declares, or any other 128-byte structure).

    Make one with `TensorMap.tiled`. Attributes: `fields` (in the driver's order), `array` (kept alive), `place` ('gpu' or
    'emulator', where the array lives), `value` (the 128 bytes as a numpy.void scalar, which CuPy passes by value).
    """

    def __init__(self, fields: tensormap.TensorMapFields, array: Array, place: str):
        tensormap.check(fields)
        self.fields, self.array, self.place = fields, array, place
        image = _encode_on_gpu(fields) if place == "gpu" else tensormap.pack(fields)
        self.value: np.void = np.frombuffer(image, dtype=np.dtype("V128"))[0]
        if place == "gpu":
            _on_gpu[image] = self

    @classmethod
    def tiled(cls, array: Array, box: Sequence[int], swizzle: str = "none", interleave: str = "none", l2_promotion: str = "none",
              oob_fill: str = "zero", element_strides: Sequence[int] | None = None, dtype: str | None = None) -> TensorMap:
        """A tiled map of `array` (NumPy in the emulator, CuPy on the GPU), which may be a view with strides.

        box:             elements of the tile along each axis of the array, in the array's order, as `array.shape`
        swizzle:         "none", "32B", "64B" or "128B"; the last box edge must fit into it
        interleave:      "none", "16B" or "32B"
        l2_promotion:    "none", "64B", "128B" or "256B"
        oob_fill:        "zero" or "nan", what a load gives outside the array
        element_strides: steps in elements along each axis, in the array's order; None is 1 everywhere
        dtype:           a driver type that NumPy has no name for ("tfloat32", "float32_ftz"); None takes the array's
        Raises TensorMapError, which names the broken rule with its numbers. [CUDA driver API, cuTensorMapEncodeTiled]
        """
        place = "gpu" if is_cuda_array(array) else "emulator"
        with _reported(array):
            fields = _fields_of(array, place, box, element_strides, dtype, swizzle=swizzle, interleave=interleave,
                                l2_promotion=l2_promotion, oob_fill=oob_fill)
            return cls(fields, array, place)

    @classmethod
    def im2col(cls, array: Array, lower: Sequence[int], upper: Sequence[int], channels: int, pixels: int, swizzle: str = "none",
               l2_promotion: str = "none", element_strides: Sequence[int] | None = None, dtype: str | None = None) -> TensorMap:
        """A map in im2col mode of an (N, [D, [H,]] W, C) array, such as a convolution's input.

        lower, upper:    corners of the bounding box of a filter's first element, in pixels from the first and from the last
                         pixel, in the array's order ([D, [H,]] W)
        channels:        channels a pixel that one load brings (at most 256)
        pixels:          pixels that one load brings (at most 1024): they walk over the bounding box, image after image
        element_strides: steps along each axis, in the array's order (a convolution's stride); None is 1 everywhere
        Raises TensorMapError, which names the broken rule. [CUDA driver API, cuTensorMapEncodeIm2col; PTX ISA 5.5.4]
        """
        place = "gpu" if is_cuda_array(array) else "emulator"
        with _reported(array):
            fields = _fields_of(array, place, None, element_strides, dtype, swizzle=swizzle, l2_promotion=l2_promotion,
                                pixel_box_lower_corner=tuple(lower)[::-1], pixel_box_upper_corner=tuple(upper)[::-1],
                                channels_per_pixel=channels, pixels_per_column=pixels)
            return cls(fields, array, place)

    def at(self, address: int) -> bytes:
        """The emulator's 128-byte image of this map over the array at another address."""
        from dataclasses import replace
        return tensormap.pack(replace(self.fields, global_address=address))

    def __bytes__(self) -> bytes:
        return self.value.tobytes()

    def describe(self, address: bool = True) -> str:
        """Every field in the driver's order and units; address=False leaves the address out (it differs from run to run)."""
        return tensormap.describe(self.fields, address=address)

    def __str__(self) -> str:
        return self.describe()

    __repr__ = __str__


class PointedMap(TensorMap):
    """A tensor map that a kernel takes by address (`const CUtensorMap*`): what is passed is a copy of its 128 bytes in device memory."""

    _copy: Any = None

    @classmethod
    def of(cls, given: TensorMap) -> PointedMap:
        """The same map, passed by address."""
        made = cls.__new__(cls)
        made.__dict__.update(given.__dict__, given=given)
        return made

    def on_gpu(self) -> Any:
        """The copy as a CuPy array. It lives as long as the map that was given."""
        import cupy
        given = self.__dict__["given"]
        if getattr(given, "_copy", None) is None:
            given._copy = cupy.asarray(np.frombuffer(bytes(self), np.uint8))
        return given._copy


_on_gpu: WeakValueDictionary[bytes, TensorMap] = WeakValueDictionary()


def made_on_gpu(image: bytes) -> bool:
    """True for the driver's 128 bytes of a map that is alive."""
    return image in _on_gpu


class _reported:
    """Adds to a TensorMapError which array it is about, and lets notebooks show the message alone."""

    def __init__(self, array: Array):
        self.array = array

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> None:
        if isinstance(error, tensormap.TensorMapError) and error.args:
            shape, dtype = getattr(self.array, "shape", None), getattr(self.array, "dtype", None)
            text = f"{error.args[0]}\n(array of shape {shape}, {dtype}; index 0 of the driver is the array's last axis)"
            error.args = (text,)
            setattr(error, "_render_traceback_", lambda: [f"TensorMapError: {text}"])  # noqa: B010 - IPython asks for it; the class has none


def _fields_of(array: Array, place: str, box: Sequence[int] | None, element_strides: Sequence[int] | None, dtype: str | None, **modes: Any) -> tensormap.TensorMapFields:
    if place == "emulator" and not isinstance(array, np.ndarray):
        raise TypeError(f"a tensor map describes a NumPy or CuPy array, not a {type(array).__name__}")
    if place == "emulator" and (beyond := overreach(array)):
        raise tensormap.TensorMapError(f"the array {beyond}", "memory")
    rank, itemsize = len(array.shape), array.dtype.itemsize
    strides: tuple[int, ...] = array.strides if array.strides is not None else ()
    if rank and array.size and array.shape[-1] > 1 and strides[-1] != itemsize:
        raise tensormap.TensorMapError(
            f"the last axis has a stride of {strides[-1]} bytes, but its elements have {itemsize}: TMA needs the innermost "
            "dimension dense; transpose the view or copy it", "inner_stride")
    return tensormap.TensorMapFields(
        dtype=dtype or array.dtype.name, rank=rank,
        global_address=array.data.ptr if place == "gpu" else address_of(array),
        global_dim=array.shape[::-1], global_strides=strides[:-1][::-1], box_dim=_axes("box", box, rank) if box is not None else (),
        element_strides=_axes("element_strides", element_strides, rank) if element_strides is not None else (), **modes)


def _axes(what: str, values: Sequence[int], rank: int) -> tuple[int, ...]:
    """Array order to the driver's order, one number an axis."""
    given = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    try:
        numbers = tuple(operator.index(v) for v in given)
    except TypeError:
        raise tensormap.TensorMapError(f"{what} {given} counts elements: whole numbers only", "whole_numbers") from None
    if len(numbers) != rank:
        raise tensormap.TensorMapError(f"{what} {numbers} has {len(numbers)} entr{'y' if len(numbers) == 1 else 'ies'}; the "
                                       f"array has {rank} axes, and {what} has one number for each", "lengths")
    return numbers[::-1]


def _encode_on_gpu(fields: tensormap.TensorMapFields) -> bytes:
    """cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col through cuda-bindings: the driver's own 128 bytes."""
    import ctypes

    from cuda.bindings import driver
    u32, u64 = driver.cuuint32_t, driver.cuuint64_t
    tensor = (driver.CUtensorMapDataType(tensormap.DTYPES[fields.dtype].code), fields.rank, fields.global_address,
              [u64(n) for n in fields.global_dim],
              [u64(n) for n in fields.global_strides or (16,)])  # rank 1 has none, but the driver refuses a null pointer
    modes = ([u32(n) for n in fields.element_strides],
             driver.CUtensorMapInterleave(tensormap.INTERLEAVES.index(fields.interleave)),
             driver.CUtensorMapSwizzle(tensormap.SWIZZLES.index(fields.swizzle)),
             driver.CUtensorMapL2promotion(tensormap.L2_PROMOTIONS.index(fields.l2_promotion)),
             driver.CUtensorMapFloatOOBfill(tensormap.OOB_FILLS.index(fields.oob_fill)))
    box: tuple[Any, ...]
    if fields.mode == "im2col":
        encode, box = driver.cuTensorMapEncodeIm2col, (list(fields.pixel_box_lower_corner), list(fields.pixel_box_upper_corner),
                                                       fields.channels_per_pixel, fields.pixels_per_column)
    else:
        encode, box = driver.cuTensorMapEncodeTiled, ([u32(n) for n in fields.box_dim],)
    status, encoded = encode(*tensor, *box, *modes)
    if status.value:
        raise GpuError(f"{encode.__name__} returned {status.name} for a map that keeps every documented rule:\n"
                       f"{tensormap.describe(fields)}")
    return ctypes.string_at(encoded.getPtr(), 128)
