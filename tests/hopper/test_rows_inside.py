# SPDX-License-Identifier: Apache-2.0
"""Rows of boxes at random places, inside, outside and across every edge, beside a count element by element."""
import numpy as np
import pytest

from hopperlab.hopper import tile
from hopperlab.hopper.tensormap_fields import TensorMapFields


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_rows_of_random_boxes(rank):
    rng = np.random.default_rng(rank)
    seen = set()
    for _ in range(60):
        sizes = [16 * int(rng.integers(1, 10)), *rng.integers(1, 13, rank - 1).tolist()]
        strides = [2 * int(np.prod(sizes[:i])) for i in range(1, rank)]
        steps = [1, *rng.integers(1, 4, rank - 1).tolist()]
        fields = TensorMapFields("bfloat16", rank, 1 << 30, sizes, strides, [16, *rng.integers(1, 7, rank - 1).tolist()], steps)
        start = [8 * int(rng.integers(-2, 11)), *rng.integers(-4, 14, rank - 1).tolist()]
        rows = tile.global_rows(fields, start)
        at = [[c + step * i for c, step, i in zip(start[1:], steps[1:], index[::-1], strict=True)] for index in np.ndindex(*tile.box_counts(fields)[:0:-1])]
        inside = [all(0 <= c < size for c, size in zip(one, sizes[1:], strict=True)) for one in at]
        assert rows.inside.tolist() == inside
        assert rows.address.tolist() == [(1 << 30) + 2 * start[0] + sum(c * s for c, s in zip(one, strides, strict=True)) for one in at]
        corner, nbytes, whole = tile.box_spans(fields, [np.array([c, c]) for c in start])
        assert corner.tolist() == 2 * [rows.address[0] + 2 * rows.first] and nbytes.tolist() == 2 * [2 * (rows.last - rows.first) * sum(inside)]
        assert whole.tolist() == 2 * [32 * len(at)]
        seen.update(inside)
    assert seen == ({True} if rank == 1 else {True, False})
