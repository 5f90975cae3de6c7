# SPDX-License-Identifier: Apache-2.0
"""mbarriers that are initialised for another number of arrivals than they receive: one name, one number and one remedy, whatever lands when."""
import pytest
from support.emulated import SCHEDULES, told
from support.kernel_bodies import launch

pytestmark = pytest.mark.emulator_only
WHOLE_WARPS = """__shared__ mbarrier_t full; __shared__ float tile[96];
if (t == 96) mbarrier_init(&full, COUNT);
__syncthreads();
if (w < 3) {
    tile[t] = x[t];
    mbarrier_arrive(&full);
} else { mbarrier_wait_parity(&full, 0); y[t] = tile[t - 32]; }"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("count", [33, 40, 48, 64, 65, 95])
def test_every_arrival_of_a_pass_is_counted(count, schedule):
    """Those that a warp brings beyond the pending ones too, which fail the launch on an H200."""
    session, found = launch(WHOLE_WARPS.replace("COUNT", str(count)), 128, schedule=schedule)
    assert [case for case, *_ in found if case not in ("deadlock", "race-threads")] == ["init-too-few"] and ("init-too-few", 6, 2) in found, told(session)
    words = next(str(h) for h in session.hazards if h.case == "init-too-few")
    assert f"initialised for {count} " in words and "receives 96 a pass" in words and "Initialise it for 96 arrivals" in words
    assert ("here 32 times, where fewer are pending, and an H200 fails the launch" in words) == (count % 32 != 0), words
    stuck = [str(h) for h in session.hazards if h.case == "deadlock"]
    assert all("receives 96 arrivals a pass: initialise it for 96" in text for text in stuck) and (stuck or count not in (33, 40, 48)), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("count", [64, 97, 120, 127])
def test_what_a_pass_leaves_over_is_not_counted_in_the_next(count, schedule):
    """A ring that goes round eleven times: each pass has the arrivals beside its own that the one before did not need."""
    session, found = launch("""__shared__ mbarrier_t empty; __shared__ float tile[128];
        if (t == 0) mbarrier_init(&empty, COUNT);
        __syncthreads();
        for (int i = 0; i < 11; i++) {
            if (t == 0) { if (i) mbarrier_wait_parity(&empty, (i & 1) ^ 1); tile[0] = x[i]; }
            __syncthreads();
            y[t] = tile[0];
            mbarrier_arrive(&empty);
        }""".replace("COUNT", str(count)), 128, schedule=schedule)
    words = [str(h) for h in session.hazards if h.case == "init-too-few"]
    assert words and "receives 128 a pass" in words[0], told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("count", [1, 2, 31])
def test_a_whole_warp_where_one_lane_may_be_meant(count, schedule):
    session, found = launch(WHOLE_WARPS.replace("COUNT", str(count)), 128, schedule=schedule)
    assert found[0] == ("past-the-phase", 6, 0) and "init-too-few" not in str(found), told(session)
    assert f"arrives 32 times at once, but {count} of {count} arrivals are pending" in str(session.hazards[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("arrives, right", [("mbarrier_arrive(&b)", 2), ('asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 3;" :: "r"(shared_address(&b)))', 6)])
def test_arrivals_of_which_a_lane_brings_several_are_all_counted(arrives, right, schedule):
    """Two lanes a pass, where one arrival was planned: what is received is counted in arrivals, not in lanes."""
    session, found = launch("""__shared__ mbarrier_t b;
        if (t == 0) mbarrier_init(&b, 1);
        __syncthreads();
        for (int i = 0; i < 4; i++) {
            if (t % 32 == 0) ARRIVES;
            mbarrier_wait_parity(&b, i & 1);
            __syncthreads();
        }""".replace("ARRIVES", arrives), 64, schedule=schedule)
    assert any(f"receives {right} {word}" in str(h) for h in session.hazards for word in ("a pass", "arrivals a pass")), told(session)


AND_BYTES = """__shared__ mbarrier_t full; __shared__ __align__(128) float tile[160];
if (t == 63) mbarrier_init(&full, COUNT);
__syncthreads();
if (t == 0) { mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(tile, x, 128, &full); }
if (w > 0) {
    tile[t] = x[t]; __syncwarp();
    if (WHO) mbarrier_arrive(&full);
} else { mbarrier_wait_parity(&full, 0); y[t] = tile[t] + tile[32 + t]; }"""


@pytest.mark.parametrize("who, warps, right", [("t == 50", 1, 2), ("t % 32 == 5", 3, 4), ("true", 1, 33)])
def test_arrivals_beside_bytes_are_named_the_same_whenever_the_bytes_land(who, warps, right):
    """Once the only arrival that counts is there, the phase waits for bytes: what arrives meanwhile would be of the next one if the bytes were quicker."""
    told_by = []
    for schedule in [*SCHEDULES, "late-copies"]:
        session, found = launch(AND_BYTES.replace("COUNT", "1").replace("WHO", who), 32 + 32 * warps, schedule=schedule)
        assert ("init-too-few", 7, 2) in found and "past-the-phase" not in str(found) and "phase-overrun" not in str(found), told(session)
        words = next(str(h) for h in session.hazards if h.case == "init-too-few")
        assert f"receives {right} a pass" in words
        told_by.append((words, {(case, *sorted(lines)) for case, *lines in found}))          # a race is told from either end
        session, found = launch(AND_BYTES.replace("COUNT", str(right)).replace("WHO", who), 32 + 32 * warps, schedule=schedule)
        assert not found, told(session)
    assert all(one == told_by[0] for one in told_by), told_by


@pytest.mark.parametrize("schedule", [*SCHEDULES, "late-copies"])
def test_a_thread_that_arrives_again_while_the_bytes_of_its_first_arrival_are_still_to_come(schedule):
    body = """__shared__ mbarrier_t full; __shared__ __align__(128) float tile[64];
if (t == 63) mbarrier_init(&full, 1);
__syncthreads();
if (t == 0) {
    mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(tile, x, 128, &full);
    mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(tile + 32, x + 32, 128, &full);
} else if (w == 1) { for (int i = 0; i < 2; i++) { mbarrier_wait_parity(&full, i); y[t + 64 * i] = tile[t % 32 + 32 * i]; } }"""
    session, found = launch(body, schedule=schedule)
    assert ("arrives-again", 6, 0) in found and "past-the-phase" not in str(found), told(session)
    assert not any("arrives 1 times at once" in str(h) for h in session.hazards)
