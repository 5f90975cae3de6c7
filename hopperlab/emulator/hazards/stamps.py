# SPDX-License-Identifier: Apache-2.0
"""Stamps of shared memory: one 64-bit number says who wrote a word, or read a granule of 16 bytes, when, and by which instruction.

A write stamp packs epoch | column | lane | instruction; a read stamp epoch | lane | byte mask | instruction. Columns are the agents of clocks.py.
"""
from __future__ import annotations

from typing import Any

import numpy as np

W_EPOCH, W_COLUMN, W_LANE = 34, 23, 18
W_COLUMN_MASK, LANE_MASK, W_SITE_MASK = 0x7FF, 31, 0x3FFFF
R_EPOCH, R_LANE, R_MASK = 39, 34, 18
R_SITE_MASK = 0x3FFFF
WHOLE = 0xFFFF                     # byte mask of a granule
MIXED = np.int64(-1)
NEVER = (1 << 29) - 1              # an epoch nothing is ever ordered after: the word is an mbarrier


def pack_write(epoch: np.ndarray | int, column: np.ndarray | int, lane: np.ndarray | int, site: int) -> Any:
    """Write stamp (int64)."""
    return (np.int64(1) * epoch << W_EPOCH) | (np.int64(1) * column << W_COLUMN) | (np.int64(1) * lane << W_LANE) | site


def pack_read(epoch: np.ndarray | int, lane: np.ndarray | int, mask: np.ndarray | int, site: int) -> Any:
    """Read stamp (int64)."""
    return (np.int64(1) * epoch << R_EPOCH) | (np.int64(1) * lane << R_LANE) | (np.int64(1) * mask << R_MASK) | site


def byte_mask(start: int, nbytes: int) -> int:
    """The bytes of their granules that a copy of `nbytes` from `start` writes: all, or for st.async and red.async those of one value, whose neighbours are no matter."""
    return WHOLE if nbytes >= 16 else ((1 << nbytes) - 1) << (start & 15)
