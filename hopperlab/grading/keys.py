# SPDX-License-Identifier: Apache-2.0
"""The key of a class's edition: 128 random bits, from which constants, inputs and hidden checks are drawn.

Learners see what the constants are, so a key that can be guessed is found by trying: a list of words takes less than a second.
"""
from __future__ import annotations

import math
import re
import secrets
from itertools import pairwise

from ..checking.exercise import PUBLIC

BITS = 128
VERSION = 2                # of edition.json: what is drawn from a key depends on it. Editions without a version are older
HOW = "leave --key out, and one of 128 random bits is made; to make the same edition again, give its key: 32 hexadecimal digits, in instructor/edition.json"


class WeakKey(ValueError):
    """A key that is none, or that can be guessed."""


def new() -> str:
    """A key: 32 hexadecimal digits of the system's randomness."""
    return secrets.token_hex(BITS // 8)


PROSE = 1.3                # bits a letter of written language holds (Shannon, 1951)
FEW_STEPS = 8              # different distances between neighbours: a random key has more, 0123… and 0011… have one or two


def bits(key: str) -> float:
    """The most bits that a key may hold: 4 a hexadecimal digit, 6 a character of base64; what looks written by a person counts as prose, and what repeats itself once."""
    whole = next(key[:n] for n in range(1, len(key) + 1) if key[:n] * (len(key) // n) == key) if key else ""
    steps = {ord(after) - ord(before) for before, after in pairwise(whole)}
    if len(steps) < FEW_STEPS:
        return float(len(steps))
    if re.fullmatch(r"[0-9a-fA-F]+", whole):
        return len(whole) * (math.log2(10) if whole.isdecimal() else 4.0)
    if re.fullmatch(r"[\w+/-]+={0,2}", whole) and all(re.search(kind, whole) for kind in ("[a-z]", "[A-Z]", "[0-9]")) and not re.search(r"[a-z]{7}|[A-Z]{7}", whole):
        return 6.0 * len(whole.rstrip("="))
    return PROSE * len(whole)


def check(key: str) -> str:
    """The key itself. Raises WeakKey for an empty, a public or a short one."""
    if not key.strip() or key == PUBLIC:
        raise WeakKey(f"the key must be a secret of your class, and not {key!r}: {HOW}")
    if bits(key) < BITS:
        raise WeakKey(f"a key of {len(key)} characters like these holds at most {bits(key):.0f} bits, and {BITS} are needed, or it can be found by trying: {HOW}")
    return key
