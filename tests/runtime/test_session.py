# SPDX-License-Identifier: Apache-2.0
"""`hl.emulate`: which session a launch gets, and what stays in it."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime import session

# Thread 32 waits for a barrier that nobody else reaches.
STUCK = """extern "C" __global__ void stuck(int* a) {
    __shared__ unsigned long long barrier;
    unsigned address = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 2;" :: "r"(address) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(address) : "memory");
    unsigned done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                               : "=r"(done) : "r"(address) : "memory");
    a[threadIdx.x] = 1;
}
"""
FINE = 'extern "C" __global__ void fine(int* a) { a[threadIdx.x] = 1; }'


@pytest.fixture(scope="module")
def fine():
    return hl.RawModule(code=FINE, backend="emulator").get_function("fine")


@pytest.fixture(scope="module")
def stuck():
    return hl.RawModule(code=STUCK, backend="emulator", name="stuck.cu").get_function("stuck")


def test_outside_there_is_no_session():
    assert session.current() is None


def test_blocks_nest_and_end_even_after_an_error():
    with hl.emulate(schedule="eager") as outer:
        with pytest.raises(KeyError), hl.emulate(schedule="random", seed=3) as inner:
            assert session.current() is inner and (inner.schedule, inner.seed) == ("random", 3)
            raise KeyError
        assert session.current() is outer
    assert session.current() is None


def test_launches_of_a_block_add_up(fine):
    with hl.emulate(hazards="collect") as run:
        fine((1,), (32,), (np.zeros(32, np.int32),))
        fine((1,), (32,), (np.zeros(32, np.int32),))
    assert run.launches == 2 and run.hazards == []
    assert run.counters is not None and run.timeline is not None


@pytest.mark.parametrize("kwargs, word", [({"schedule": "late"}, "schedule"), ({"hazards": "ignore"}, "hazards")])
def test_unknown_choices_are_named(kwargs, word):
    with pytest.raises(ValueError, match=word):
        with hl.emulate(**kwargs):
            pass


def test_a_deadlock_is_raised_and_explained(stuck):
    with pytest.raises(hl.DeadlockError) as caught:
        stuck((1,), (32,), (np.zeros(32, np.int32),))
    text = str(caught.value)
    assert "deadlock" in text and "stuck.cu" in text
    shown = caught.value._render_traceback_()
    assert len(shown) == 1 and "".join(shown[0].split()) == "DeadlockError:" + "".join(text.split()), "the message alone, no frames; lines broken between words"
    assert max(map(len, shown[0].split("\n"))) <= 100


def test_collected_hazards_raise_nothing(stuck):
    with hl.emulate(hazards="collect") as run:
        stuck((1,), (32,), (np.zeros(32, np.int32),))
    assert [h.kind for h in run.hazards] == ["deadlock"]
