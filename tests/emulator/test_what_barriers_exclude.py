# SPDX-License-Identifier: Apache-2.0
"""Barriers that are asked for what their own rules exclude: bar.red beside bar.sync, bytes out of range, a copy's bytes counted in another CTA."""
import numpy as np
import pytest

import hopperlab as hl
from support.emulated import SCHEDULES, WRAPPERS, lines_with, told

pytestmark = pytest.mark.emulator_only


def launch(source, schedule, grid=1, block=64, **values):
    """The session, and {(case, line, other line)}, of errors and warnings."""
    kernel = hl.RawModule(code=WRAPPERS + source, options=tuple(f"-D{k}={v}" for k, v in values.items()), backend="emulator").get_function("k")
    with hl.emulate(schedule=schedule, seed=1, hazards="collect") as session:
        kernel((grid,), (block,), (np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)))
    return session, {(h.case, h.where.line, h.other and h.other.line) for h in [*session.hazards, *session.warnings]}


def line(text, source):
    (found,) = lines_with(text, source=source)
    return found


VOTES = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    unsigned t = threadIdx.x, r = 0;
    __syncthreads();
    if (t < 32)
        r = __syncthreads_or(in[t] == 3);       // vote
    else {
        OTHER;                                  // meets it
    }
    __syncthreads();
    out[t] = r;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("other", ["__syncthreads()", 'asm volatile("bar.arrive 0, 64;" ::: "memory")'])
def test_a_vote_beside_a_plain_barrier(other, schedule):
    """Another kind of vote is none of this; one barrier may be used for both in turn."""
    right, found = launch(VOTES, schedule, OTHER="r = __syncthreads_and(1)")
    assert not found, told(right)
    session, found = launch(VOTES, schedule, OTHER=other)
    ends = line("// vote", VOTES), line("// meets it", VOTES)
    mixed = [one for one in found if one[0] == "red-beside-sync"]
    assert mixed and mixed[0][1:] in (ends, ends[::-1]), told(session)


BYTES = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned a[64]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x;
    if (t == 0) mbarrier_init(&bar, 2);
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&bar, FIRST);         // first
        mbarrier_arrive_expect_tx(&bar, SECOND);        // second
        cp_async_bulk_load(a, in, 256, &bar);
    }
    mbarrier_wait_parity(&bar, 0);
    out[t] = a[t];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bytes_that_a_count_cannot_hold(schedule):
    for first, second in (("256u", "0u"), ("0u", "256u"), ("240u", "16u")):
        right, found = launch(BYTES, schedule, FIRST=first, SECOND=second)
        assert not found, told(right)
    for first, second, where, words in (("272u", "0xfffffff0u", "// second", "-16 (as .u32: 4294967280) bytes"), ("0xfffffff0u", "272u", "// first", "-16 "),
                                        ("1048576u", "0u", "// first", "announces 1048576 bytes"), ("1048575u", "1u", "// second", "1048576 bytes are announced")):
        session, found = launch(BYTES, schedule, FIRST=first, SECOND=second)
        told_of = [h for h in session.hazards if h.case == "expect-range"]
        assert [h.where.line for h in told_of] == [line(where, BYTES)] and words in str(told_of[0]), told(session)
        assert all(h.case in ("expect-range", "deadlock") and "42949672" not in str(h).replace("as .u32: 4294967280", "") for h in session.hazards), told(session)


STORES = """#include <hopperlab/cluster.cuh>
extern "C" __global__ void __cluster_dims__(2) k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned a[32]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x, me = cluster_ctarank();
    a[t] = 0;
    if (t == 0) { mbarrier_init(&bar, 1); mbarrier_arrive_expect_tx(&bar, 128); }
    barrier_cluster_arrive(); barrier_cluster_wait();
    unsigned to = mapa_shared_cluster(&a[t], me ^ TO), counts = mapa_shared_cluster(&bar, me ^ COUNTS);
    asm volatile(OP " [%0], %1, [%2];" :: "r"(to), "r"(in[t]), "r"(counts) : "memory");          // sends
    mbarrier_wait_parity(&bar, 0);
    barrier_cluster_arrive(); barrier_cluster_wait();
    out[me * 32 + t] = a[t];
    barrier_cluster_arrive(); barrier_cluster_wait();
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("op", ["st.async.shared::cluster.mbarrier::complete_tx::bytes.u32",
                                "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"])
def test_a_store_and_the_mbarrier_that_counts_it_are_in_one_cta(op, schedule):
    """That of a reduction is another CTA than its thread's; a store may go to its own."""
    sends, reduces = line("// sends", STORES), op.startswith("red")
    for to, counts, case in ((1, 1, None), (0, 0, "async-own" if reduces else None), (1, 0, "async-apart"), (0, 1, "async-apart")):
        session, found = launch(STORES, schedule, 2, 32, OP=f'"{op}"', TO=to, COUNTS=counts)
        named = {one for one in found if one[0].startswith("async-")}
        assert named == (set() if case is None else {(case, sends, None)}), told(session)
        assert case or not found, told(session)
