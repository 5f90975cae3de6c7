# SPDX-License-Identifier: Apache-2.0
"""Lesson 05x's later questions to the copy engine, the recording `engine`: how many tensor maps it keeps, and in which pieces it tells a barrier of a box.

`maps`: the same copy through one map after the other, over their number. `pieces`: a barrier that was told of fewer bytes than the box has, over what it was
told: it opens early only where the pieces that have landed add up to that. Needs a Hopper GPU.
"""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..launches import micro
from ..recordings import Record
from .fields import facts
from .micro_records import flush, numbered, sampled

METHOD = ("cycles of one multiprocessor's clock around the instructions named, inside the kernel: median, least and greatest over samples and launches; maps: of the "
          "passes after the first; pieces: `runs` trials, `wrong` those in which the barrier opened, `value` the bytes that were there then")
PASSES = 5
COUNTS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024, 2048, 4096)
STRIDES = (1, 8)                # from map to map, in maps of 128 bytes
BOXES = ((64, 64), (64, 16), (8, 256))
TRIALS = 64
SMALL = (16, 32, 64, 1000)      # announced besides the multiples


def maps(rounds: int) -> list[Record]:
    """Cycles of a copy of 128 bytes from the L2, by how many maps are used in turn: first uses, and uses again, forwards and there and back."""
    records = []
    for stride in STRIDES:
        for turn in (False, True):
            for count in COUNTS:
                probe = micro.map_cache(count, PASSES, stride, turn, backend="gpu")
                again = sampled(probe, rounds, lambda out, count=count: out[count:])
                words = (f"maps={count}", f"stride={128 * stride}", f"order={'there and back' if turn else 'forwards'}")
                records.append(numbered("maps", "map_cache", (*words, "use=again"), again, "cycles", probe.launch))
                if not turn:
                    first = sampled(probe, rounds, lambda out, count=count: out[:count], cold=True)
                    records.append(numbered("maps", "map_cache", (*words, "use=first"), first, "cycles", probe.launch))
    return records


def announcements(rows: int, columns: int) -> Iterator[int]:
    """Bytes that are announced for a box: every 64th part of it (but 32 bytes at least), a few small numbers, and all of it."""
    whole = 2 * rows * columns
    yield from sorted({*(small for small in SMALL if small < whole), *range(max(32, whole // 64), whole + 1, max(32, whole // 64))})


def pieces(rounds: int) -> list[Record]:
    """How often a barrier opened that was told of fewer bytes, and how much of the box was there then; from the memory and from the L2."""
    records = []
    for rows, columns in BOXES:
        for announced in announcements(rows, columns):
            probe = micro.early_opening(rows, columns, announced, TRIALS, backend="gpu")
            for source in ("memory", "L2"):
                found = []
                for _ in range(max(1, rounds)):
                    if source == "memory":
                        flush()
                    found.append(probe.cycles().reshape(-1, 2)[:, 0].copy())
                records.append(_opened(np.concatenate(found), (f"announced={announced}", f"from={source}"), (rows, columns), probe))
    return records


def _opened(lines: np.ndarray, words: tuple[str, ...], shape: tuple[int, int], probe: micro.Probe) -> Record:
    opened = 128 * lines[lines >= 0]
    spread = {"value": float(np.median(opened)), "value_min": float(opened.min()), "value_max": float(opened.max())} if len(opened) else {}
    return Record("pieces", "early_opening", words, shape, "bfloat16", unit="bytes", runs=len(lines), wrong=len(opened), **spread, **facts(probe.launch))


def measure(rounds: int = 5) -> list[Record]:
    """The records of `maps` and of `pieces`."""
    return [*maps(rounds), *pieces(rounds)]
