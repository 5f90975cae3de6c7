# SPDX-License-Identifier: Apache-2.0
"""Checks before a launch, the same in both places: grid, block, shared memory, and each argument against the PTX.

What can be wrong without a GPU noticing (a scalar of the wrong size, an array of the other place, a view with gaps)
raises LaunchError here, before anything runs.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..hopper import limits
from .arrays import Array, is_cuda_array, overreach
from .compile.ptxas import KernelUse
from .compile.signature import Parameter, Signature
from .errors import LaunchError
from .shapes import Shape, Triple, triple
from .tensor_map import PointedMap, TensorMap

# Python's own numbers travel as CuPy sends them.
PYTHON_SCALARS: dict[type, type[np.generic]] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def check_launch(signature: Signature, use: KernelUse, grid: Shape, block: Shape, shared_mem: int) -> tuple[Triple, Triple]:
    """The grid and block as triples. Raises LaunchError when no Hopper GPU could launch them.

    shared_mem: dynamic shared memory in bytes. Limits: CUDA Programming Guide, compute capability 9.0.
    """
    name = signature.name
    grid, block = triple("grid", grid), triple("block", block)
    for axis, size, most in zip("xyz", grid, limits.MAX_GRID_DIM):
        if not 1 <= size <= most:
            raise LaunchError(f"{name}: grid {grid} has {size} blocks along {axis}; 1 to {most} are possible")
    for axis, size, most in zip("xyz", block, limits.MAX_BLOCK_DIM):
        if not 1 <= size <= most:
            raise LaunchError(f"{name}: block {block} has {size} threads along {axis}; 1 to {most} are possible")
    _check_threads(signature, use, block)
    check_shared(name, use.static_shared, shared_mem)
    return grid, block


def _check_threads(signature: Signature, use: KernelUse, block: Triple) -> None:
    name, threads = signature.name, block[0] * block[1] * block[2]
    if threads > limits.MAX_THREADS_PER_BLOCK:
        raise LaunchError(f"{name}: block {block} has {threads} threads; a block holds at most "
                          f"{limits.MAX_THREADS_PER_BLOCK}")
    if signature.required_block and block != signature.required_block:
        raise LaunchError(f"{name}: block {block} given, but the kernel was compiled for exactly "
                          f"{signature.required_block}")
    if signature.max_threads and threads > signature.max_threads:
        raise LaunchError(f"{name}: block {block} has {threads} threads, but its __launch_bounds__ allow "
                          f"{signature.max_threads}")
    warps = -(-threads // 32)
    registers = warps * limits.registers_per_warp(use.registers)
    if registers > limits.REGISTERS_PER_SM:
        raise LaunchError(f"{name}: {threads} threads of {use.registers} registers need {registers} registers; a "
                          f"multiprocessor has {limits.REGISTERS_PER_SM}. Add __launch_bounds__({threads}), so that the "
                          "compiler uses fewer")


def check_shared(name: str, static: int, dynamic: int) -> None:
    """Raise LaunchError when a block cannot have that much static and dynamic shared memory (bytes)."""
    try:
        dynamic = operator.index(dynamic)
    except TypeError:
        raise LaunchError(f"{name}: shared_mem must be a whole number of bytes, not {dynamic!r}") from None
    if dynamic < 0:
        raise LaunchError(f"{name}: shared_mem is {dynamic}; it counts bytes and cannot be negative")
    if static + dynamic > limits.SHARED_PER_BLOCK:
        parts = f"{dynamic} bytes" if not static else f"{dynamic} dynamic + {static} static = {static + dynamic} bytes"
        raise LaunchError(f"{name}: {parts} of shared memory asked for; a block has at most "
                          f"{limits.SHARED_PER_BLOCK} (227 KiB). Use fewer or smaller stages")


def check_arguments(signature: Signature, args: Sequence[Any], place: str) -> list[Any]:
    """The arguments in a form either place can pass on, in order: arrays, NumPy scalars, or tensor maps.

    Raises LaunchError for a wrong count, a scalar of another size or kind than the parameter's, an array of the other
    place or with gaps, and anything that is no kernel argument.
    """
    if not isinstance(args, (tuple, list)):
        raise LaunchError(f"{signature.name}: args must be a tuple; for one argument write (a,)")
    wanted = signature.parameters
    if len(args) != len(wanted):
        kinds = ", ".join(p.describe() for p in wanted)
        raise LaunchError(f"{signature.name} takes {len(wanted)} argument{'s' if len(wanted) != 1 else ''}, "
                          f"{len(args)} given. It takes: {kinds or 'nothing'}")
    return [_check_one(f"{signature.name}, argument {i + 1}", p, a, place) for i, (p, a) in enumerate(zip(wanted, args))]


def _check_one(where: str, parameter: Parameter, value: Any, place: str) -> Any:
    if isinstance(value, TensorMap):
        _check_tensor_map(where, parameter, value, place)
        return PointedMap.of(value) if parameter.size == 8 else value
    if is_cuda_array(value) or isinstance(value, np.ndarray):
        _check_array(where, parameter, value, place)
        return value
    return _check_scalar(where, parameter, value)


def _check_tensor_map(where: str, parameter: Parameter, value: TensorMap, place: str) -> None:
    if parameter.size not in (8, 128):
        raise LaunchError(f"{where} is a tensor map (128 bytes by value, or a pointer to them), but the parameter is {parameter.describe()}. "
                          "Declare it `const __grid_constant__ TensorMap map` (#include <hopperlab/tma.cuh>)")
    if value.place != place:
        raise LaunchError(f"{where} is a tensor map of {_other_place(place)}, but the kernel runs {_here(place)}: make the "
                          "map of an array from hl.array_module()")


def _check_array(where: str, parameter: Parameter, value: Array, place: str) -> None:
    on_gpu = is_cuda_array(value)
    if on_gpu != (place == "gpu"):
        remedy = "cupy.asnumpy(a)" if on_gpu else "cupy.asarray(a)"
        raise LaunchError(f"{where} is an array of {_other_place(place)}, but the kernel runs {_here(place)}: use arrays of "
                          f"hl.array_module(), or convert with {remedy}")
    if parameter.size != 8:
        raise LaunchError(f"{where} is an array, so a pointer of 8 bytes, but the parameter is {parameter.describe()}")
    flags = getattr(value, "flags", None)
    if flags is not None and hasattr(flags, "c_contiguous") and not (flags.c_contiguous or flags.f_contiguous):
        raise LaunchError(f"{where} is a view with gaps (shape {value.shape}, strides {value.strides} bytes); a kernel sees "
                          "only a pointer. Pass xp.ascontiguousarray(a), or describe the view with hl.TensorMap")
    if isinstance(value, np.ndarray) and (beyond := overreach(value)):
        raise LaunchError(f"{where} {beyond}")
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and (dtype.hasobject or not dtype.isnative):
        raise LaunchError(f"{where} has dtype {dtype}, which a kernel cannot read")


def _check_scalar(where: str, parameter: Parameter, value: Any) -> np.generic:
    if value is None:
        raise LaunchError(f"{where} is None{', and the null pointer is np.uint64(0)' if parameter.size == 8 else f', but the parameter is {parameter.describe()}'}")
    if type(value) in PYTHON_SCALARS:
        scalar = _from_python(where, value)
    else:
        scalar = value
        if not isinstance(value, np.generic):
            raise LaunchError(f"{where} is a {type(value).__name__}; kernels take arrays, NumPy scalars such as np.int32(n), "
                              "and tensor maps")
    if scalar.dtype.itemsize != parameter.size:
        written = f"a Python {type(value).__name__} (sent as {scalar.dtype})" if scalar is not value else str(scalar.dtype)
        size = scalar.dtype.itemsize
        raise LaunchError(f"{where} is {written} of {size} byte{'s' if size > 1 else ''}, but the parameter is "
                          f"{parameter.describe()}.{_suggest(parameter, value)}")
    if parameter.type in ("f32", "f64") and scalar.dtype.kind in "iub":
        raise LaunchError(f"{where} is {scalar.dtype}, but the parameter is a floating-point number (.{parameter.type})."
                          f"{_suggest(parameter, value)}")
    if parameter.type[0] in "us" and scalar.dtype.kind == "f":
        raise LaunchError(f"{where} is {scalar.dtype}, but the parameter is a whole number (.{parameter.type})."
                          f"{_suggest(parameter, value)}")
    return scalar


def _from_python(where: str, value: Any) -> np.generic:
    try:
        return PYTHON_SCALARS[type(value)](value)
    except OverflowError:
        if isinstance(value, int) and 0 <= value < 2**64:
            return np.uint64(value)
        raise LaunchError(f"{where}: {value} does not fit in 8 bytes") from None


def _suggest(parameter: Parameter, value: Any) -> str:
    names = {("f", 4): "np.float32", ("f", 8): "np.float64", ("f", 2): "np.float16", ("u", 1): "np.uint8",
             ("u", 2): "np.int16", ("u", 4): "np.int32", ("u", 8): "np.int64"}
    letter = "f" if parameter.type[0] == "f" else "u"
    name = names.get((letter, parameter.size)) if parameter.type != "b8" else None
    shown = "x" if isinstance(value, np.void) else repr(value.item() if isinstance(value, np.generic) else value)
    return f" Write {name}({shown})" if name else ""


def _here(place: str) -> str:
    return "on the GPU" if place == "gpu" else "in the emulator"


def _other_place(place: str) -> str:
    return "host memory (NumPy)" if place == "gpu" else "the GPU"
