# SPDX-License-Identifier: Apache-2.0
"""Lesson 12: a tile that two CTAs need, loaded by each, multicast, or handed on by an exchange warp: runs in the emulator, and the recording `clusters`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.launches.clusters import WAYS, handed_tiles
from ...runtime.tables import text_table


def run_handed(how: str, options: Sequence[str] = (), schedule: str = "lazy") -> tuple[bool, Any]:
    """(right, session) of clusters/handed_tiles.cu in the emulator: one cluster of two CTAs, six tiles of k. how: one of WAYS; options: macros of its bugs."""
    import hopperlab as hl

    random = np.random.default_rng(12)
    a, b = (random.integers(0, 1 << 16, (rows, 384)).astype(np.uint16) for rows in (128, 64))
    of_a, of_b = (matrix.view(np.uint32).reshape(-1, 32 * 384).sum(1, dtype=np.uint32) for matrix in (a, b))
    out = np.zeros((2, 1, 2), np.uint32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        handed_tiles(a, b, out, how, stages=2, options=options, backend="emulator")()
    return bool((out[:, 0, 0] == of_a).all() and (out[:, 0, 1] == of_b).all()), run


def handed_bytes() -> str:
    """A line a way: whether the sums are right, and the bytes by origin, for each of the two CTAs."""
    lines = []
    for how in WAYS:
        right, run = run_handed(how)
        arrived, passed = run.counters["tma_load_bytes"] // 2, run.counters["dsmem_copy_bytes"] // 2
        asked = run.counters["tma_loads"] // 4 * (8192 + (8192 if how == "alone" else 4096))         # of two CTAs' loads half are of A, half of B
        lines.append(f"{how:9s} right: {right}; {asked} bytes read of the L2, {arrived} written by TMA loads, {passed} sent by a neighbour")
    return "\n".join(lines)


def handed_table(recording: Any) -> str:
    """The recording `clusters`: bytes that arrive in all SMs' shared memory, by way and depth of the ring."""
    depths = sorted({int(record.options[1].split("=")[1]) for record in recording})
    rows = []
    for how in WAYS:
        found = [recording.one(suite="handed", options=(f"HOW={how}", f"STAGES={depth}")) for depth in depths]
        rows.append((how, *(f"{record.gb_s / 1000:.2f} ({record.ratio:.2f})" for record in found)))
    form = "{:*}" + "  {}" * len(depths)
    return "\n".join([*text_table(form, rows, ("TB/s that arrive (beside multicast)", *(f"{depth} stages" for depth in depths))), recording.source])
