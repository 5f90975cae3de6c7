# SPDX-License-Identifier: Apache-2.0
"""A program whose exponentials are altered: proof that a softmax comes from its ex2, whatever else computes exponentials.

Halved and not zeroed: what only asks whether an exponential is there must not pass for what computes with it.
"""
from __future__ import annotations

import re

EX2 = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>\bex2\.approx(?:\.ftz)?\.(?P<type>f32|f16|f16x2|bf16|bf16x2))\s+(?P<to>%?\w+),\s*(?P<of>%?\w+)\s*;")
NEAR = 0.01
"""2^x stays as it is where |x| is at most this: x is 0, or the rounding of a difference of two equal numbers."""
WORDS = {"f32": "f32", "f16": "b16", "bf16": "b16"}
FACTORS = {"f32": ("0f3F000000", "0f3F800000"), "f16": ("0x3800", "0x3C00"), "bf16": ("0x3F00", "0x3F80")}
"""A half, and 1."""


def halved(ptx: str) -> str:
    """The PTX with every ex2 of anything but 0 giving half of what it gave (of a pair: each for itself). [PTX ISA 9.7.3.21, 9.7.4.10]"""
    return EX2.sub(_half, ptx)


def _half(found: re.Match[str]) -> str:
    kind, word = found["type"], "b32" if found["type"].endswith("x2") else WORDS[found["type"]]
    last = f"{found['guard'] or ''}mul.{kind} {found['to']}, was, by; }}"
    begin = f"{{ .reg .{word} was, by; {found['opcode']} was, {found['of']}; "
    if not kind.endswith("x2"):
        return begin + _factor(kind, found["of"], "by") + last
    halves = "".join(_factor(kind[:-2], f"of_{half}", f"by_{half}") for half in ("low", "high"))
    return (f"{begin}.reg .b16 of_low, of_high, by_low, by_high; mov.b32 {{of_low, of_high}}, {found['of']}; {halves}mov.b32 by, {{by_low, by_high}}; {last}")


def _factor(kind: str, of: str, by: str) -> str:
    """A half into the register `by` where |of| is more than NEAR, else 1."""
    half, one = FACTORS[kind]
    wide = f"mov.f32 wide, {of}; " if kind == "f32" else f"cvt.f32.{kind} wide, {of}; "
    return (f"{{ .reg .pred far; .reg .f32 wide; {wide}abs.f32 wide, wide; setp.gt.f32 far, wide, {NEAR!r}; "
            f"selp.{WORDS[kind]} {by}, {half}, {one}, far; }} ")
