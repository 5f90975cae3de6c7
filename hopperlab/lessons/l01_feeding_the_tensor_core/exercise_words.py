# SPDX-License-Identifier: Apache-2.0
"""What is said of a wrong value of exercise 01.1: which of the four numbers it is, and what was counted instead."""
from __future__ import annotations

import math

from ...checking.value_words import Told, Wrong

NAMES = ("the FLOP for each byte loaded", "who sets the pace", "the bytes that one SM must have on their way", "the tiles on their way")
LARGEST = 1e300              # no cause is looked for beyond: it could not be compared


def plan(wrong: Wrong) -> Told:
    """01.1: plan(bm, bn, bk, latency_ns, gb_s, tflops)."""
    if len(wrong.path) != 1:
        return Told()
    known, value = _causes(wrong), wrong.value
    if isinstance(value, str):
        return Told(NAMES[wrong.path[0]], cause=known.get(value, ""))
    if not isinstance(value, (int, float)) or not abs(value) < LARGEST:
        return Told(NAMES[wrong.path[0]])
    return Told(NAMES[wrong.path[0]], cause=next((cause for number, cause in known.items() if not isinstance(number, str) and math.isclose(value, number)), ""))


def _causes(wrong: Wrong) -> dict[float | str, str]:
    """Wrong number or word -> what was forgotten, for the one that is asked for."""
    bm, bn, bk, latency, gb_s, tflops = wrong.arguments
    sms, size = wrong.setting["SMS"], wrong.setting["ELEMENT_BYTES"]
    tile_bytes, flop = (bm + bn) * bk * size, 2 * bm * bn * bk
    brought, used = latency * gb_s / sms / tile_bytes, latency * 1000 * tflops / sms / flop
    tiles, other = min(brought, used), max(brought, used)
    faster = "brought" if other == brought else "used up"
    return [
        {flop / tile_bytes / 2: "a multiplication and an addition are two operations",
         flop / (bm * bk * size): "that counts the rows of A alone, and B's are loaded too"},
        dict.fromkeys(("memory", "multipliers"), f"in the latency the memory brings {brought:.3g} tiles to an SM, and its multipliers use up {used:.3g}"),
        {tiles * tile_bytes * sms: "that is what the whole GPU has on its way, and an SM has its share",
         other * tile_bytes: f"that keeps up with the faster of the two rates, at which tiles are {faster}: the slower one sets the pace",
         math.ceil(tiles) * tile_bytes: "that is whole tiles; here nothing is rounded"},
        {math.floor(tiles): "rounded down, and so the pace is missed", math.ceil(other): f"that is for the faster of the two rates, at which tiles are {faster}",
         math.ceil(tiles * sms): "that is what the whole GPU has on its way, and an SM has its share"},
    ][wrong.path[0]]


WORDS = {"01.1": plan}
