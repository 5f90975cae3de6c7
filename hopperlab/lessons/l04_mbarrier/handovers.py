# SPDX-License-Identifier: Apache-2.0
"""Lesson 04: what a hand-over between two warps and its answer cost, in words: measured on this GPU by micro/barriers.cu, or recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.tables import text_table

WAYS = {"mbarrier_round_trip": "two mbarriers, one thread a side", "named_round_trip": "two named barriers, a warp a side",
        "syncthreads": "one __syncthreads of 128 threads"}
"""Kernels of micro/barriers.cu, and what they do in one round."""
ROUNDS = 64


def measured(way: str, backend: str | None = None, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """(median, least, greatest) SM cycles of one round over the samples of one launch, the first sample left out."""
    from ...measure.launches import micro

    each = micro.barrier(way, 128 if way == "syncthreads" else 64, rounds=rounds, backend=backend).cycles()[1:] / rounds
    return float(np.median(each)), float(each.min()), float(each.max())


def handover_cost(recording: Any = None) -> str:
    """Lesson 04: cycles of a hand-over and its answer; measured here where there is a GPU, else from the recording `micro`.

    Without a GPU and without a recording it says so.
    """
    import hopperlab as hl

    if hl.backend() == "gpu":
        from ...runtime.gpu.driver import find_gpu

        heading = f"measured on this GPU ({find_gpu().name}), median over the samples of a launch (least to greatest):"
        rows = {way: measured(way) for way in WAYS}
    else:
        found = [record for record in recording or () if record.kernel in WAYS and record.value is not None]
        if not found:
            return "No GPU here, and no recording of this: run the notebook on a Hopper GPU, where this cell measures it."
        heading, rows = recording.source + ":", {}
        for record in found:                                # the first of a kernel is that of the fewest threads
            rows.setdefault(record.kernel, (record.value, record.value_min or record.value, record.value_max or record.value))
    return "\n".join([heading, *text_table("  {:36} {:6.0f} cycles ({:.0f} to {:.0f})", [(WAYS[way], *cycles) for way, cycles in rows.items()])])
