# SPDX-License-Identifier: Apache-2.0
"""Types of loads and stores in clang's PTX: LLVM writes `ld.shared.b32` for every 32 bits, NVRTC `f32` or `u32`, and reports name what PTX says.

A register holds a float when an instruction takes or gives it as one, or when it is moved to or from a register that does.
"""
from __future__ import annotations

import re
from collections.abc import Iterable

_FUNCTION = re.compile(r"^\$L__func_begin\d+:\n.*?^\$L__func_end\d+:\n", re.MULTILINE | re.DOTALL)
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+([^;]*);", re.MULTILINE)
_REGISTER = re.compile(r"%(?:rd?|f)\d+")
_FLOAT = re.compile(r"\b0[fFdD][0-9a-fA-F]{8,16}\b")
_INTEGER = re.compile(r"(?<![%\w])-?\d+\b")
_MEMORY = re.compile(r"^(\s*(?:@!?%p\d+\s+)?(?:ld|st)(?:\.(?:volatile|relaxed|acquire|release|weak|sys|gpu|cta|cluster|global|shared|local|const|nc|v[24]))*)"
                     r"\.b(8|16|32|64)(\s+)([^;]*);", re.MULTILINE)
_MOVES = ("mov.", "selp.b", "shfl.")


def named(ptx: str) -> str:
    """The PTX with every load and store typed as NVRTC types it."""
    return _FUNCTION.sub(lambda found: _typed(found[0]), ptx)


def _typed(body: str) -> str:
    floats: set[str] = set()
    joined: dict[str, set[str]] = {}
    for found in _INSTRUCTION.finditer(body):
        opcode, registers = found[1], _REGISTER.findall(found[2])
        if opcode.startswith(_MOVES):
            for register in registers[1:]:
                joined.setdefault(registers[0], set()).add(register)
                joined.setdefault(register, set()).add(registers[0])
        else:
            floats.update(_as_floats(opcode, found[2], registers))
    _spread(floats, joined)
    return _MEMORY.sub(lambda found: f"{found[1]}.{_word(found[2], found[4], floats)}{found[3]}{found[4]};", body)


def _as_floats(opcode: str, operands: str, registers: list[str]) -> Iterable[str]:
    """The registers that an instruction takes or gives as floats."""
    words = opcode.split(".")
    if not {"f32", "f64"} & set(words) or words[0] == "st" or words[0] == "ld":
        return registers[:1] if words[0] == "ld" and {"f32", "f64"} & set(words) else ()
    if words[0] == "cvt":
        kinds = [word for word in words[1:] if re.fullmatch(r"[fsub]\d+(?:x2)?|bf16(?:x2)?|tf32|e\dm\d(?:x\d)?", word)]
        return [register for register, kind in zip(registers, [kinds[0], *[kinds[-1]] * len(registers)]) if kind in ("f32", "f64")]
    if words[0] in ("wgmma", "mma"):
        groups = re.findall(r"\{([^{}]*)\}", operands)
        return _REGISTER.findall(" ".join(groups[:1] + (groups[3:] if words[0] == "mma" else [])))
    return registers


def _spread(floats: set[str], joined: dict[str, set[str]]) -> None:
    todo = list(floats)
    while todo:
        for other in joined.get(todo.pop(), ()):
            if other not in floats:
                floats.add(other)
                todo.append(other)


def _word(bits: str, operands: str, floats: set[str]) -> str:
    """The type of one access, by what it loads or stores: the registers and numbers outside of the address. `b` where they disagree."""
    values = re.sub(r"\[[^\]]*\]", "", operands)
    float_ = _FLOAT.search(values) is not None or any(register in floats for register in _REGISTER.findall(values))
    if bits not in ("32", "64") or not float_:
        return f"u{bits}"
    return f"b{bits}" if _INTEGER.search(values) else f"f{bits}"
