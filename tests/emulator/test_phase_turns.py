# SPDX-License-Identifier: Apache-2.0
"""Phases that run away from those who wait for them, arrivals by threads that have dropped out, and what is said of both."""
import numpy as np
import pytest

import hopperlab as hl
from support.emulated import SCHEDULES, WRAPPERS, lines_with, told

pytestmark = pytest.mark.emulator_only
EVERY = (*SCHEDULES, "late-copies", "late-wgmma")


def launch(source, schedule, block=64, seed=1, **values):
    """The session, and {(case, line, other line)}, of errors and warnings."""
    kernel = hl.RawModule(code=WRAPPERS + source, options=tuple(f"-D{k}={v}" for k, v in values.items()), backend="emulator").get_function("k")
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as session:
        kernel((1,), (block,), (np.arange(512, dtype=np.uint32) % 7, np.zeros(512, np.uint32)))
    return session, {(h.case, h.where.line, h.other and h.other.line) for h in [*session.hazards, *session.warnings]}


def line(text, source):
    (found,) = lines_with(text, source=source)
    return found


RING = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ unsigned tab[SLOTS][32]; __shared__ mbarrier_t ready[SLOTS], done[SLOTS]; unsigned l = threadIdx.x % 32;
    if (threadIdx.x == 0) for (int s = 0; s < SLOTS; s++) { mbarrier_init(&ready[s], 32); mbarrier_init(&done[s], 32); }
    __syncthreads();
    if (threadIdx.x >= 32) for (int r = 0; r < N; r++) {
        if (r >= SLOTS + LATE) mbarrier_wait_parity(&done[r % SLOTS], (r / SLOTS + 1) & 1);
        tab[r % SLOTS][l] = r * 100 + l;
        mbarrier_arrive(&ready[r % SLOTS]);                     // fills
    }
    else for (int r = 0; r < N; r++) {
        mbarrier_wait_parity(&ready[r % SLOTS], r / SLOTS & 1); // waits
        out[r * 32 + l] = tab[r % SLOTS][31 - l];
        mbarrier_arrive(&done[r % SLOTS]);                      // hands back
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("slots", [1, 2])
def test_a_producer_without_its_wait_for_empty_slots_runs_ahead(slots, schedule):
    """The phases that it ends have not waited for the consumer: that is said, of those that have been seen, and of those that it waits for ever after."""
    for n in (2, 3, 6):
        right, found = launch(RING, schedule, N=n, SLOTS=slots, LATE=0)
        assert not found, told(right)
    for n in (3, 4, 5, 7):
        session, found = launch(RING, schedule, N=n * slots, SLOTS=slots, LATE=100)
        text = "\n".join(str(h) for h in session.hazards)
        assert ("deadlock", line("// waits", RING), None) in found and "still wait for phase" in text, told(session)
        assert "whoever should arrive has ended" not in text, text
        if n % 2:
            assert ("phase-overrun", line("// waits", RING), line("// fills", RING)) in found, told(session)
        assert found <= {("deadlock", line("// waits", RING), None), ("phase-overrun", line("// waits", RING), line("// fills", RING))}, told(session)


IN_TURN = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned c[32]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x;
    if (t == 0) mbarrier_init(&bar, 1);
    __syncthreads();
    if (t < 32) for (int i = 0; i < N; i++) {
        if (t == 0) { mbarrier_arrive_expect_tx(&bar, 128); cp_async_bulk_load(c, in + i * 32, 128, &bar); }
        __syncwarp();
        if (MEET) asm volatile("bar.sync 1, 64;" ::: "memory");
        mbarrier_wait_parity(&bar, 1);                          // may pass while the phase before still runs
        __syncwarp();
    } else for (int i = 0; i < N; i++) {
        mbarrier_wait_parity(&bar, 0);
        unsigned v = c[t % 32];
        fence_proxy_async_shared_cta();
        out[i * 32 + t % 32] = v;
        if (MEET) asm volatile("bar.sync 1, 64;" ::: "memory"); else asm volatile("bar.sync 1, 32;" ::: "memory");
        if (t == 32) mbarrier_arrive(&bar);
        __syncwarp();
    }
}"""


@pytest.mark.parametrize("schedule", EVERY)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_wait_that_may_pass_before_its_own_phase(n, schedule):
    """Even where the copy is quick and the phase before is over in time: nothing says so to the thread. Who ends a phase alone knows that it is over."""
    for seed in range(3):
        right, found = launch(IN_TURN, schedule, seed=seed, N=n, MEET=1)
        assert not found, told(right)
        session, found = launch(IN_TURN, schedule, seed=seed, N=n, MEET=0)
        early = ("phase-overrun", line("// may pass", IN_TURN))
        assert early in {one[:2] for one in found} or {"arrives-again", "overwrite-written"} & {one[0] for one in found}, told(session)


HANDS = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ unsigned tab[32]; __shared__ mbarrier_t ready, done; unsigned t = threadIdx.x, l = t % 32;
    if (t == 0) { mbarrier_init(&ready, 32); mbarrier_init(&done, COUNT); }
    __syncthreads();
    if (t >= 32) for (int r = 0; r < 3; r++) {
        if (r) mbarrier_wait_parity(&done, (r - 1) & 1);
        tab[l] = r;
        mbarrier_arrive(&ready);                                // fills
    } else for (int r = 0; r < 3; r++) {
        mbarrier_wait_parity(&ready, r & 1);
        out[r * 32 + l] = tab[l];
        mbarrier_arrive(&done);                                 // hands back
    }
    if (in[0] == 77) mbarrier_arrive(&done);                    // never
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_report_of_a_deadlock_names_the_arrivals_of_that_mbarrier(schedule):
    """Also where all are initialised at one line, and where a compiler has unrolled the loop."""
    session, found = launch(HANDS, schedule, COUNT=33)
    (text,) = (str(h) for h in session.hazards if h.case == "deadlock")
    fills, back, never = (f"kernel.cu:{line(words, HANDS)}" for words in ("// fills", "// hands back", "// never"))
    ended = "in this phase; whoever should arrive has ended, waits itself, or never arrives (arrivals on it:"
    assert f"(ready): 32 more arrivals {ended} {fills}; nobody has come to {never})" in text, text
    assert f"(done): 1 more arrival {ended} {back}; nobody has come to {never})" in text, text
    assert not launch(HANDS, schedule, COUNT=32)[1]


DROPS = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ mbarrier_t bar; __shared__ unsigned tile[64]; unsigned t = threadIdx.x;
    if (t == 0) mbarrier_init(&bar, 64);
    __syncthreads();
    for (int r = 0; r < 4; r++) {
        if (t >= 32 || r == 0) mbarrier_arrive(&bar);
        else if (r == 1) DROP;
        if (t == 3 && r == 1 && TWICE) DROP;                    // drops out again
        if (t == 0 && r == 2 && AGAIN) mbarrier_arrive(&bar);   // arrives nevertheless
        if (t >= 32 || r < 1) mbarrier_wait_parity(&bar, r & 1);
    }
    out[t] = t;
}"""
DROP = r'asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" :: "r"(shared_address(&bar)) : "memory")'


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_who_has_dropped_out_arrives_no_more(schedule):
    drops, arrives, init = line("// drops out again", DROPS), line("// arrives nevertheless", DROPS), line("mbarrier_init(&bar, 64)", DROPS)
    right, found = launch(DROPS.replace("DROP;", DROP + ";"), schedule, AGAIN=0, TWICE=0)
    assert not found, told(right)
    for again, twice, where in ((1, 0, arrives), (0, 1, drops)):
        session, found = launch(DROPS.replace("DROP;", DROP + ";"), schedule, AGAIN=again, TWICE=twice)
        assert ("after-drop", where, init) in found and not {"init-too-few", "arrives-again"} & {one[0] for one in found}, told(session)


BOTH = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned a[64]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x;
    if (t == 0) mbarrier_init(&bar, COUNT);
    __syncthreads();
    if (t == WHO) { mbarrier_arrive_expect_tx(&bar, 256); cp_async_bulk_load(a, in, 256, &bar); }
    mbarrier_arrive(&bar);                                      // everybody
    mbarrier_wait_parity(&bar, 0);
    out[t] = a[t];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("who", [0, 5, 40])
def test_one_thread_announces_bytes_and_all_arrive(who, schedule):
    """It is two arrivals of the pass, not one that comes again."""
    right, found = launch(BOTH, schedule, COUNT=65, WHO=who)
    assert not found, told(right)
    session, found = launch(BOTH, schedule, COUNT=64, WHO=who)
    assert ("init-too-few", line("// everybody", BOTH), line("mbarrier_init", BOTH)) in found and "arrives-again" not in {one[0] for one in found}, told(session)
    assert any("receives 65 a pass" in str(h) for h in session.hazards), told(session)


HOISTED = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ unsigned s[64]; unsigned t = threadIdx.x;
    s[t] = in[t];                                                           // stores
    unsigned a = 0;
    if (t < 32) for (unsigned j = 0; j < s[t ^ 63]; j++) a += in[j];        // one
    else for (unsigned j = 0; j < s[t ^ 63]; j++) a ^= in[j];               // other
    out[t] = a;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_load_that_the_compiler_has_moved_has_a_line_nevertheless(schedule):
    """NVRTC hoists the load in front of the branch, and gives it line 0."""
    session, found = launch(HOISTED, schedule)
    lines = {line("// one", HOISTED), line("// other", HOISTED)}
    assert found and all(case == "race-threads" and {at, there} & lines for case, at, there in found), told(session)
    assert "PTX line" not in "".join(map(str, session.hazards)), told(session)
