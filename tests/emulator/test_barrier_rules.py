# SPDX-License-Identifier: Apache-2.0
"""Barriers that are used against their rules, in orders that happen to go well: named under every schedule, and their clean twins are not."""
import re

import hopperlab as hl
import numpy as np
import pytest
from support.emulated import SCHEDULES, WRAPPERS, run, told
from support.kernel_bodies import BASE, HEAD, MORE, launch

pytestmark = pytest.mark.emulator_only


# what two warps (or three) hand to warp 0; init and arrivals differ
HAND_OVER = """__shared__ mbarrier_t full; __shared__ float tile[128];
if (t == 0) mbarrier_init(&full, COUNT);
__syncthreads();
if (w > 0) {
    tile[t] = x[t];
    __syncwarp();
    if (t % 32 == 0) mbarrier_arrive(&full);
} else { mbarrier_wait_parity(&full, 0); y[t] = tile[32 + t]; }"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warps, count", [(3, 2), (2, 1), (3, 1)])
def test_an_mbarrier_initialised_for_too_few(warps, count, schedule):
    session, found = launch(HAND_OVER.replace("COUNT", str(count)), 32 + 32 * warps, schedule=schedule)
    assert ("init-too-few", 7, 2) in found, told(session)
    words = next(str(h) for h in session.hazards if h.case == "init-too-few")
    assert f"initialised for {count} " in words and f"receives {warps} a pass" in words and f"Initialise it for {warps} arrivals" in words


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warps", [1, 2, 3])
def test_an_mbarrier_initialised_for_all(warps, schedule):
    session, found = launch(HAND_OVER.replace("COUNT", str(warps)), 32 + 32 * warps, schedule=schedule)
    assert not found, told(session)


def test_a_phase_that_went_by_is_told_from_one_that_lacks_arrivals():
    session, found = launch(HAND_OVER.replace("COUNT", "1"), 96)
    words = str(session.hazards[-1])
    assert found[-1][0] == "deadlock" and "phase 2 is running while threads 0 to 31 still wait for phase 0" in words
    assert "initialised for 1 at" in words and "receives 2 arrivals a pass: initialise it for 2" in words and "more arrival" not in words
    assert "mbarrier at shared address 0x" in words and "(full)" in words


RING = """__shared__ mbarrier_t full, empty; __shared__ float tile[96];
if (t == 0) { mbarrier_init(&full, FULL); mbarrier_init(&empty, EMPTY); }
__syncthreads();
for (int i = 0; i < ROUNDS; i++) {
    if (w == 0) {
        if (i) mbarrier_wait_parity(&empty, (i - 1) & 1);
        tile[t] = x[t + i]; __syncwarp();
        if (t == 0) mbarrier_arrive(&full);
    } else {
        mbarrier_wait_parity(&full, i & 1);
        y[t] += tile[t % 32]; __syncwarp();
        if (t % 32 == 0) mbarrier_arrive(&empty);
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("consumers", [1, 2, 3])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_rings_with_the_right_counts_are_clean_and_with_less_are_not(consumers, rounds, schedule):
    body = RING.replace("FULL", "1").replace("ROUNDS", str(rounds))
    session, found = launch(body.replace("EMPTY", str(consumers)), 32 + 32 * consumers, schedule=schedule)
    assert not found, told(session)
    if consumers > 1 and rounds > 1:
        session, found = launch(body.replace("EMPTY", str(consumers - 1)), 32 + 32 * consumers, schedule=schedule)
        assert ("init-too-few", 12, 2) in found, told(session)


BYTES = """__shared__ mbarrier_t full; __shared__ __align__(128) float tile[128];
if (t == 0) mbarrier_init(&full, 1);
__syncthreads();
if (t == 0) {
    mbarrier_arrive_expect_tx(&full, EXPECTED);
    cp_async_bulk_load(tile, x, 256, &full);
    cp_async_bulk_load(tile + 64, x + 64, 256, &full);
}
mbarrier_wait_parity(&full, 0);
y[t] = tile[t] + tile[64 + t];"""


@pytest.mark.parametrize("schedule", [*SCHEDULES, "late-wgmma", "late-copies"])
def test_bytes_that_were_not_announced(schedule):
    session, found = launch(BYTES.replace("EXPECTED", "256"), schedule=schedule)
    assert ("unannounced", 7, 5) in found, told(session)
    session, found = launch(BYTES.replace("EXPECTED", "512"), schedule=schedule)
    assert not found, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_arrivals_of_cp_async_count_by_lanes(schedule):
    body = """__shared__ mbarrier_t full; __shared__ __align__(16) float tile[128];
if (t == 0) mbarrier_init(&full, COUNT);
__syncthreads();
if (w == 0) { cp_async_ca_16(tile + 4 * t, x + 4 * t); ARRIVE }
else { mbarrier_wait_parity(&full, 0); y[t] = tile[t]; }"""
    noinc, plain = "cp_async_mbarrier_arrive_noinc(&full);", "cp_async_mbarrier_arrive(&full); mbarrier_arrive(&full);"
    for arrive, count, clean in ((noinc, 32, True), (noinc, 31, False), (plain, 32, True), (plain, 64, None)):
        session, found = launch(body.replace("COUNT", str(count)).replace("ARRIVE", arrive), schedule=schedule)
        if clean is None:
            assert [case for case, *_ in found] == ["deadlock"] and "cp.async.mbarrier.arrive without .noinc (kernel.cu:" in str(session.hazards[0])
        else:
            assert bool(found) != clean and (clean or found[0] == ("init-too-few", 4, 2)), told(session)


# --- waits that are none, barriers that end --------------------------------------------------------------------------------
WAIT = """__shared__ mbarrier_t full[2]; __shared__ __align__(128) float tile[64];
if (t == 0) mbarrier_init(full + 1, 1);
__syncthreads();
if (t == 0) { mbarrier_arrive_expect_tx(full + 1, 256); cp_async_bulk_load(tile, x, 256, full + 1); }
WAIT
y[t] = tile[t];"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", ["mbarrier_try_wait_parity(full + 1, 0);", "mbarrier_test_wait_parity(full + 1, 0);",
                                  "bool done = mbarrier_try_wait_parity(full + 1, 0); (void)done;"])
def test_a_wait_whose_answer_nobody_reads(wait, schedule):
    session, found = launch(WAIT.replace("WAIT", wait), schedule=schedule)
    assert ("wait-unread", 5, 0) in found and ("read-before-copy", 6, 4) in found, told(session)
    assert "(full[1])" in str(next(h for h in session.hazards if h.case == "wait-unread"))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", ["while (!mbarrier_try_wait_parity(full + 1, 0)) {}", "mbarrier_wait_parity_hint(full + 1, 0, 1000);",
                                  "mbarrier_try_wait_parity(full + 1, 0); mbarrier_wait_parity(full + 1, 0);",      # a hint, and then a wait
                                  "bool first = mbarrier_try_wait_parity(full + 1, 0); if (!first) mbarrier_wait_parity(full + 1, 0);"])
def test_waits_that_are_some(wait, schedule):
    session, found = launch(WAIT.replace("WAIT", wait), schedule=schedule)
    assert not found, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_mbarrier_ends_when_nobody_uses_it_any_more(schedule):
    body = """__shared__ mbarrier_t full;
if (t == 0) mbarrier_init(&full, 1);
__syncthreads();
if (t == 0) mbarrier_arrive(&full);
mbarrier_wait_parity(&full, 0);
MEET
if (t == 0) { mbarrier_inval(&full); *(volatile float*)&full = 1.0f; }"""
    session, found = launch(body.replace("MEET", "__syncthreads();"), schedule=schedule)
    assert not found, told(session)
    session, found = launch(body.replace("MEET", "__syncwarp();"), schedule=schedule)
    assert ("inval-in-use", 7, 5) in found, told(session)


def test_a_word_that_is_no_barrier_now_says_why():
    gone = """__shared__ mbarrier_t full, other;
if (t == 0) { mbarrier_init(&full, 1); mbarrier_init(&other, 1); mbarrier_inval(&full); }
__syncthreads();
mbarrier_arrive(&full);"""
    elsewhere = "__shared__ mbarrier_t full;\nif (t == 0 && blockIdx.x == 0) mbarrier_init(&full, 64);\n__syncthreads();\nmbarrier_arrive(&full);"
    never = "__shared__ mbarrier_t full, other;\nif (t == 0) mbarrier_init(&other, 1);\n__syncthreads();\nmbarrier_arrive(&full);"
    for body, why in ((gone, r"mbarrier.inval has ended the one at shared address \S+ \(full\) \(initialised here: \S+ \(other\)\)"),
                      (elsewhere, r"this block has not initialised the mbarrier \(others have theirs\) at shared address \S+ \(full\) \(initialised here: none\)"),
                      (never, r"no mbarrier was initialised at shared address \S+ \(full\) \(initialised here: \S+ \(other\)\)")):
        session, found = launch(body, grid=2)
        assert found == [("no-barrier", 4, 0)]
        with pytest.raises(hl.emulator.MemoryFault, match=why):
            launch(body, grid=2, hazards="raise")
        assert re.search(why, str(session.hazards[0]))


def test_who_initialises_again_is_told():
    loop = "__shared__ mbarrier_t full;\n#pragma unroll 1\nfor (int i = 0; i < 3; i++) { if (t == 0)\nmbarrier_init(&full, 1); __syncthreads(); }"
    several = "__shared__ mbarrier_t full;\nif (t % 32 == 0)\n\nmbarrier_init(&full, 1);"
    again = "__shared__ mbarrier_t full;\nif (t == 0) mbarrier_init(&full, 1);\n__syncthreads();\nif (t == 0) mbarrier_init(&full, 1);"
    for body, case in ((loop, "init-in-loop"), (several, "init-by-several"), (again, "init-again")):
        session, found = launch(body)
        assert [(c, line) for c, line, _ in found] == [(case, 4)], told(session)


# --- named barriers ----------------------------------------------------------------------------------------------------------
MEET = 'asm volatile("bar.sync %0, 64;" :: "r"(ID) : "memory");'


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("where", ["together", "in branches"])
def test_two_pairs_share_a_named_barrier(where, schedule):
    branches = "if (w < 2) { MEET }\nelse { y[t] = 1; MEET }"
    body = "__shared__ float tile[128];\ntile[t] = x[t];\n" + ("MEET" if where == "together" else branches) + "\ny[t] = tile[t ^ 32];"
    session, found = launch(body.replace("MEET", MEET.replace("ID", "1")), 128, schedule=schedule)
    assert [case for case, *_ in found if case != "race-threads"] == ["barrier-shared"], told(session)
    session, found = launch(body.replace("MEET", MEET.replace("ID", "1 + w / 2")), 128, schedule=schedule)
    assert not found, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("between", ["__syncthreads();", "if (w > 0 && w < 3) asm volatile(\"bar.sync 2, 64;\" ::: \"memory\");"])
def test_pairs_that_come_after_each_other_may_share(between, schedule):
    """Warps 0 and 1 meet, then 2 and 3 at the same barrier: all know that the first are through, or one of them does and tells the other."""
    body = "__shared__ float tile[128];\ntile[t] = x[t];\nif (w < 2) { MEET }\nBETWEEN\nif (w == 2) asm volatile(\"bar.arrive 3, 64;\" ::: \"memory\");\n"
    body += "if (w == 3) asm volatile(\"bar.sync 3, 64;\" ::: \"memory\");\nif (w >= 2) { MEET }\ny[t] = tile[t ^ 32];"
    session, found = launch(body.replace("MEET", MEET.replace("ID", "1")).replace("BETWEEN", between), 128, schedule=schedule)
    assert not found, told(session)


TURNS = """for (int i = 0; i < 4; i++) {
    if (w == 0) { if (i) asm volatile("bar.sync 2, 64;" ::: "memory"); y[t] += 1; asm volatile("bar.arrive 1, 64;" ::: "memory"); }
    else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[t % 32] += 1; if (i < 3) asm volatile("bar.arrive 2, 64;" ::: "memory"); }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_turns_by_named_barriers(schedule):
    session, found = launch(TURNS, schedule=schedule)
    assert not found, told(session)
    session, found = launch(TURNS.replace('if (i) asm volatile("bar.sync 2, 64;" ::: "memory");', ""), schedule=schedule)
    assert any(case == "barrier-shared" for case, *_ in found), told(session)


# --- clusters ----------------------------------------------------------------------------------------------------------------
CLUSTER = ('extern "C" __global__ void __cluster_dims__(2, 1, 1) k(const float* x, float* y) {\n    int t = threadIdx.x, w = t / 32; unsigned rank = '
           'cluster_ctarank();\n')


def in_cluster(body, schedule="lazy", block=32):
    session = run(MORE + CLUSTER + body + "\n}", (np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)), block=(block,), grid=(2,), schedule=schedule)
    return session, [(h.case, *(site.line - BASE if site else 0 for site in (h.where, h.other))) for h in session.hazards]


ARRIVE, AWAIT = 'asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");', 'asm volatile("barrier.cluster.wait.aligned;" ::: "memory");'


def test_cluster_barriers_out_of_turn():
    session, found = in_cluster(f"{ARRIVE}\nif (rank == 0) {{ {ARRIVE} }}\n{AWAIT}")
    assert found[0] == ("cluster-again", 2, 0), told(session)
    session, found = in_cluster(f"if (rank == 0) {{ {ARRIVE} }}\n{AWAIT}")
    assert ("cluster-unarrived", 2, 0) in found, told(session)
    session, found = in_cluster("\n".join([ARRIVE, AWAIT] * 3))
    assert not found, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("waits", [True, False])
def test_st_async_into_a_peer_that_waits_for_its_bytes(waits, schedule):
    """No cluster barrier at the end: who waits for the bytes does not end before they are there."""
    body = f"""__shared__ mbarrier_t full; __shared__ __align__(16) uint4 tile[32];
if (t == 0) {{ mbarrier_init(&full, 1); if (rank == 1) mbarrier_arrive_expect_tx(&full, 512); }}
{ARRIVE} {AWAIT}
if (rank == 0) st_async_v4(mapa_shared_cluster(tile + t, 1), make_uint4(t, t, t, t), mapa_shared_cluster(&full, 1));
else {{ {"mbarrier_wait_parity(&full, 0); y[t] = tile[t].x;" if waits else ""} }}"""
    session, found = in_cluster(body, schedule)
    assert bool(found) != waits, told(session)


def test_the_block_that_is_to_blame_comes_first():
    """Rank 0 waits for its cluster, and rank 1 for an arrival that never comes."""
    body = f"""__shared__ mbarrier_t full;
if (t == 0) mbarrier_init(&full, 1);
{ARRIVE} {AWAIT}
if (rank == 1) mbarrier_wait_parity(&full, 0);
{ARRIVE}
{AWAIT}"""
    session, found = in_cluster(body)
    assert found == [("deadlock", 4, 0)] and session.hazards[0].block == (1, 0, 0), told(session)


# --- loops that never end ------------------------------------------------------------------------------------------------------
ENDLESS = {
    "a wait that always passes": "while (mbarrier_try_wait_parity(&full, 1)) {}",
    "a wait, and something counted in memory": "volatile float* out = y;\nwhile (!mbarrier_try_wait_parity(&full, 0)) out[0] += 1;",
    "a barrier in the loop": "volatile const float* in = x;\nwhile (in[0] == 0) __syncthreads();",
    "a lock": "while (atomicCAS((int*)y, 0, 1) != 0) {}",
    "a lock, one thread a warp, and all meet": "if (t % 32 == 0) while (atomicExch((int*)y, 1) != 0) __nanosleep(20);\n__syncthreads();",
    "a lock that others count": "while (atomicCAS((int*)y, 0, 1) != 0) atomicAdd((int*)y + 1, 1);",
    "a lock warp by warp and lane by lane": "for (int i = 0; i < 32; i++) { if (t % 32 == i) while (atomicCAS((int*)y, 0, 1) != 0) {} __syncwarp(); }",
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
def test_endless_loops_are_named_after_few_rounds(body):
    """Rounds, not seconds: with 300 of them at most, and 20 if so is asked."""
    body = "__shared__ mbarrier_t full;\nif (t == 0) mbarrier_init(&full, 1);\n__syncthreads();\n" + body
    kernel = hl.RawModule(code=WRAPPERS + HEAD + body + "\n}", backend="emulator").get_function("k")
    for budget in (None, 20):
        with hl.emulate(hazards="collect", budget=budget) as session:
            kernel((2,), (64,), (np.zeros(64, np.float32), np.zeros(64, np.float32)))
        assert [h.kind for h in session.hazards if h.kind != "race"] == ["deadlock"], told(session)
        assert max(e.step for e in session.timeline) < (400 if budget is None else 120) if len(session.timeline) else True


LEGAL = {
    "a flag that a later block raises": "if (blockIdx.x == 0) { if (t == 0) { while (!atomicAdd((int*)y, 0)) {} } }\nelse { if (t == 0) { __threadfence(); "
                                        "atomicExch((int*)y, 1); } }\n__syncthreads();",
    "a lock that is released": "if (t == 0) { while (atomicCAS((int*)y, 0, 1) != 0) __nanosleep(10);\nx2[0] += 1; __threadfence(); atomicExch((int*)y, 0); }",
    "a wait with a time hint": "__shared__ mbarrier_t full;\nif (t == 0) mbarrier_init(&full, 32);\n__syncthreads();\nif (w) mbarrier_arrive(&full); else "
                               "mbarrier_wait_parity_hint(&full, 0, 5);",
    "a long loop, and others who wait": "__shared__ mbarrier_t full;\nif (t == 0) mbarrier_init(&full, 1);\n__syncthreads();\n"
                                        "if (t == 32) { float a = x[0];\n#pragma unroll 1\nfor (int i = 0; i < 5000; i++) a = a * 1.5f + 1.0f;\n"
                                        "y[8] = a; mbarrier_arrive(&full); }\nmbarrier_wait_parity(&full, 0);",
    "many rounds of passing waits": "__shared__ mbarrier_t full;\nif (t == 0) mbarrier_init(&full, 1);\n__syncthreads();\n"
                                    "float a = 0;\n#pragma unroll 1\nfor (int i = 0; i < 3000; i++) { mbarrier_wait_parity(&full, 1); a += x[i % 64]; }\n"
                                    "y[t + 8] = a;",
}


@pytest.mark.parametrize("body", LEGAL.values(), ids=LEGAL)
def test_loops_that_end_are_no_deadlock(body):
    body = body.replace("x2[0]", "y[4]")
    for schedule in SCHEDULES:
        session, found = launch(body, grid=4, schedule=schedule)
        assert not [h for h in session.hazards if h.kind == "deadlock"], told(session)


# --- rare forms ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("copy", ["cp_async_cg_16_ignore", "cp_async_ca_16_ignore"])
def test_a_copy_that_ignores_its_source_writes_zeros(copy, schedule):
    body = f"""__shared__ __align__(16) float tile[256];
{copy}(tile + 4 * t, t % 3 ? x + 4 * t : (const float*)16, t % 3 == 0);
cp_async_wait_all();
__syncthreads();
for (int i = t; i < 256; i += 64) y[i] = tile[i];"""
    y = np.full(4096, -1, np.float32)
    session = run(HEAD + body + "\n}", (np.arange(4096, dtype=np.float32), y), block=(64,), schedule=schedule)
    wanted = np.where(np.arange(256) // 4 % 3 == 0, 0, np.arange(256))
    assert (y[:256] == wanted).all() and not session.hazards, told(session)


def test_arrive_drop_with_bytes_lowers_the_count_too():
    body = """__shared__ mbarrier_t b;
if (t) return;
mbarrier_init(&b, 2);
mbarrier_arrive_drop_expect_tx(&b, 16);
mbarrier_complete_tx(&b, 16);
mbarrier_arrive(&b);
y[0] = mbarrier_test_wait_parity(&b, 0);
mbarrier_arrive(&b);
y[1] = mbarrier_test_wait_parity(&b, 1);"""
    y = np.zeros(4096, np.float32)
    session = run(HEAD + body + "\n}", (np.zeros(4096, np.float32), y))
    assert y[:2].tolist() == [1, 1] and not session.hazards, told(session)
