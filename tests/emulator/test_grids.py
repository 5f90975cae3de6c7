# SPDX-License-Identifier: Apache-2.0
"""Several grids at once: streams, events, dependent launches. What orders two grids is known; what is missing is named, under every schedule."""
import hopperlab as hl
import numpy as np
import pytest

from support.grid_programs import PROGRAMS

SCHEDULES = ("lazy", "eager", "random")
N = 256
xp = hl.array_module("emulator")

TWO = r"""
extern "C" __global__ void produce(float* y) { int i = blockIdx.x * 128 + threadIdx.x; y[i] = i + 1; }              // WRITE
extern "C" __global__ void consume(const float* y, float* z) { int i = blockIdx.x * 128 + threadIdx.x; z[i] = 2 * y[(i + 7) % 256]; }   // READ
extern "C" __global__ void produce_bulk(float* y) {
    __shared__ __align__(16) float tile[128];
    tile[threadIdx.x] = blockIdx.x * 128 + threadIdx.x + 1;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                     :: "l"(y + blockIdx.x * 128), "r"((unsigned)__cvta_generic_to_shared(tile)) : "memory");
    }
}
extern "C" __global__ void consume_bulk(const float* y, float* z) {
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned long long full;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(y + blockIdx.x * 128), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(bar) : "memory");
    z[blockIdx.x * 128 + threadIdx.x] = 2 * tile[threadIdx.x];
}
"""


def stream(**more):
    return hl.Stream(backend="emulator", **more)


def kernels(source=TWO, *options):
    module = hl.RawModule(code=source, options=options, backend="emulator")
    return [module.get_function(name) for name in module.kernel_names]


def found(run):
    """What a session found, as (kind, case), each once."""
    return sorted({(str(h.kind), h.case) for h in run.hazards})


def line(source, text):
    return next(k for k, row in enumerate(source.splitlines(), 1) if text in row)


def zeros(*shape, dtype=np.float32):
    return xp.zeros(shape or N, dtype)


# --- streams and events -------------------------------------------------------------------------------------------------
def after_event(a, b):
    b.wait_event(a.record())


def after_host(a, b):
    a.synchronize()


def after_device(a, b):
    hl.synchronize("emulator")


def after_event_on_host(a, b):
    a.record().synchronize()


def early_event(a, b):
    """Recorded before the launch: it stands for nothing."""
    b.wait_event(a.early)


def other_way_round(a, b):
    a.wait_event(b.record())


ORDERED = [after_event, after_host, after_device, after_event_on_host]
UNORDERED = [None, early_event, other_way_round]


@pytest.mark.parametrize("how", ORDERED + UNORDERED, ids=lambda f: f.__name__ if f else "nothing")
@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_reader_on_another_stream(schedule, bulk, how):
    produce, consume = kernels()[2:] if bulk else kernels()[:2]
    y, z = zeros(), zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        a, b = stream(), stream()
        a.early = a.record()
        produce((2,), (128,), (y,), stream=a)
        if how is not None:
            how(a, b)
        consume((2,), (128,), (y, z), stream=b)
        hl.synchronize("emulator")
    if how in ORDERED:
        assert found(run) == [] and z[0] == (2 if bulk else 16)
    else:
        assert found(run) == [("race", "race-of-grids")]
        text = str(run.hazards[0])
        assert "consume" in text.split("which")[0] and "produce" in text and "stream.wait_event(event)" in text


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_lines_of_both_grids(schedule):
    produce, consume, *_ = kernels()
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        produce((2,), (128,), (y := zeros(),), stream=stream())
        consume((2,), (128,), (y, zeros()), stream=stream())
    (race,) = run.hazards
    assert (race.where.line, race.other.line) == (line(TWO, "// READ"), line(TWO, "// WRITE")) and race.array.startswith("argument 1")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("event", [False, True])
def test_overwriting_what_another_stream_reads(schedule, event):
    """The reader comes first; the writer behind it needs the event as well."""
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        a, b = stream(), stream()
        with a:
            produce((2,), (128,), (y,))
            consume((2,), (128,), (y, z))
        if event:
            b.wait_event(a.record())
        else:
            b.wait_event(hl.Event("emulator"))                    # never recorded: nothing to wait for
        produce((2,), (128,), (y,), stream=b)
        hl.synchronize("emulator")
    assert found(run) == ([] if event else [("race", "race-of-grids")])
    assert event or {h.facts["other_verb"] for h in run.hazards} == {"read", "wrote"}


MANY = r"""
extern "C" __global__ void add(int* total) { atomicAdd(total, 1); }
extern "C" __global__ void read(const int* total, int* out) { out[blockIdx.x * 32 + threadIdx.x] = *total; }
extern "C" __global__ void write(int* total) { if (blockIdx.x == 0 && threadIdx.x == 0) *total = 7; }
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("left_out", [None, 0, 1, 2])
@pytest.mark.parametrize("first, last", [("add", "read"), ("add", "write"), ("read", "write")])
def test_every_one_of_several_streams_counts(schedule, left_out, first, last):
    """Three streams add to (or read) a word; who comes after all three waits for all three."""
    kernel = dict(zip(("add", "read", "write"), kernels(MANY)))
    total, out = zeros(1, dtype=np.int32), zeros(64, dtype=np.int32)
    args = {"add": lambda: (total,), "read": lambda: (total, zeros(64, dtype=np.int32)), "write": lambda: (total,)}
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        streams, end = [stream() for _ in range(3)], stream()
        for number, s in enumerate(streams):
            kernel[first]((2,), (32,), args[first](), stream=s)
            if number != left_out:
                end.wait_event(s.record())
        kernel[last]((1,), (32,), (total, out)[:1 + (last == "read")], stream=end)
        hl.synchronize("emulator")
    assert found(run) == ([] if left_out is None else [("race", "race-of-grids")])
    assert left_out is None or f"{first} (launch {left_out + 1})" in str(run.hazards[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_stream_orders_its_launches(schedule):
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run, stream() as s:
        for _ in range(3):
            produce((2,), (128,), (y,))
            consume((2,), (128,), (y, z))
        assert s.done or not s.done
        assert (z.get() == 2 * ((np.arange(N) + 7) % N + 1)).all()
    assert found(run) == [] and run.launches == 6


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_events_carry_what_came_before_them(schedule):
    """a -> b by one event, b -> c by another: c knows a."""
    produce, consume, *_ = kernels()
    y, z, w = zeros(), zeros(), zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        a, b, c = stream(), stream(), stream()
        produce((2,), (128,), (y,), stream=a)
        after_event(a, b)
        consume((2,), (128,), (y, z), stream=b)
        after_event(b, c)
        consume((2,), (128,), (y, w), stream=c)
        c.synchronize()
        assert (w.get() == z).all()                                # c's stream has waited for all
    assert found(run) == []


@pytest.mark.parametrize("blocking", [False, True])
def test_the_default_stream(blocking):
    """Launches without a stream run at once, and are ordered with blocking streams alone."""
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate(hazards="collect") as run:
        s = stream(non_blocking=not blocking)
        produce((2,), (128,), (y,))
        assert y[0] == 1
        consume((2,), (128,), (y, z), stream=s)
        produce((2,), (128,), (y,))
        hl.synchronize("emulator")
    assert found(run) == ([] if blocking else [("race", "race-of-grids")])


def test_launches_without_streams_are_as_they_were():
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate() as run:
        produce((2,), (128,), (y,))
        consume((2,), (128,), (y, z))
        assert z[0] == 16 and run.launches == 2 and len(run.counters.by_launch()) == 2


def test_a_late_stream_is_not_too_late():
    """The race shows although the first grid was over long before the second began: luck does not count."""
    produce, consume, *_ = kernels()
    y, z, other = zeros(), zeros(), zeros()
    with hl.emulate(hazards="collect") as run:
        a, b = stream(), stream()
        produce((2,), (128,), (y,), stream=a)
        produce((2,), (128,), (other,), stream=b)
        b.synchronize()
        consume((2,), (128,), (y, z), stream=b)
        b.synchronize()
        a.synchronize()
    assert found(run) == [("race", "race-of-grids")]


# --- the host -----------------------------------------------------------------------------------------------------------
READS = {"get": lambda y: y.get(), "asnumpy": hl.asnumpy, "xp.asnumpy": lambda y: xp.asnumpy(y), "a view": lambda y: y[5:9].get()}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("wait", ["nothing", "other event", "stream", "event", "device", "in the stream"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_host_reads(schedule, wait, read):
    produce, *_ = kernels()
    y = zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        s, other = stream(), stream()
        produce((2,), (128,), (y,), stream=s)
        event = s.record()
        if wait == "in the stream":
            with s:
                READS[read](y)
        else:
            {"nothing": lambda: None, "other event": other.record().synchronize, "stream": s.synchronize, "event": event.synchronize,
             "device": lambda: hl.synchronize("emulator")}[wait]()
            READS[read](y)
    late = wait in ("nothing", "other event")
    assert found(run) == ([("read-before-arrival", "host-read-too-early")] if late else [])
    if late:
        assert run.hazards[0].where.line == line(TWO, "// WRITE") and "stream.synchronize()" in str(run.hazards[0])


def test_the_host_reads_and_writes_what_nobody_else_does():
    produce, consume, *_ = kernels()
    y, z, mine = zeros(), zeros(), zeros()
    with hl.emulate(hazards="collect") as run:
        s = stream()
        produce((2,), (128,), (y,), stream=s)
        consume((2,), (128,), (y, z), stream=s)
        mine.set(np.ones(N, np.float32))
        assert mine.get()[0] == 1
        s.synchronize()
    assert found(run) == [] and z[0] == 16


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_host_overwrites_what_a_grid_reads(schedule, waits):
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        s = stream()
        produce((2,), (128,), (y,), stream=s)
        s.synchronize()
        consume((2,), (128,), (y, z), stream=s)
        if waits:
            s.synchronize()
        y.set(np.zeros(N, np.float32))
        s.synchronize()
    assert found(run) == ([] if waits else [("race", "host-write-too-early")])


def test_hazards_are_raised_where_the_host_waits():
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    a, b = stream(), stream()
    produce((2,), (128,), (y,), stream=a)
    consume((2,), (128,), (y, z), stream=b)
    with pytest.raises(hl.HazardError, match="nothing orders the two grids"):
        hl.synchronize("emulator")
    produce((2,), (128,), (y,), stream=a)
    a.synchronize()
    assert y.get()[3] == 4


def test_the_end_of_a_block_waits():
    produce, *_ = kernels()
    y = zeros()
    with hl.emulate() as run:
        produce((2,), (128,), (y,), stream=stream())
        assert y[0] == 0 and run.launches == 0
    assert y[0] == 1 and run.launches == 1


def test_a_block_that_raises_gives_its_launches_up():
    produce, *_ = kernels()
    y = zeros()
    with pytest.raises(KeyError), hl.emulate():
        produce((2,), (128,), (y,), stream=stream())
        raise KeyError
    assert y[0] == 0
    produce((2,), (128,), (y,))
    assert y[0] == 1


# --- dependent launches -------------------------------------------------------------------------------------------------
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


# --- grids that run side by side ------------------------------------------------------------------------------------------
SIDE = r"""
extern "C" __global__ void turn(volatile int* mine, volatile int* other, int* data, int me, int rounds) {
    for (int r = 0; r < rounds; r++) {
        while (*mine <= r) {}
        __threadfence();
        data[0] = data[0] * 3 + me;
        if (FENCE) __threadfence();
        *other = r + 1 + me;
    }
}
extern "C" __global__ void raise_flag(volatile int* flag) { __threadfence(); *flag = 1; }
extern "C" __global__ void watch_flag(volatile int* flag, int* out) {
    extern __shared__ int s[];
    if (threadIdx.x == 0) while (*flag == 0) {}
    out[blockIdx.x] = 5;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fence", [1, 0])
def test_two_grids_hand_a_word_back_and_forth(schedule, fence):
    turn, *_ = kernels(SIDE, f"-DFENCE={fence}")
    flags, data = xp.array([1, 0], np.int32), zeros(1, dtype=np.int32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        for me in (0, 1):
            turn((1,), (1,), (flags[me:me + 1], flags[1 - me:2 - me], data, np.int32(me), np.int32(4)), stream=stream())
        hl.synchronize("emulator")
    expected = 0
    for step in range(8):
        expected = expected * 3 + step % 2
    assert data[0] == expected and found(run) == ([] if fence else [("race", "race-of-grids")])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_grid_may_wait_for_one_that_is_launched_later(schedule):
    _, raise_flag, watch_flag = kernels(SIDE, "-DFENCE=1")
    flag, other, out = zeros(1, dtype=np.int32), zeros(1, dtype=np.int32), zeros(2, dtype=np.int32)
    with hl.emulate(schedule=schedule) as run:
        a, b = stream(), stream()
        watch_flag((2,), (32,), (flag, out), stream=a)
        raise_flag((1,), (1,), (other,), stream=b)
        b.synchronize()
        assert not a.done
        raise_flag((1,), (1,), (flag,), stream=b)
        a.synchronize()
    assert (out == 5).all() and run.launches == 3


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_waiting_for_what_comes_behind_in_the_same_stream_is_a_deadlock(schedule):
    _, raise_flag, watch_flag = kernels(SIDE, "-DFENCE=1")
    flag, out = zeros(1, dtype=np.int32), zeros(2, dtype=np.int32)
    with pytest.raises(hl.DeadlockError) as error, hl.emulate(schedule=schedule), stream() as s:
        watch_flag((2,), (32,), (flag, out))
        raise_flag((1,), (1,), (flag,))
        s.synchronize()
    assert "raise_flag (launch 2) has not begun" in str(error.value)


@pytest.mark.parametrize("ctas, shared, stuck", [(131, 100_000, False), (132, 100_000, True), (132, 0, False)])
def test_grids_share_the_sms(ctas, shared, stuck):
    """132 CTAs of 200,000 bytes leave no SM with another 100,000."""
    _, raise_flag, watch_flag = kernels(SIDE, "-DFENCE=1")
    flag, out = zeros(1, dtype=np.int32), zeros(132, dtype=np.int32)
    with hl.emulate(hazards="collect", trace=False) as run:
        watch_flag((ctas,), (32,), (flag, out), shared_mem=200_000, stream=stream())
        raise_flag((1,), (1,), (flag,), shared_mem=shared, stream=stream())
        hl.synchronize("emulator")
    assert found(run) == ([("deadlock", "endless-loops")] if stuck else [])
    assert not stuck or "its blocks find no place" in str(run.hazards[0])


# --- the rest of the package ----------------------------------------------------------------------------------------------
def test_explore_sees_grids_that_overlap():
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()

    def launch(event):
        a, b = stream(), stream()
        produce((2,), (128,), (y,), stream=a)
        if event:
            after_event(a, b)
        consume((2,), (128,), (y, z), stream=b)
    assert hl.explore(lambda: launch(True), seeds=4).clean and z[0] == 16
    y[:] = 0
    bad = hl.explore(lambda: launch(False), seeds=4, stop=False)
    assert all(trial.hazards for trial in bad.trials) and any(trial.differences for trial in bad.trials)


def test_a_fault_ends_all():
    produce, *_ = kernels()
    y, small = zeros(), zeros(16)
    with pytest.raises(hl.MemoryFault, match="past the end"), hl.emulate():
        produce((2,), (128,), (y,), stream=stream())
        produce((2,), (128,), (small,), stream=stream())
        hl.synchronize("emulator")
    with hl.emulate(hazards="collect") as run:
        produce((2,), (128,), (small,), stream=stream())
        produce((2,), (128,), (y,), stream=stream())
    assert found(run) == [("out-of-bounds", "fault-out-of-bounds")] and y[0] == 1


def test_a_bound_on_work_counts_all_grids():
    produce, *_ = kernels()
    y = zeros()

    def work(limit):
        with hl.emulate(limit=limit) as run:
            for _ in range(3):
                produce((2,), (128,), (y,), stream=stream())
                hl.synchronize("emulator")
        return run.work
    done = work(10**9)
    assert work(done) == done
    with pytest.raises(hl.BudgetExceeded):
        work(done - 1)


def test_counters_of_each_launch():
    produce, consume, *_ = kernels()
    y, z = zeros(), zeros()
    with hl.emulate() as run, stream():
        produce((2,), (128,), (y,))
        consume((2,), (128,), (y, z))
    assert [(name, counts.get("global_store_bytes"), counts.get("global_load_bytes")) for name, counts in run.counters.by_launch()] == [
        ("produce", 1024, None), ("consume", 1024, 1024)]


def test_a_stream_of_another_sort_is_refused():
    produce, *_ = kernels()
    with pytest.raises(hl.LaunchError, match="hl.Stream"):
        produce((2,), (128,), (zeros(),), stream=object())
    with pytest.raises(TypeError, match="hl.Event"):
        stream().wait_event(3)


# --- programs that tests/gpu runs as well ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs_are_clean_and_equal_under_every_schedule(name):
    _, program = PROGRAMS[name]
    results = []
    for schedule in SCHEDULES:
        with hl.emulate(schedule=schedule, seed=5):
            results.append(program("emulator"))
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))
    assert all(array.any() for array in results[0])
