# SPDX-License-Identifier: Apache-2.0
"""Triton's words for argument types, with what its JIT would specialise on: '*bf16:16' a pointer divisible by 16, 'i32:1' a number equal to 1,
'tensordesc<fp16[128,64]>' a tensor descriptor with its block. Also the words that the JIT itself would choose for given arguments.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, address_of, is_cuda_array
from ..errors import TritonError

POINTEES = {"i1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8,
            "fp8e4nv": 1, "fp8e5": 1, "fp8e4b8": 1, "fp8e5b16": 1, "fp8e4b15": 1}
"""Bytes of an element, by Triton's name."""
NAME_OF = {"bool": "i1", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
           **{f"{long}{bits}": f"{short}{bits}" for long, short in (("int", "i"), ("uint", "u")) for bits in (8, 16, 32, 64)}}
"""Triton's name of an element, by NumPy's."""
SCALARS: dict[str, str] = {"i1": "uint8", "u1": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
                           "u64": "uint64", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
_OTHER_NAMES = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64", "half": "fp16", "float": "fp32",
                "double": "fp64", "int": "i32", "bool": "i1", "int1": "i1", **{f"{long}{bits}": f"{short}{bits}" for long, short in (("int", "i"), ("uint", "u"))
                                                                               for bits in (8, 16, 32, 64)}}
_DESCRIPTOR = re.compile(r"tensordesc<\s*(?P<type>\w+)\s*\[(?P<block>[\d,\s]+)\]\s*(?:,\s*(?P<layout>.+))?>", re.DOTALL)
HELP = ("'*fp16' a pointer, '*fp16:16' one divisible by 16, 'i32', 'fp32' numbers, 'i32:16', 'i32:1' numbers divisible by 16 or equal to 1, "
        "'tensordesc<fp16[128,64]>' a tensor descriptor")


@dataclass(frozen=True)
class Type:
    """One argument's type. kind: 'pointer', 'descriptor' or 'number'; element: Triton's name of it, or of what is pointed to; hint: 0, 1 (equal to) or 16
    (divisible by); word: as Triton takes it."""

    kind: str
    element: str
    word: str
    hint: int = 0
    block: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.word + (f":{self.hint}" if self.hint else "")


def split(text: str) -> list[str]:
    """The words of '*fp32, tensordesc<fp16[64,64]>, i32'."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<[(") - (letter in ">])")
        if letter == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def read(name: str, word: Any) -> Type:
    """The type that a word (or, for a descriptor, an (element, block[, layout]) tuple) stands for. Raises TritonError."""
    if isinstance(word, tuple):
        return _descriptor(name, *word)
    if not isinstance(word, str):
        raise TritonError(f"the type of {name} is {word!r}; write {HELP}")
    if found := _DESCRIPTOR.fullmatch(word.strip()):
        return _descriptor(name, found["type"], tuple(int(n) for n in found["block"].split(",")), found["layout"])
    text, _, hint = word.replace(" ", "").partition(":")
    if hint not in ("", "1", "16"):
        raise TritonError(f"{name}: {word!r}: what the compiler may rely on is :16 (divisible by 16) or :1 (equal to 1)")
    constant = text.startswith("*k")
    element = text.removeprefix("*").removeprefix("k" if constant else "")
    element = _OTHER_NAMES.get(element, element)
    if text.startswith("*") and element in POINTEES:
        if hint == "1":
            raise TritonError(f"{name}: {word!r}: a pointer is never equal to 1")
        return Type("pointer", element, f"*{'k' if constant else ''}{element}", int(hint or 0))
    if element in SCALARS and not text.startswith("*"):
        if hint and not element.startswith(("i", "u")):
            raise TritonError(f"{name}: {word!r}: Triton specialises on whole numbers only")
        return Type("number", element, element, int(hint or 0))
    raise TritonError(f"{name}: there is no type {word!r}; write {HELP}")


def _descriptor(name: str, element: Any, block: Any = (), layout: Any = None) -> Type:
    element = _OTHER_NAMES.get(str(element).removeprefix("gl.").removeprefix("tl."), str(element).removeprefix("gl.").removeprefix("tl."))
    if element not in POINTEES or not isinstance(block, (tuple, list)) or not block:
        raise TritonError(f"{name}: a tensor descriptor is written 'tensordesc<fp16[128,64]>', or as a tuple (\"fp16\", (128, 64)), in Gluon with its layout "
                          f"as the third")
    shape = ", ".join(str(int(n)) for n in block)
    return Type("descriptor", element, f"tensordesc<{element}[{shape}]{'' if layout is None else ',' + (layout if isinstance(layout, str) else repr(layout))}>",
                block=tuple(int(n) for n in block))


def named(order: Sequence[str], signature: Mapping[str, Any] | Sequence[Any] | str) -> dict[str, Any]:
    """The word of each parameter in `order`, from names or in order. Raises TritonError for missing and unknown ones."""
    if isinstance(signature, Mapping):
        unknown, missing = [n for n in signature if n not in order], [n for n in order if n not in signature]
        if unknown or missing:
            raise TritonError(f"the signature names {', '.join(signature) or 'nothing'}; it has to name {', '.join(order) or 'nothing'}"
                              + (f" (constexpr parameters belong into constexprs: {', '.join(unknown)})" if unknown else ""))
        return {name: signature[name] for name in order}
    words = split(signature) if isinstance(signature, str) else list(signature)
    if len(words) != len(order):
        raise TritonError(f"the signature has {len(words)} types, {', '.join(map(str, words)) or 'none'}; the kernel's parameters without constexprs are "
                          f"{', '.join(order) or 'none'}")
    return dict(zip(order, words))


def chosen(value: Any, constant: bool, specialise: bool, align: bool, annotated: str) -> Type | None:
    """The type that Triton's JIT chooses for an argument, with its specialisation; None for one that it makes a constexpr (None, and a 1 that it may specialise).

    constant, specialise, align, annotated: of the parameter. Raises TritonError for an argument that is none.
    """
    if value is None:
        return None
    if _is_descriptor(value):
        return _descriptor("a descriptor", NAME_OF.get(value.base.dtype.name, value.base.dtype.name), tuple(value.block_shape), getattr(value, "layout", None))
    if isinstance(value, np.ndarray) and value.ndim or is_cuda_array(value):
        element = NAME_OF.get(value.dtype.name)
        if element is None:
            raise TritonError(f"an array of {value.dtype} has no type in Triton")
        return Type("pointer", element, f"*{'k' if constant else ''}{element}", 16 if specialise and align and address(value) % 16 == 0 else 0)
    if isinstance(value, (bool, np.bool_)):
        return Type("number", "u1", annotated or "u1")
    if isinstance(value, (int, np.integer)):
        if specialise and int(value) == 1:
            return None
        element = annotated or ("i32" if -2**31 <= value < 2**31 else "i64" if -2**63 <= value < 2**63 else "u64")
        return Type("number", element, element, 16 if specialise and align and int(value) % 16 == 0 else 0)
    if isinstance(value, (float, np.floating)):
        return Type("number", annotated or "fp32", annotated or "fp32")
    raise TritonError(f"a {type(value).__name__} is no argument of a Triton kernel here: pass arrays, numbers, tensor descriptors or None")


def _is_descriptor(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("base", "block_shape", "strides", "shape")) and value.base is not None


def address(array: Array) -> int:
    """Device address of an array's first element."""
    return int(array.__cuda_array_interface__["data"][0]) if is_cuda_array(array) else address_of(array)
