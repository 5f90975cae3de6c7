# SPDX-License-Identifier: Apache-2.0
"""The kernels of lesson 04: right under every schedule, clean, as far ahead as they have slots, and their bugs still planted."""
import numpy as np
import pytest

import hopperlab as hl

SCHEDULES = ("lazy", "eager", "random")


def fold(path: str, tiles: int, blocks: int = 3, options: tuple[str, ...] = (), schedule: str = "lazy"):
    x = np.random.default_rng(tiles).integers(-99, 100, 512 * tiles).astype(np.float32)
    y = np.full_like(x, np.nan)
    kernel = hl.load_kernel(path, "fold", options, backend="emulator")
    with hl.emulate(schedule=schedule, seed=tiles, hazards="collect") as run:
        kernel((blocks,), (160,), (x, y, np.int32(tiles)))
    runs = x.reshape(-1, 128)
    return run, bool((y == (runs + runs[:, ::-1]).reshape(-1)).all())


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages", [1, 2, 5])
@pytest.mark.parametrize("path", ["mbarrier/ring.cu", "mbarrier/named_ring.cu"])
def test_rings_are_right_and_clean(path, stages, schedule):
    for tiles in (1, 2, 7, 16):
        run, right = fold(path, tiles, options=(f"-DSTAGES={stages}",), schedule=schedule)
        assert right and not run.hazards, (tiles, run.hazards)


def test_more_named_barriers_than_there_are_do_not_compile():
    with pytest.raises(hl.CompileError, match="named barriers"):
        hl.load_kernel("mbarrier/named_ring.cu", "fold", ("-DSTAGES=8",), backend="emulator")


def test_a_tile_costs_one_announcement_and_four_releases():
    run, _ = fold("mbarrier/ring.cu", 6, blocks=1)
    assert run.counters["mbarrier_arrivals"] == 6 * 5
    assert run.counters["mbarrier_expected_bytes"] == run.counters["mbarrier_completed_bytes"] == 6 * 2048


BUGS = [("BUG_WRONG_PARITY", "read-before-arrival"), ("BUG_MISSING_ARRIVE", "deadlock"), ("BUG_WRONG_BYTES", "deadlock"),
        ("BUG_PRODUCER_PARITY", "deadlock")]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("bug", "kind"), BUGS)
@pytest.mark.sampled(ci=1)
def test_each_bug_is_named_under_every_schedule(bug, kind, schedule):
    run, _ = fold("mbarrier/ring.cu", 5, blocks=1, options=(f"-D{bug}=1",), schedule=schedule)
    assert kind in {hazard.kind for hazard in run.hazards}


def test_the_bugs_change_what_they_say_in_the_ptx():
    def arrivals(*options: str) -> int:
        return hl.load_kernel("mbarrier/ring.cu", "fold", options, backend="emulator").module.ptx.count("mbarrier.arrive.release")
    assert (arrivals(), arrivals("-DBUG_MISSING_ARRIVE=1")) == (1, 0)
    texts = {hl.load_kernel("mbarrier/ring.cu", "fold", (f"-D{bug}={on}",), backend="emulator").module.ptx
             for bug in ("BUG_WRONG_PARITY", "BUG_WRONG_BYTES") for on in (0, 1)}
    assert len(texts) == 3
