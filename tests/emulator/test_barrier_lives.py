# SPDX-License-Identifier: Apache-2.0
"""mbarriers that mbarrier.inval has ended and mbarrier.init begins again: what was known of phases in one life says nothing of those in the next."""
import numpy as np
import pytest

import hopperlab as hl
from support.emulated import SCHEDULES, WRAPPERS, lines_with, told

pytestmark = pytest.mark.emulator_only
END = r'asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"((unsigned)__cvta_generic_to_shared(&bar)) : "memory");'
BULK = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned a[LIVES][64]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x;
    for (int i = 0; i < LIVES; i++) {
        unsigned* tile = a[SAME ? 0 : i];
        if (t == 0) mbarrier_init(&bar, 1);
        __syncthreads();
        if (t == 0) {
            mbarrier_arrive_expect_tx(&bar, 256);
            cp_async_bulk_load(tile, in + i * 64, 256, &bar);       // the copy
        }
        if (i < BAD || WHO >= 0 && t != WHO) mbarrier_wait_parity(&bar, PARITY);
        out[i * 64 + t] = tile[t ^ 1];                              // the read
        fence_proxy_async_shared_cta();
        __syncthreads();
        mbarrier_wait_parity(&bar, 0);
        __syncthreads();
        if (t == 0) """ + END + """
    }
}"""
PIECES = """#include <hopperlab/cluster.cuh>
extern "C" __global__ void __cluster_dims__(2) k(const unsigned* in, unsigned* out) {
    __shared__ __align__(16) unsigned a[3][32]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x, peer = cluster_ctarank() ^ 1;
    for (int i = 0; i < 3; i++) {
        if (t == 0) { mbarrier_init(&bar, 1); mbarrier_arrive_expect_tx(&bar, 128); }
        barrier_cluster_arrive(); barrier_cluster_wait();
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                     :: "r"(mapa_shared_cluster(&a[i][t], peer)), "r"(t + i), "r"(mapa_shared_cluster(&bar, peer)) : "memory");   // the copy
        if (i < BAD) mbarrier_wait_parity(&bar, 0);
        out[(peer * 3 + i) * 32 + t] = a[i][t];                     // the read
        mbarrier_wait_parity(&bar, 0);
        barrier_cluster_arrive(); barrier_cluster_wait();
        if (t == 0) """ + END + """
    }
}"""
FROM_BEFORE = """extern "C" __global__ void k(const unsigned* in, unsigned* out) {
    __shared__ unsigned a[32]; __shared__ mbarrier_t bar; unsigned t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        if (t == 0) mbarrier_init(&bar, 32);
        __syncthreads();
        if (t < 32) {
            a[t] = i * 10 + t;                                      // the copy
            mbarrier_arrive(&bar);
        } else {
            if (i < BAD) mbarrier_wait_parity(&bar, 0);
            out[i * 32 + t - 32] = a[t ^ 33];                       // the read
        }
        __syncthreads();
        if (t == 0) """ + END + """
    }
}"""


def launch(source, schedule, grid=1, block=64, **values):
    """The session, and {(case, line, other line)}."""
    kernel = hl.RawModule(code=WRAPPERS + source, options=tuple(f"-D{k}={v}" for k, v in values.items()), backend="emulator").get_function("k")
    with hl.emulate(schedule=schedule, seed=1, hazards="collect") as session:
        kernel((grid,), (block,), (np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)))
    return session, {(h.case, h.where.line, h.other and h.other.line) for h in [*session.hazards, *session.warnings]}


def ends(source):
    """(read-before-copy, line of the read, line of the copy)."""
    (read,), (copy,) = lines_with("// the read", source=source), lines_with("// the copy", source=source)
    return read, copy


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("same", [0, 1])
@pytest.mark.parametrize("lives", [1, 2, 4])
def test_a_copy_in_a_later_life_has_to_be_waited_for(lives, same, schedule):
    """By every thread that reads, whatever it has waited for in the lives before."""
    right, found = launch(BULK, schedule, LIVES=lives, BAD=9, WHO=-1, SAME=same, PARITY=0)
    assert not found, told(right)
    for bad in {0, lives - 1}:
        for who in (-1, 33):
            session, found = launch(BULK, schedule, LIVES=lives, BAD=bad, WHO=who, SAME=same, PARITY=0)
            assert ("read-before-copy", *ends(BULK)) in found, (bad, who, told(session))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_parity_that_is_carried_on_from_the_life_before(schedule):
    """A new life begins with phase 0: a wait for parity 1 passes at once, as on a fresh mbarrier, and tells nothing of the life before."""
    session, found = launch(BULK, schedule, LIVES=2, BAD=9, WHO=-1, SAME=0, PARITY="(i&1)")
    assert ("read-before-copy", *ends(BULK)) in found or "deadlock" in {case for case, *_ in found}, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pieces_from_another_cta(schedule):
    """st.async."""
    right, found = launch(PIECES, schedule, 2, 32, BAD=9)
    assert not found, told(right)
    for bad in (0, 1, 2):
        session, found = launch(PIECES, schedule, 2, 32, BAD=bad)
        assert found == {("read-before-copy", *ends(PIECES))}, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ordinary_stores_and_arrivals(schedule):
    """What arrivals of an earlier life published is known to those who waited in it, and the init comes after them."""
    right, found = launch(FROM_BEFORE, schedule, BAD=9)
    assert not found, told(right)
    for bad in (1, 2):
        session, found = launch(FROM_BEFORE, schedule, BAD=bad)
        assert found == {("race-threads", *ends(FROM_BEFORE))}, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_other_blocks_of_the_same_place_begin_afresh(schedule):
    """More blocks than are resident: a CTA in a place that another one has left knows nothing of its mbarriers."""
    session, found = launch(BULK, schedule, grid=400, LIVES=2, BAD=1, WHO=-1, SAME=0, PARITY=0)
    assert ("read-before-copy", *ends(BULK)) in found, told(session)
