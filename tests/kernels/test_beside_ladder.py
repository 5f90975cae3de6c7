# SPDX-License-Identifier: Apache-2.0
"""The cooperative consumers of ping-pong's tiles and the epilogue that reads C: exact under every schedule, and each synchronisation dropped is named."""
from functools import cache

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import beside_ladder, operands
from hopperlab.measure.launches.edited import changed

SCHEDULES = ("lazy", "eager", "random")
EXTREMES = SCHEDULES[:2]         # for what is broken: all lands as late as it can, or at once
SHAPES = ((300, 520, 328), (1, 8, 8), (129, 264, 72), (600, 96, 136))


def given(m: int, n: int, k: int):
    """a, b, old c: small integers, so that sums are exact."""
    return tuple(operands.integer_bf16(np, shape, m + n + k + at) for at, shape in enumerate(((m, k), (n, k), (m, n))))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.sampled(by="schedule")
def test_cooperative_consumers_are_exact(shape, schedule):
    a, b, c = given(*shape)
    c.fill(0x7FC0)
    with hl.emulate(schedule=schedule, seed=shape[0], hazards="raise"):
        beside_ladder.cooperative(a, b, c, blocks=2, backend="emulator")()
    assert (c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("factors", [(1, 1), (0.5, -2), (2, 0)], ids=str)
@pytest.mark.sampled(every=11, ci=6)
def test_an_epilogue_that_reads_c_is_exact(shape, factors, schedule):
    """Several tiles per cluster, edges in m, n and k; two launches, since the second reads what the first wrote."""
    a, b, c = given(*shape)
    alpha, beta = map(np.float32, factors)
    expected, sums = c.copy(), operands.bf16_values(a) @ operands.bf16_values(b).T
    launch = beside_ladder.reads_c(a, b, c, alpha, beta, blocks=2, backend="emulator")
    for _ in range(2):
        with hl.emulate(schedule=schedule, seed=shape[0], hazards="raise"):
            launch()
        expected = operands.bf16_bits(alpha * sums + beta * operands.bf16_values(expected))
        assert (c == expected).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_c_is_on_its_way_under_the_main_loop(schedule):
    """The mechanism: in each CTA all eight loads of a tile's C are issued before the tile's last product of either consumer."""
    a, b, c = given(256, 512, 512)
    with hl.emulate(schedule=schedule, hazards="raise") as run:
        beside_ladder.reads_c(a, b, c, blocks=2, backend="emulator")()
    for block in (0, 1):
        mine = [(event.what, event.warp) for event in run.timeline if event.block == block]
        loads = [at for at, (what, warp) in enumerate(mine) if what == "issue cp" and warp == 1]
        last = [[at for at, found in enumerate(mine) if found == ("issue wgmma", warp)] for warp in (4, 8)]
        assert len(loads) == 16 and all(len(issued) == 64 for issued in last)
        for tile in (0, 1):
            assert max(loads[8 * tile:8 * tile + 8]) < min(issued[32 * tile + 31] for issued in last)


def test_sizes_that_tma_cannot_store_are_refused():
    with pytest.raises(ValueError, match="multiple of 8"):
        beside_ladder.reads_c(*given(64, 68, 64), backend="emulator")


FULL = "                mbarrier_wait_parity(&c_full[mine + chunk], phase);             // the old C is there\n"
DROPPED = {                         # what is taken out, what stands there instead, one of the kinds that name it
    "the old C is there": (FULL, "", "read-before-arrival"),
    "the slot is free": ("                    mbarrier_wait_parity(&c_empty[s], phase ^ 1);\n", "", "overwrite-in-flight"),
    "the stores have read": ("                    cp_async_bulk_wait_group_read<0>();\n                    for", "                    for", "overwrite-in-flight"),
    "one store is not waited for": ("cp_async_bulk_wait_group_read<0>();\n                    for", "cp_async_bulk_wait_group_read<1>();\n                    for",
                                    "overwrite-in-flight"),
    "the slot is handed back": ("mbarrier_arrive(&c_empty[mine + s]);", "{}", "deadlock"),
    "the engine sees the slot": ("                fence_proxy_async_shared_cta();\n", "", "missing-proxy-fence"),
    "the slot is complete": ("                bar_sync(warpgroup, 128);                                       // the slot is complete\n", "", "race"),
    "the bytes are told": ("mbarrier_arrive_expect_tx(&c_full[s], SLOT_BYTES)", "mbarrier_arrive(&c_full[s])", "read-before-arrival"),
    "shared memory outlives the stores": (
        "        if (thread == 0) cp_async_bulk_wait_group_read<0>();    // shared memory outlives the reads of it\n", "", "exit-in-flight")}


@cache
def named(schedule: str, change: tuple[str, str] | None = None) -> set[str]:
    """Kinds of what the emulator names of the kernel with `change` made."""
    a, b, c = given(256, 512, 128)
    launch = beside_ladder.reads_c(a, b, c, blocks=2, backend="emulator")
    with hl.emulate(schedule=schedule, seed=3, hazards="collect") as run:
        changed(launch, "gemm/reads_c.cu", (change,) if change else (), ("-DSTAGES=3", "-DGROUP=8"))()
    return {hazard.kind for hazard in run.hazards}


@pytest.mark.parametrize("schedule", EXTREMES)
@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.sampled(every=7, ci=1)
def test_what_orders_the_slots_of_c_is_missed_when_it_is_gone(name, schedule):
    old, new, kind = DROPPED[name]
    assert kind in named(schedule, (old, new)) and not named(schedule)
