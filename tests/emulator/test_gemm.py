# SPDX-License-Identifier: Apache-2.0
"""The two GEMMs of the first lessons in the emulator: right values under every schedule and shape, and no hazard."""
import pytest
from support.gemms import SCHEDULES, SHAPES, mma_multistage, warp_specialized

@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gemm", [warp_specialized, mma_multistage])
@pytest.mark.sampled(every=5)
def test_exact_on_awkward_shapes(gemm, shape, schedule):
    c, exact, session = gemm(*shape, schedule)
    assert (c == exact).all() and not session.hazards


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.sampled(every=3)
def test_every_random_schedule_gives_the_same_values(seed):
    for gemm in (warp_specialized, mma_multistage):
        c, exact, session = gemm(256, 256, 256, "random", seed)
        assert (c == exact).all() and not session.hazards


def test_counters_count_what_the_kernel_asked_for():
    _, _, session = warp_specialized(256, 256, 128)
    assert session.counters["tma_load_bytes"] == 4 * 2 * 2 * 128 * 64 * 2      # CTAs x k-tiles x operands x box
    assert session.counters["wgmma"] == 4 * 2 * 2 * 4                          # CTAs x k-tiles x warpgroups x k-steps


def test_timeline_orders_issue_landing_and_phase():
    _, _, session = warp_specialized(128, 128, 128)
    words = [e.what for e in session.timeline if e.block == 0]
    assert words.index("issue cp") < words.index("land cp") < words.index("phase flips")
    steps = [e.step for e in session.timeline]
    assert steps == sorted(steps)
