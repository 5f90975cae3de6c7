# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments as words of a command line: `f32[64,64]`, `f32[512]=zeros`, `i32=5`, `map:bf16[64,64]:64x64:128B`, `null`.

One word is one argument. Arrays are filled with small whole numbers, the same at every run, unless the word says otherwise.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .errors import LaunchError
from .tensor_map import TensorMap

HELP = """each one argument of the kernel, in order: f32[512] (an array of small whole numbers), f32[64,64]=zeros (or ones, arange, nan, random, or a file: =@x.npy), i32=5 (a number), \
map:bf16[64,64]:64x64:128B (a tensor map of an array: box, swizzle), bytes=0a1b (a structure by value), null. Types: i8 to i64, u8 to u64, f16, bf16, f32, f64, e4m3, e5m2"""
NAMES = {**{f"{letter}{bits}": f"{word}{bits}" for letter, word in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
         "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "b8": "uint8",
         "b16": "uint16", "b32": "uint32", "b64": "uint64"}
_ARRAY = re.compile(r"(?P<type>\w+)\[(?P<shape>[\dx,* ]+)\](?:=(?P<fill>.+))?")
_NUMBER = re.compile(r"(?P<type>\w+)=(?P<value>[^@]+)")


def argument(word: str, place: int) -> Any:
    """The array, number or tensor map that a word stands for; it is the argument number `place`. Raises LaunchError for a word that is none."""
    if word == "null":
        return np.uint64(0)
    if word.startswith("map:"):
        return _map(word, place)
    if word.startswith("bytes="):
        return _bytes(word)
    if found := _ARRAY.fullmatch(word):
        return _array(word, _dtype(word, found["type"]), _sizes(word, found["shape"]), found["fill"] or "random", place)
    if found := _NUMBER.fullmatch(word):
        return _number(word, _dtype(word, found["type"]), found["value"])
    raise LaunchError(f"argument {place}, {word!r}, is not understood. Write {HELP}")


def _dtype(word: str, name: str) -> np.dtype[Any]:
    if name not in NAMES:
        raise LaunchError(f"{word}: there is no type {name!r}; choose one of {', '.join(NAMES)}")
    try:
        known: np.dtype[Any] = np.dtype(NAMES[name])
    except TypeError:
        import ml_dtypes
        known = np.dtype(getattr(ml_dtypes, NAMES[name]))
    return known


def _sizes(word: str, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in re.split(r"[x,*]", text.replace(" ", "")) if part)
    except ValueError:
        sizes = ()
    if not sizes:
        raise LaunchError(f"{word}: a shape is one or more whole numbers, such as [64,64]")
    return sizes


def _array(word: str, dtype: np.dtype[Any], shape: tuple[int, ...], fill: str, place: int) -> np.ndarray:
    if fill.startswith("@"):
        return _from_file(word, Path(fill[1:]), dtype, shape)
    fills: dict[str, Callable[[], np.ndarray]] = {
        "zeros": lambda: np.zeros(shape), "ones": lambda: np.ones(shape), "arange": lambda: np.arange(np.prod(shape)).reshape(shape),
        "nan": lambda: np.full(shape, np.nan), "random": lambda: np.random.default_rng(place).integers(0, 8, shape)}
    if fill not in fills or fill == "nan" and dtype.kind in "iu":
        raise LaunchError(f"{word}: an array{' of whole numbers' if dtype.kind in 'iu' else ''} is filled with "
                          f"{', '.join(f for f in fills if f != 'nan' or dtype.kind not in 'iu')}, "
                          "or from a file (=@x.npy)")
    return fills[fill]().astype(dtype)


def _from_file(word: str, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    try:
        values: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as problem:
        raise LaunchError(f"{word}: {path} cannot be read as an array of NumPy ({problem})") from None
    if values.dtype.kind == "V" and values.dtype.itemsize == dtype.itemsize:
        values = values.view(dtype)
    if values.shape != shape:
        raise LaunchError(f"{word}: {path} holds an array of shape {values.shape}")
    return np.array(values, dtype)


def _number(word: str, dtype: np.dtype[Any], text: str) -> np.generic:
    try:
        number: np.generic = dtype.type(int(text, 0) if dtype.kind in "iu" else float(text))
    except (ValueError, OverflowError) as problem:
        raise LaunchError(f"{word}: {problem}") from None
    return number


def _bytes(word: str) -> np.generic:
    try:
        raw = bytes.fromhex(word[6:])
    except ValueError as problem:
        raise LaunchError(f"{word[:40]}: {problem}") from None
    if not raw:
        raise LaunchError("bytes= needs at least one byte")
    structure: np.generic = np.frombuffer(raw, np.dtype(f"V{len(raw)}"))[0]
    return structure


def _map(word: str, place: int) -> TensorMap:
    parts = word.split(":")
    found = _ARRAY.fullmatch(parts[1]) if len(parts) in (3, 4) else None
    if found is None:
        raise LaunchError(f"{word}: a tensor map is map:ARRAY:BOX or map:ARRAY:BOX:SWIZZLE, such as map:bf16[64,64]:64x64:128B")
    array = argument(parts[1], place)
    return TensorMap.tiled(array, box=_sizes(word, parts[2]), swizzle=parts[3] if len(parts) == 4 else "none")
