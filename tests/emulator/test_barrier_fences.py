# SPDX-License-Identifier: Apache-2.0
"""Relaxed arrivals and waits of barriers, with fences and without: a fence before the one, or behind the other, orders ordinary accesses. Each has a wrong twin."""
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, run, told

MBARRIER = r"""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    unsigned at = (unsigned)__cvta_generic_to_shared(&full);
    if (t == 0) mbarrier_init(&full, 64);
    __syncthreads();
    if (FENCE == 4) asm volatile("fence.acq_rel.cta;" ::: "memory");                            // before the store: too early
    s[t] = x[t];                                                                                // the store
    if (FENCE == 1 || FENCE == 6) asm volatile("fence.acq_rel.cta;" ::: "memory");
    if (FENCE == 2) __threadfence();
    if (FENCE == 3 && t < 32) asm volatile("fence.acq_rel.cta;" ::: "memory");                  // one warp of two
    if (FENCE == 5 || FENCE == 7) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
    else if (FENCE == 8) {
        asm volatile("fence.acq_rel.cta;" ::: "memory");
        asm volatile("mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
    } else asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
    if (FENCE >= 5 && FENCE != 8)
        asm volatile("{ .reg .pred p;\nL%=: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%0], 0;\n@!p bra L%=;\n}" :: "r"(at) : "memory");
    else mbarrier_wait_parity(&full, 0);
    if (FENCE == 5 || FENCE == 6) asm volatile("fence.acq_rel.cta;" ::: "memory");              // behind the wait
    y[t] = s[63 - t];                                                                           // the load
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("fence", "right"), [(0, False), (1, True), (2, True), (3, False), (4, False), (5, True), (6, True), (7, False), (8, False)])
def test_fences_beside_relaxed_operations_of_an_mbarrier(fence, right, schedule):
    """None; before the arrival, of the CTA's scope and wider; of some writers; too early; behind a relaxed wait; on both sides; a relaxed wait alone; a fence narrower
    than the arrival."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    session = run(MBARRIER, (x, y), block=(64,), schedule=schedule, options=(f"-DFENCE={fence}",))
    assert kinds(session) == ([] if right else ["race"]), told(session)
    for hazard in session.hazards:
        assert {hazard.where.line, hazard.other.line} == lines_with("// the store", source=MBARRIER) | lines_with("// the load", source=MBARRIER)
    assert (y == x[::-1]).all()


CLUSTER = r"""
extern "C" __global__ void __cluster_dims__(2) k(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    unsigned mine = (unsigned)__cvta_generic_to_shared(&s[63 - t]), theirs;
    s[t] = x[64 * blockIdx.x + t];                                                              // the store
    if (FENCE == 1) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    if (FENCE == 2) asm volatile("fence.cluster.acq_rel;" ::: "memory");                        // as the PTX ISA's example has it
    if (FENCE == 3) asm volatile("fence.acq_rel.cta;" ::: "memory");                            // of too narrow a scope
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"(blockIdx.x ^ 1));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(y[64 * blockIdx.x + t]) : "r"(theirs) : "memory");       // the load
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("fence", "right"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_fence_before_a_relaxed_arrival_of_a_cluster(fence, right, schedule):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    session = run(CLUSTER, (x, y), grid=(2,), block=(64,), schedule=schedule, options=(f"-DFENCE={fence}",))
    assert kinds(session) == ([] if right else ["race"]), told(session)
    assert (y.reshape(2, 64)[::-1, ::-1] == x.reshape(2, 64)).all()


def test_what_a_race_says_of_relaxed_operations_names_arrivals_and_waits_alone():
    """expect_tx knows no other form, and orders nothing."""
    announces = 'if (t == 0) asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 0;" :: "r"(at) : "memory");'
    source = MBARRIER.replace("s[t] = x[t];", f"{announces}\n    s[t] = x[t];")
    for fence, named in ((0, True), (7, True)):
        (hazard,) = run(source, (np.zeros(64, np.float32), np.zeros(64, np.float32)), block=(64,), options=(f"-DFENCE={fence}",)).hazards
        assert ("fence.acq_rel before the arrival" in str(hazard)) == named
        assert not any(f":{line}" in str(hazard) for line in lines_with("expect_tx", source=source))
