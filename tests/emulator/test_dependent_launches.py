# SPDX-License-Identifier: Apache-2.0
"""Programmatic dependent launches: what lies before griddepcontrol.wait, and what a wait reaches."""
import hopperlab as hl
import numpy as np
import pytest

from support.grids import N, SCHEDULES, found, kernels, line, stream, xp, zeros

CHAIN = r"""
#define TRIGGER asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
extern "C" __global__ void first(float* y) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (TRIGGERS) TRIGGER;
    y[i] = i + 1;                                                                  // WRITE
}
extern "C" __global__ void second(const float* y, const float* w, float* z) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float scale = w[0], early = 0;
    if (EARLY) early = y[(i + 130) % 256];                                         // EARLY
    if (WAITS == 1) WAIT;
    if (WAITS == 2) { if (threadIdx.x < 32) WAIT; __syncthreads(); }
    if (WAITS == 3) { if (threadIdx.x == 0) WAIT; }
    if (WAITS == 4) { if (blockIdx.x == 0) WAIT; }
    z[i] = scale * y[i] + 0 * early;                                               // READ
}
extern "C" __global__ void overwrite(float* y) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (WAITS == 1) WAIT;
    y[i] = -1;
}"""


def chain(schedule, on, trigger=1, early=0, waits=1, dependent=True, between=None):
    first, second, _ = kernels(CHAIN, f"-DTRIGGERS={trigger}", f"-DEARLY={early}", f"-DWAITS={waits}")
    y, z, w = zeros(), zeros(), xp.full(1, 2, np.float32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        s = on()
        first((2,), (128,), (y,), stream=s)
        if between is not None:
            between(s)
        second((2,), (128,), (y, w, z), stream=s, dependent=dependent)
        hl.synchronize("emulator")
    return run, z


ON = {"a stream": stream, "the default stream": lambda: None}
BEFORE_WAIT = ("read-before-arrival", "read-before-grid-wait")


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("trigger", [0, 1])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_dependent_grid_waits(schedule, on, trigger):
    for waits in (1, 2):
        run, z = chain(schedule, ON[on], trigger, waits=waits)
        assert found(run) == [] and (z == 2 * (np.arange(N) + 1)).all()
    for waits, early, where in ((0, 0, "// READ"), (1, 1, "// EARLY"), (3, 0, "// READ"), (4, 0, "// READ")):
        run, z = chain(schedule, ON[on], trigger, early, waits)
        assert found(run) == [BEFORE_WAIT], (waits, early)
        (hazard,) = run.hazards
        assert (hazard.where.line, hazard.other.line) == (line(CHAIN, where), line(CHAIN, "// WRITE"))
        assert "griddepcontrol.wait" in hazard.step and ("has no griddepcontrol.wait" in hazard.step) == (waits == 0)


@pytest.mark.parametrize("on", ON)
def test_what_makes_a_wait_needless(on):
    assert found(chain("lazy", ON[on], waits=0, dependent=False)[0]) == []
    assert found(chain("lazy", ON[on], waits=0, between=lambda s: hl.synchronize("emulator"))[0]) == []


def test_lazy_lets_the_dependent_grid_come_too_early():
    assert (chain("lazy", stream, waits=0)[1] == 0).all() and (chain("eager", stream, waits=0)[1][:1] == 2).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("waits", [0, 1])
def test_writing_before_the_wait(schedule, waits):
    first, _, overwrite = kernels(CHAIN, "-DTRIGGERS=1", "-DEARLY=0", f"-DWAITS={waits}")
    y = zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run, stream():
        first((2,), (128,), (y,))
        overwrite((2,), (128,), (y,), dependent=True)
    assert found(run) == ([] if waits else [("race", "race-before-grid-wait")])
    assert not waits or (y == -1).all()


THREE = r"""
#define TRIGGER asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
extern "C" __global__ void a(float* x) { TRIGGER; x[threadIdx.x] = 1; }
extern "C" __global__ void b(float* y) { if (MIDDLE == 2) WAIT; TRIGGER; if (MIDDLE == 1) WAIT; y[threadIdx.x] = 2; }
extern "C" __global__ void c(const float* x, const float* y, float* z) {
    float early = EARLY ? x[threadIdx.x] : 0;
    WAIT;
    z[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x] + 0 * early;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("middle, early, clean", [(0, 0, False), (1, 0, True), (2, 0, True), (1, 1, False), (2, 1, True)])
def test_a_wait_reaches_only_the_grid_in_front(schedule, middle, early, clean):
    """Through a grid that never waits, the one before it is not known; through one that waits before it lets the next start, it is known from the start."""
    a, b, c = kernels(THREE, f"-DMIDDLE={middle}", f"-DEARLY={early}")
    x, y, z = zeros(), zeros(), zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run, stream():
        a((1,), (128,), (x,))
        b((1,), (128,), (y,), dependent=True)
        c((1,), (128,), (x, y, z), dependent=True)
    assert found(run) == ([] if clean else [BEFORE_WAIT])
    if not middle:
        assert "never runs griddepcontrol.wait itself" in run.hazards[0].step and "b (launch 2)" in run.hazards[0].step


def test_a_launch_that_is_not_dependent_comes_after_the_whole_stream():
    a, b, c = kernels(THREE, "-DMIDDLE=0", "-DEARLY=1")
    x, y, z = zeros(), zeros(), zeros()
    with hl.emulate(hazards="collect") as run, stream():
        a((1,), (128,), (x,))
        b((1,), (128,), (y,), dependent=True)
        c((1,), (128,), (x, y, z))
    assert found(run) == [] and (z[:128] == 3).all()


def test_an_event_stands_for_dependent_grids_too():
    a, b, c = kernels(THREE, "-DMIDDLE=0", "-DEARLY=1")
    x, y, z = zeros(), zeros(), zeros()
    with hl.emulate(hazards="collect") as run:
        one, two = stream(), stream()
        a((1,), (128,), (x,), stream=one)
        b((1,), (128,), (y,), stream=one, dependent=True)
        two.wait_event(one.record())
        c((1,), (128,), (x, y, z), stream=two, dependent=True)           # nobody is in front of it in its stream
    assert found(run) == [] and (z[:128] == 3).all()


PARTLY = r"""
extern "C" __global__ void front(float* y) {
    if (blockIdx.x % 2 == TRIGGERS || TRIGGERS == 2) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    y[blockIdx.x * 128 + threadIdx.x] = blockIdx.x * 128 + threadIdx.x;
}
extern "C" __global__ void behind(const float* y, float* z) {
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned long long full;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        if (WAITS == 1) asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(y + blockIdx.x * 128), "r"(bar) : "memory");
        if (WAITS == 2) asm volatile("griddepcontrol.wait;" ::: "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(bar) : "memory");
    z[blockIdx.x * 128 + threadIdx.x] = 2 * tile[threadIdx.x];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("triggers", [0, 1, 2, 3])
def test_copies_before_the_wait(schedule, triggers):
    """Some blocks in front let the dependents start, the others end: one thread waits before it starts the copy, or comes too early."""
    for waits in (1, 2, 0):
        front, behind = kernels(PARTLY, f"-DTRIGGERS={triggers}", f"-DWAITS={waits}")
        y, z = zeros(512), zeros(512)
        with hl.emulate(schedule=schedule, hazards="collect") as run, stream():
            front((4,), (128,), (y,))
            behind((4,), (128,), (y, z), dependent=True)
        assert found(run) == ([] if waits == 1 else [BEFORE_WAIT])
        assert waits != 1 or (z == 2 * np.arange(512)).all()


ONE_LANE = r"""
extern "C" __global__ void first(float* x) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    x[threadIdx.x] = threadIdx.x + 1;
}
extern "C" __global__ void second(const float* x, float* y) {
    __shared__ unsigned long long there;
    unsigned at = (unsigned)__cvta_generic_to_shared(&there);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 32 + BY) {
        if (WAITS) asm volatile("griddepcontrol.wait;" ::: "memory");
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
    } else if (threadIdx.x < 32) {
        asm volatile("{ .reg .pred p;\nL%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra L%=;\n}" :: "r"(at) : "memory");
        y[threadIdx.x] = x[threadIdx.x];
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("lane", [0, 1, 31])
def test_any_lane_may_wait_for_the_grid_and_tell_the_others(schedule, lane):
    """The other lanes of its warp have ended by then."""
    for waits in (0, 1):
        first, second = (hl.RawModule(code=ONE_LANE, options=(f"-DBY={lane}", f"-DWAITS={waits}")).get_function(name) for name in ("first", "second"))
        x, y = (xp.zeros(64, np.float32) for _ in range(2))
        with hl.emulate(schedule=schedule, hazards="collect") as run:
            s = stream()
            first((1,), (64,), (x,), stream=s)
            second((1,), (64,), (x, y), stream=s, dependent=True)
            hl.synchronize("emulator")
        assert found(run) == ([] if waits else [BEFORE_WAIT]), lane
