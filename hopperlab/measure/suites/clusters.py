# SPDX-License-Identifier: Apache-2.0
"""Lesson 12's measurement: a tile that two CTAs need, loaded by each, multicast, or handed on by an exchange warp. Needs a Hopper GPU and CuPy."""
from __future__ import annotations

from ..launches.clusters import WAYS, handed_tiles
from ..machine.timing import interleaved
from ..recordings import Record
from .fields import beside, facts, gb_s, times

SHAPE = (8192, 4224, 4096)          # rows of a, rows of b, columns: 8448 CTAs, 64 tiles each
STAGES = (2, 4, 6, 12)              # 12: one CTA of an SM; 6: two; 4: three


def clusters(rounds: int = 9) -> list[Record]:
    """Bytes that arrive in shared memory a second, of every way and depth, beside multicast at the same depth. Sums are compared before; a wrong one raises
    AssertionError."""
    import cupy
    rows, columns, depth = SHAPE
    draw = cupy.random.default_rng(12)
    a, b = (draw.integers(0, 1 << 16, size=(high, depth), dtype=cupy.uint16) for high in (rows, columns))
    out = cupy.zeros((rows // 64, columns // 64, 2), cupy.uint32)
    sums = [matrix.view(cupy.uint32).reshape(-1, 32 * depth).sum(1, dtype=cupy.uint32) for matrix in (a, b)]
    expected = cupy.stack(cupy.broadcast_arrays(sums[0][:, None], sums[1][None]), -1)
    made = {}
    for stages in STAGES:
        for how in WAYS:
            made[how, stages] = handed_tiles(a, b, out, how, stages)
            out.fill(0)
            made[how, stages]()
            if not bool((out == expected).all()):
                raise AssertionError(f"handed_tiles, {how}, {stages} stages: wrong sums")
    samples = interleaved({str(key): launch.bound() for key, launch in made.items()}, rounds)
    arrived = rows // 64 * (columns // 64) * (depth // 64) * 16384
    records = []
    for (how, stages), launch in made.items():
        sample, peer = samples[str((how, stages))], samples[str(("multicast", stages))]
        records.append(Record("handed", "handed_tiles", (f"HOW={how}", f"STAGES={stages}"), SHAPE, "uint16", gb_s=gb_s(arrived, sample), **times(sample),
                              **facts(launch), **beside(sample, "multicast", peer, gb_s(arrived, peer))))
    return records
