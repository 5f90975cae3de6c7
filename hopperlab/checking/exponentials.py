# SPDX-License-Identifier: Apache-2.0
"""A program whose exponentials are altered: proof that a softmax comes from its ex2, whatever else computes exponentials."""
from __future__ import annotations

import re

EX2 = re.compile(r"(?P<guard>@!?%\w+\s+)?(?P<opcode>\bex2\.approx(?:\.ftz)?\.(?P<type>f32|f16|f16x2|bf16|bf16x2))\s+(?P<to>%?\w+),\s*(?P<of>%?\w+)\s*;")
WORDS = {"f32": "f32", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}
ZERO = {"f32": "0f00000000", "b16": "0", "b32": "0"}


def zeroed(ptx: str) -> str:
    """The PTX with every ex2 of anything but 0 giving 0 (of a pair: of anything but two zeros). [PTX ISA 9.7.3.21, 9.7.4.10]"""
    def one(found: re.Match[str]) -> str:
        word, guard = WORDS[found["type"]], found["guard"] or ""
        return (f"{{ .reg .pred stays_{word}; .reg .{word} was_{word}; {found['opcode']} was_{word}, {found['of']}; setp.eq.{word} "
                f"stays_{word}, {found['of']}, {ZERO[word]}; {guard}selp.{word} {found['to']}, was_{word}, {ZERO[word]}, stays_{word}; }}")
    return EX2.sub(one, ptx)
