# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 13: the persistent kernel and its successors as shares of cuBLAS. The notebook passes the recording in."""
from __future__ import annotations

from typing import Any

from ...runtime.tables import text_table


def branches_table(recording: Any) -> str:
    """Persistent, its two successors with another schedule or another way of C, and the split ones, at every recorded cube, as shares of cuBLAS."""
    names = ("cluster_multicast", "persistent", "pingpong", "overlapped_store", "stream_k", "split_k")
    sizes = sorted({r.shape[0] for r in recording if r.kernel == "persistent" and not r.note})
    rows = []
    for name in names:
        cells = []
        for size in sizes:
            record = recording.one(kernel=name, shape=(size, size, size), note="")
            cells.append(f"{100 * record.ratio:.1f} ({100 * record.ratio_min:.1f} to {100 * record.ratio_max:.1f})")
        rows.append((name, *cells))
    head = ("% of cuBLAS (lowest to highest round)", *(f"{size}³" for size in sizes))
    return "\n".join([recording.source, *text_table("{:38}" + "{:>26}" * len(sizes), rows, head)])
