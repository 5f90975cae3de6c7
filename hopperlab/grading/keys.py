# SPDX-License-Identifier: Apache-2.0
"""The key of a class's edition: 128 random bits, from which constants, inputs and hidden checks are drawn.

Learners see what the constants are, so a key that can be guessed is found by trying: a list of words takes less than a second.
"""
from __future__ import annotations

import math
import re
import secrets

from ..checking.exercise import PUBLIC

BITS = 128
VERSION = 2                # of edition.json: what is drawn from a key depends on it. Editions without a version are older
HOW = "leave --key out, and one of 128 random bits is made; to make the same edition again, give its key: 32 hexadecimal digits, in instructor/edition.json"


class WeakKey(ValueError):
    """A key that is none, or that can be guessed."""


def new() -> str:
    """A key: 32 hexadecimal digits of the system's randomness."""
    return secrets.token_hex(BITS // 8)


def bits(key: str) -> float:
    """The most bits that a key of this length and these characters may hold: 4 a hexadecimal digit, 6 a letter or digit of base64, else those of its variety; few different characters hold few."""
    variety = len(set(key))
    if re.fullmatch(r"[0-9a-fA-F]+", key) and variety >= 8:
        return 4.0 * len(key)
    if re.fullmatch(r"[\w-]+", key) and variety >= 12 and all(re.search(kind, key) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
        return 6.0 * len(key)
    return len(key) * math.log2(variety) if variety else 0.0


def check(key: str) -> str:
    """The key itself. Raises WeakKey for an empty, a public or a short one."""
    if not key.strip() or key == PUBLIC:
        raise WeakKey(f"the key must be a secret of your class, and not {key!r}: {HOW}")
    if bits(key) < BITS:
        raise WeakKey(f"a key of {len(key)} characters like these holds at most {bits(key):.0f} bits, and {BITS} are needed, or it can be found by trying: {HOW}")
    return key
