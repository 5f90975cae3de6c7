# SPDX-License-Identifier: Apache-2.0
"""How many heads of attention the CTAs of a launch work on at once: as many as the L2 has room for, in groups of which the last is no small one."""
from __future__ import annotations

import numpy as np

from .launch import SMS


def even(units: int, most: int) -> int:
    """Heads of a group, at most `most`, so that the last group is as large as it can be, and the smaller of two that leave as many.

    With a causal mask a group begins with its longest tiles. Where the last one has few heads, these begin when the others' are all taken, and most SMs wait for them.
    """
    sizes = np.arange(1, max(1, min(units, most)) + 1)
    return int(sizes[np.argmax((max(units, 1) - 1) % sizes)])


def forward(units: int, room: int, share: int, causal: bool, lengths: np.ndarray) -> int:
    """Heads of queries at once of a forward pass. units: of all sequences; room: heads whose keys and values the L2 holds; share: heads of queries to each of
    those. Sequences of several lengths with a causal mask count what the heads share, for the more are at once, the more long tiles come first."""
    uneven = causal and len(lengths) > 0 and bool((lengths != lengths[0]).any())
    return even(units, max(1, room) * (share if uneven else 1))


def backward(units: int, room: int, blocks: int, causal: bool) -> int:
    """Heads at once of a backward pass, a CTA a block of keys: at most `room`, or as many as give each SM a block, with a causal mask two."""
    return even(units, max(room, -(-(2 if causal else 1) * SMS // max(1, blocks))))
