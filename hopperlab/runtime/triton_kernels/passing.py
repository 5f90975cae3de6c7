# SPDX-License-Identifier: Apache-2.0
"""A Triton kernel's arguments as its PTX takes them: pointers, numbers, and of a descriptor the map, i32 shape and i64 strides.

What the compiler was told to rely on (divisible by 16, equal to 1) is checked at each launch.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Array, is_cuda_array
from ..errors import LaunchError
from ..tensor_map import TensorMap
from .argument_types import NAME_OF, POINTEES, SCALARS, Type, address

SWIZZLES = ("none", "32B", "64B", "128B")
MAP_TYPES = {"i1": "uint8", "i8": "uint8", "i16": "uint16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
             **{name: "uint8" for name in POINTEES if name.startswith("fp8")}}
"""Type of a tensor map's elements, by Triton's name; the others have NumPy's."""


def pointer(where: str, type_: Type, value: Any) -> Any:
    """An array for a pointer parameter. Raises LaunchError for other elements than the kernel was compiled for, and for a pointer that breaks its hint."""
    if value is None:
        return np.uint64(0)
    if isinstance(value, (int, np.integer)):
        place = int(value)
    elif isinstance(value, np.ndarray) or is_cuda_array(value):
        _fits(where, type_, value)
        place = address(value)
    else:
        raise LaunchError(f"{where} is a {type(value).__name__}, but the kernel was compiled for {type_}: pass an array")
    if type_.hint == 16 and place % 16:
        raise LaunchError(f"{where} lies at {place:#x}, but the kernel was compiled for a pointer divisible by 16 ({type_}): write {type_.word} for one that "
                          f"may lie anywhere")
    return np.uint64(place) if isinstance(value, (int, np.integer)) else value


def _fits(where: str, type_: Type, array: Array) -> None:
    """Elements of the kernel's type, or unsigned integers that hold their bits."""
    name = array.dtype.name
    if NAME_OF.get(name) != type_.element and not (array.dtype.itemsize == POINTEES[type_.element]
                                                   and (name.startswith("uint") or {NAME_OF.get(name), type_.element} <= {"i1", "i8", "u8"})):
        raise LaunchError(f"{where} is an array of {name}, but the kernel was compiled for {type_}")


def number(where: str, type_: Type, value: Any) -> np.generic:
    """A number of the parameter's type. Raises LaunchError for one that does not fit it or breaks its hint."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, (bool, int, float, np.generic)):
        raise LaunchError(f"{where} is a {type(value).__name__}, but the kernel was compiled for a number ({type_})")
    whole = type_.element.startswith(("i", "u"))
    if whole and isinstance(value, (float, np.floating)):
        raise LaunchError(f"{where} is {value}, but the kernel was compiled for a whole number ({type_})")
    if whole:
        _check_whole(where, type_, int(value))
    try:
        kind: Any = np.dtype(SCALARS[type_.element]).type
    except TypeError:
        import ml_dtypes
        kind = getattr(ml_dtypes, SCALARS[type_.element])
    made: np.generic = kind(value)
    return made


def _check_whole(where: str, type_: Type, value: int) -> None:
    if type_.hint == 1 and value != 1:
        raise LaunchError(f"{where} is {value}, but the kernel was compiled for 1 ({type_})")
    if type_.hint == 16 and value % 16:
        raise LaunchError(f"{where} is {value}, but the kernel was compiled for a number divisible by 16 ({type_}): compile it with {type_.word} for this one")
    low, high = (0, 1) if type_.element in ("i1", "u1") else (np.iinfo(SCALARS[type_.element]).min, np.iinfo(SCALARS[type_.element]).max)
    if not int(low) <= value <= int(high):
        raise LaunchError(f"{where} is {value}, which does not fit {type_.element}")


def descriptor(where: str, type_: Type, value: Any, told: Mapping[str, Any] | None) -> list[Any]:
    """The parameters of one tensor descriptor. value: an array, a hl.TensorMap, or a TensorDescriptor of Triton over an array; told: what Triton says of its map."""
    array, fill = _array_of(where, value)
    _fits(where, type_, array)
    if len(array.shape) != len(type_.block):
        raise LaunchError(f"{where} has {len(array.shape)} axes, but the kernel was compiled for a descriptor of {len(type_.block)} ({type_})")
    shape, strides = array.shape, [stride // array.dtype.itemsize for stride in _strides(array)]
    described = [*(np.int32(n) for n in shape), *(np.int64(n) for n in strides)]
    if told is None:
        return [array, *(np.int64(n) for n in (*shape, *strides)), np.uint8(fill == "nan"), *described]
    if told["fp4_padded"]:
        raise LaunchError(f"{where}: padded fp4 descriptors are Blackwell's")
    if isinstance(value, TensorMap):
        _same_box(where, value, told)
        return [value, *described]
    return [TensorMap.tiled(array, box=tuple(told["block_size"]), swizzle=SWIZZLES[told["swizzle"]], oob_fill=fill,
                            dtype=MAP_TYPES.get(type_.element, SCALARS.get(type_.element))), *described]


def _strides(array: Array) -> tuple[int, ...]:
    """Strides in bytes (CuPy and NumPy have them always)."""
    return tuple(array.strides)


def _array_of(where: str, value: Any) -> tuple[Array, str]:
    """The array that a descriptor looks at, and how it fills what lies outside."""
    if isinstance(value, TensorMap):
        return value.array, "zero"
    if isinstance(value, np.ndarray) or is_cuda_array(value):
        return value, "zero"
    base: Any = getattr(value, "base", None)
    if isinstance(base, np.ndarray) or is_cuda_array(base):
        view = _module(base).lib.stride_tricks.as_strided(base, tuple(value.shape), tuple(stride * base.dtype.itemsize for stride in value.strides))
        return view, str(getattr(value, "padding", "zero"))
    raise LaunchError(f"{where} is a {type(value).__name__}, but the kernel was compiled for a tensor descriptor: pass an array, or hl.TensorMap, or a "
                      f"TensorDescriptor over an array")


def _module(array: Array) -> Any:
    if is_cuda_array(array):
        import cupy
        return cupy
    return np


def _same_box(where: str, value: TensorMap, told: Mapping[str, Any]) -> None:
    """A map made by hand has the box and the swizzle that the kernel was compiled for."""
    box, swizzle = tuple(value.fields.box_dim)[::-1], value.fields.swizzle
    if box != tuple(told["block_size"]) or swizzle != SWIZZLES[told["swizzle"]]:
        raise LaunchError(f"{where} is a tensor map of box {box} with swizzle {swizzle}, but the kernel was compiled for box "
                          f"{tuple(told['block_size'])} with swizzle {SWIZZLES[told['swizzle']]}: pass the array, and the map is made")
