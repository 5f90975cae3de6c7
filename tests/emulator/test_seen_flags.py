# SPDX-License-Identifier: Apache-2.0
"""A flag that was waited for is set back by a plain store: who saw the value comes after the write that left it (PTX ISA 8.9.5). Each has a wrong twin."""
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, run, told

FLAG = r"""
extern "C" __global__ void k(int* flag, int* data) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            data[0] = 5;
            __threadfence();
            if (RAISE == 0) *(volatile int*)flag = 1;                                               // raised
            if (RAISE == 1) asm volatile("red.relaxed.gpu.global.add.s32 [%0], 1;" :: "l"(flag) : "memory");        // raised
            if (RAISE == 2) asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory");             // raised
            if (RAISE == 3) atomicExch(flag, 1);                                                    // raised
        }
    } else {
        if (threadIdx.x == 0 && WAITS) while (!*(volatile int*)flag) {}
        __threadfence();
        if (MEETS) __syncthreads();
        if (WAITS) data[1 + threadIdx.x] = data[0];
        if (threadIdx.x == BY) *flag = 0;                                                           // set back
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("by", [0, 40])
@pytest.mark.parametrize("how", range(4))
def test_a_flag_that_was_seen_may_be_set_back(how, by, schedule):
    """By the thread that waited, or by one that has met it."""
    flag, data = np.zeros(1, np.int32), np.zeros(65, np.int32)
    session = run(FLAG, (flag, data), grid=(2,), block=(64,), schedule=schedule, options=(f"-DRAISE={how}", f"-DBY={by}", "-DWAITS=1", "-DMEETS=1"))
    assert kinds(session) == [] and flag[0] == 0 and (data == 5).all(), told(session)


@pytest.mark.parametrize("how", range(4))
def test_a_flag_that_nobody_saw_may_not(how):
    """Set back without a look."""
    session = run(FLAG, (np.zeros(1, np.int32), np.zeros(65, np.int32)), grid=(2,), block=(64,), options=(f"-DRAISE={how}", "-DBY=0", "-DWAITS=0", "-DMEETS=1"))
    assert kinds(session) == ["race"], told(session)
    assert {line for h in session.hazards for line in (h.where.line, h.other.line)} <= lines_with("// set back", source=FLAG) | lines_with("// raised", source=FLAG)


def test_nor_by_a_thread_that_has_not_met_the_one_that_saw():
    session = run(FLAG, (np.zeros(1, np.int32), np.zeros(65, np.int32)), grid=(2,), block=(64,), options=("-DRAISE=0", "-DBY=40", "-DWAITS=1", "-DMEETS=0"))
    assert "race" in kinds(session) and any(h.where.line in lines_with("// set back", source=FLAG) for h in session.hazards), told(session)


TURNS = r"""
extern "C" __global__ void k(int* turn, int* data) {
    int b = blockIdx.x, now;
    do asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory"); while (now != b);
    data[0] += 1;
    if (b == gridDim.x - 1) { turn[0] = 0; return; }
    __threadfence();
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], 1;" :: "l"(turn) : "memory");
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_last_of_many_turns_sets_the_counter_back(schedule):
    """Locks of a product split along k: each block adds to the counter that it has waited for, the last one empties it."""
    turn, data = np.zeros(1, np.int32), np.zeros(1, np.int32)
    session = run(TURNS, (turn, data), grid=(5,), block=(1,), schedule=schedule)
    assert kinds(session) == [] and turn[0] == 0 and data[0] == 5, told(session)


@pytest.mark.parametrize(("writes", "reads", "found"), [("gpu", "gpu", []), ("cta", "gpu", ["race"]), ("gpu", "cta", ["race"])])
def test_who_sees_a_flag_of_another_block_does_so_with_a_scope_that_holds_both(writes, reads, found):
    source = r"""
extern "C" __global__ void k(int* flag) {
    int seen;
    if (blockIdx.x == 0) {
        __threadfence();
        asm volatile("st.relaxed.WRITES.global.s32 [%0], 1;" :: "l"(flag) : "memory");
    } else {
        do asm volatile("ld.relaxed.READS.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (!seen);
        __threadfence();
        *flag = 0;
    }
}""".replace("WRITES", writes).replace("READS", reads)
    assert kinds(run(source, (np.zeros(1, np.int32),), grid=(2,), block=(1,))) == found
