# SPDX-License-Identifier: Apache-2.0
"""Lesson 00's four kernels: all give right values, exactly three are wrong, whatever the schedule lets them get away with."""
import hopperlab as hl
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, told

# Kernel 2 reads another lane's cp.async without __syncwarp; 1 and 4 are found below by their missing line.
EXPECTED = {
    1: ("missing-proxy-fence", "cp_async_bulk_store(", "out[t] = sum"),
    2: ("read-before-arrival", "add_mirrored(", "cp_async_cg_16("),
    3: None,
    4: ("overwrite-in-flight", "cp_async_bulk_load(", "add_mirrored("),
}


def fold(number, tiles, blocks, schedule, seed=0):
    x = np.random.default_rng(number * 100 + tiles).integers(-1000, 1000, tiles * 512).astype(np.float32)
    y = np.full(tiles * 512, np.nan, np.float32)
    kernel = hl.load_kernel(f"start_here/kernel_{number}.cu", "fold", backend="emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as session:
        kernel((blocks,), (128,), (x, y, np.int32(tiles)))
    exact = (x.reshape(-1, 128) + x.reshape(-1, 128)[:, ::-1]).reshape(-1)
    return y, exact, session


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_values_are_right(number, schedule):
    """Printed on a GPU all four are right; here a wrong kernel may be caught by its values only under 'lazy'."""
    y, exact, session = fold(number, 8, 1, schedule)
    if schedule == "eager" or number == 3:
        assert (y == exact).all()
    assert bool(session.hazards) == (EXPECTED[number] is not None), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles, blocks", [(5, 1), (8, 3), (13, 4)])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_exactly_three_are_hazardous(number, tiles, blocks, schedule):
    _, _, session = fold(number, tiles, blocks, schedule)
    if EXPECTED[number] is None:
        assert session.hazards == []
        return
    kind, early, other = EXPECTED[number]
    path = f"start_here/kernel_{number}.cu"
    assert kinds(session) == [kind], told(session)
    assert {h.where.line for h in session.hazards} <= lines_with(early, path), told(session)
    assert {h.other.line for h in session.hazards} <= lines_with(other, path), told(session)
