# SPDX-License-Identifier: Apache-2.0
"""Malformed PTX from PTX: one change at a random place of a text, of the kinds that hands and generators make."""
from __future__ import annotations

import random
import re
from collections.abc import Callable

INSTRUCTION = re.compile(r"^(\s*(?:\{\s*)?)(@!?%?[\w$]+\s+)?([a-z][\w.:]*)(\s+[^;]*)?;(.*)$", re.S)
TYPES = ("pred", "b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "f16x2", "b32", "u32", "s32", "f32", "tf32", "b64", "u64", "s64", "f64", "b128", "texref")
NUMBERS = ("0", "-1", "1", "3", "7", "16", "31", "32", "33", "255", "256", "999", "65536", "0x7fffffff", "4294967295", "-2147483649", "9223372036854775808",
           "18446744073709551616", "99999999999999999999", "0x1ffffffffffffffff", "1e400", "0f3F800000", "0d7FF0000000000000", "1.5", "-0.0", "(1", "1/0", "~1e400", "''")
STRANGE = ("%tid.x", "%tid", "%clock64", "%nosuch", "%r1000000", "_", "!%p1", "%p1|%p2", "[%r1]", "[%rd1+8]", "[0]", "[%tid.x]", "[%r1, {%r1}]", "[]",
           "{}", "{%r1}", "{%r1, %r2}",
           "{%r1, 3, _}", "{{%r1}}", "WARP_SZ", "nowhere", "%r1+4", "%r1 %r2", "", "@", "%", "%%tid.x")
REGISTERS = ("%r1", "%rd1", "%f1", "%p1", "%rs1", "%fd1", "%h8", "%d8", "%b8", "%q2", "%p8", "%r8")
WORDS = ("purple", "sync", "aligned", "shared", "global", "local", "param", "v2", "v4", "v8", "cta", "relaxed", "acquire", "cc", "sat", "ftz", "rn", "wide",
         "lo", "x4", "trans",
         "L2::cache_hint", "multicast::cluster", "shared::cluster", "bulk_group", "tile", "5d", "1d", "m64n8k16", "m16n8k16", "sp", "row", "")
OPCODES = ("add", "mov", "ld", "st", "bra", "call", "ret", "setp", "selp", "cvt", "mad", "lop3", "prmt", "shf", "bar", "mbarrier", "cp", "wgmma", "mma",
           "wmma", "ldmatrix", "shfl", "vote",
           "atom", "red", "fence", "tensormap", "setmaxnreg", "brx", "addc", "madc", "bfi", "dp4a", "vadd4", "createpolicy", "alloca", "frobnicate")
PUNCTUATION = ";,{}[]()<>.:@!%+-|\"'/*\\= \n"


def split(text: str) -> list[str]:
    """Operands at the commas outside brackets."""
    pieces, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += c in "[{(" and 1 or c in "]})" and -1 or 0
        if c == "," and depth == 0:
            pieces.append(text[start:k])
            start = k + 1
    return [*pieces, text[start:]]


def operands(rng: random.Random, given: list[str]) -> list[str]:
    """The operands of an instruction, changed."""
    found, what = list(given), rng.randrange(9)
    place = rng.randrange(len(found)) if found else 0
    if not found or what == 0:
        found.insert(place, " " + rng.choice((*STRANGE, *NUMBERS, *REGISTERS)))
    elif what == 1:
        del found[place]
    elif what == 2:
        found.append(found[place])
    elif what == 3:
        other = rng.randrange(len(found))
        found[place], found[other] = found[other], found[place]
    elif what == 4:
        return []
    elif what == 5:
        found[place] = " " + rng.choice(NUMBERS)
    elif what == 6:
        found[place] = " " + rng.choice(STRANGE)
    elif what == 7:
        found[place] = " " + rng.choice(REGISTERS)
    else:                                       # inside a bracket, or a number
        found[place] = re.sub(r"%\w+|\b\d+\b", lambda m: rng.choice((m[0], *REGISTERS, *NUMBERS)), found[place], count=3)
    return found


def opcode(rng: random.Random, given: str) -> str:
    """The dotted name of an instruction, changed."""
    words, what = given.split("."), rng.randrange(6)
    place = rng.randrange(len(words))
    if what == 0 and len(words) > 1:
        del words[max(place, 1)]
    elif what == 1:
        words.insert(place + 1, rng.choice(WORDS))
    elif what == 2:
        words[-1] = rng.choice(TYPES)
    elif what == 3:
        other = rng.randrange(len(words))
        words[place], words[other] = words[other], words[place]
    elif what == 4:
        words[0] = rng.choice(OPCODES)
    else:
        words = words[:place + 1]
    return ".".join(words)


def instruction(rng: random.Random, line: str) -> str:
    """One changed instruction."""
    match = INSTRUCTION.match(line)
    if match is None:
        return numbers(rng, line)
    before, guard, name, rest, after = (part or "" for part in match.groups())
    what = rng.randrange(10)
    if what < 6:
        rest = " " + ",".join(operands(rng, split(rest) if rest.strip() else []))
    elif what < 9:
        name = opcode(rng, name)
    else:
        guard = rng.choice(("@%r1 ", "@!%p1 ", "@%nosuch ", "@ ", "@!! %p1 ", "@1 "))
    return f"{before}{guard}{name}{rest};{after}"


def numbers(rng: random.Random, line: str) -> str:
    """A declaration or directive with another number, type or word."""
    pick = rng.randrange(3)
    if pick == 0:
        return re.sub(r"\b\d+\b", lambda m: rng.choice((m[0], *NUMBERS, "1000000000")), line, count=2)
    if pick == 1:
        return re.sub(r"\.[a-z]\w*", lambda m: rng.choice((m[0], "." + rng.choice((*TYPES, *WORDS, "align", "reg", "shared", "reqnctapercluster", "maxntid")))),
                      line, count=2)
    return line.replace(rng.choice(PUNCTUATION), rng.choice(PUNCTUATION), 1)


def mutant(rng: random.Random, text: str, wanted: Callable[[str], bool] = str.strip) -> str:
    """The text with one change at a line that is `wanted`."""
    lines, what = text.split("\n"), rng.randrange(20)
    place = rng.choice([k for k, line in enumerate(lines) if wanted(line)])
    if what == 0:
        return text[:rng.randrange(len(text))]
    if what == 1:
        del lines[place]
    elif what == 2:
        lines.insert(rng.randrange(len(lines)), lines[place])
    elif what == 3:
        at = rng.randrange(len(lines[place]) + 1)
        lines[place] = lines[place][:at] + rng.choice(PUNCTUATION) + lines[place][at + rng.randrange(2):]
    elif what == 4:
        lines[place] = numbers(rng, lines[place])
    else:
        lines[place] = instruction(rng, lines[place])
    return "\n".join(lines)
