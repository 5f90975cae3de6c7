# SPDX-License-Identifier: Apache-2.0
"""Lesson 03's picture of one warp's access to shared memory: the words that it asks of each bank."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...hopper.limits import BANK_BYTES, BANKS
from ...show import style
from ...show.tiles import wavefronts


def bank_map(addresses: Sequence[int] | np.ndarray, bytes_per_lane: int = 4, heading: str = "Banks touched by one warp") -> style.Picture:
    """A bar for each of the 32 banks: how many different 4-byte words one warp asks of it in its worst 128-byte group.

    addresses: shared-memory byte address per lane. The access takes as many passes as the tallest bar of each group.
    """
    lanes = np.asarray(addresses, dtype=np.int64)
    group = max(1, 128 // bytes_per_lane)
    counts = np.zeros(BANKS, dtype=int)
    for first in range(0, len(lanes), group):
        part = lanes[first:first + group]
        words = np.unique((part[:, None] // BANK_BYTES + np.arange(max(1, bytes_per_lane // BANK_BYTES))).ravel())
        counts = np.maximum(counts, np.bincount(words % BANKS, minlength=BANKS))
    passes, ideal = wavefronts(lanes, bytes_per_lane), max(1, len(lanes) * bytes_per_lane // 128)
    figure, (axis,) = style.new_figure(2.4)
    axis.bar(range(BANKS), counts, color=[style.BLUE if c <= 1 else style.VERMILION for c in counts], width=0.8)
    axis.set(xlabel="shared-memory bank (4 bytes wide)", ylabel="words asked for", xlim=(-0.6, 31.6), ylim=(0, max(2, counts.max() + 0.5)))
    axis.set_xticks(range(0, BANKS, 4))
    axis.set_yticks(range(0, counts.max() + 2, max(1, int(counts.max()) // 4)))
    style.title(axis, f"{heading}: {passes} passes, {ideal} would do")
    words = f"{heading}: {passes} passes over shared memory, {ideal} would do\n  words per bank: " + " ".join(map(str, counts))
    return style.Picture(figure, words)
