# SPDX-License-Identifier: Apache-2.0
"""Two devices with peer memory: flags of system scope, copies to and from the peer, events between streams of two devices."""
import hopperlab as hl
import numpy as np
import pytest

SCHEDULES = ("lazy", "eager", "random")
N = 128
xp = hl.array_module("emulator")

RAISE = {                                             # how the writer raises the flag: (code, whether other devices see it)
    "release.sys": ('__syncthreads(); if (t == 0) asm volatile("st.release.sys.u32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");', True),
    "fence.sys and volatile": ("__threadfence_system(); __syncthreads(); if (t == 0) *(volatile int*)flag = 1;", True),
    "one fence.sys for all": ("__syncthreads(); if (t == 0) { __threadfence_system(); atomicAdd_system(flag, 1); }", True),
    "release.gpu": ('__syncthreads(); if (t == 0) asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");', False),
    "fence.gpu and volatile": ("__threadfence(); __syncthreads(); if (t == 0) *(volatile int*)flag = 1;", False),
    "atomic of gpu scope": ("__threadfence_system(); __syncthreads(); if (t == 0) atomicAdd(flag, 1);", False),
    "no fence": ("__syncthreads(); if (t == 0) *(volatile int*)flag = 1;", False),
    "flag before data": ("if (t == 0) *(volatile int*)flag = 1; data[t] = t + 1.0f; __threadfence_system();", False),
}
AWAIT = {
    "acquire.sys": ('int v; do asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (v == 0);', True),
    "volatile and fence.sys": ("while (*(volatile int*)flag == 0) {} __threadfence_system();", True),
    "atomic of sys scope": ("while (atomicAdd_system(flag, 0) == 0) {} __threadfence_system();", True),
    "acquire.gpu": ('int v; do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (v == 0);', False),
    "volatile and fence.gpu": ("while (*(volatile int*)flag == 0) {} __threadfence();", False),
    "no fence": ("while (*(volatile int*)flag == 0) {}", False),
}
SOURCE = r"""
extern "C" __global__ void put(float* data, int* flag) {
    int t = threadIdx.x;
    data[t] = t + 1.0f;                                                       // WRITE
    RAISES
}
extern "C" __global__ void take(const float* data, int* flag, float* out) {
    int t = threadIdx.x;
    if (t == 0) { AWAITS }
    __syncthreads();
    out[t] = 3 * data[127 - t];                                               // READ
}"""


def streams(devices):
    """One on each of these devices."""
    made = []
    for device in devices:
        with device:
            made.append(hl.Stream(backend="emulator"))
    return made


def hand_over(source, schedule, late=False, two=True, names=("put", "take")):
    """put on the first device, take on the second (late: the other way round), side by side."""
    module = hl.RawModule(code=source, backend="emulator")
    data, out, flag = xp.zeros(N, np.float32), xp.zeros(N, np.float32), xp.zeros(1, np.int32)
    first, second = hl.devices(2, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        a, b = streams((first, second if two else first))
        launches = [lambda: module.get_function(names[0])((1,), (N,), (data, flag), stream=a),
                    lambda: module.get_function(names[1])((1,), (N,), (data, flag, out), stream=b)]
        for launch in launches[::-1] if late else launches:
            launch()
        hl.synchronize("emulator")
    return run, out


@pytest.mark.parametrize("raises", RAISE)
@pytest.mark.parametrize("awaits", AWAIT)
@pytest.mark.sampled(every=5)
def test_flags_between_devices(raises, awaits):
    """System scope at both ends, or it is named; under every schedule and in either order of launches."""
    source = SOURCE.replace("RAISES", RAISE[raises][0]).replace("AWAITS", AWAIT[awaits][0])
    right = RAISE[raises][1] and AWAIT[awaits][1]
    for schedule in SCHEDULES:
        run, out = hand_over(source, schedule, late=schedule == "random")
        assert {(h.kind, h.case) for h in run.hazards} == (set() if right else {("race", "race-of-devices")}), schedule
        assert not right or (out == 3 * (N - np.arange(N))).all()
        for hazard in run.hazards[:1]:
            assert "system scope at both ends" in hazard.step and {hazard.facts["device"], hazard.facts["other_device"]} == {0, 1}


@pytest.mark.parametrize("raises", [name for name in RAISE if "no fence" not in name and "before" not in name])
def test_on_one_device_the_scope_of_the_gpu_is_enough(raises):
    source = SOURCE.replace("RAISES", RAISE[raises][0]).replace("AWAITS", AWAIT["volatile and fence.gpu"][0])
    assert hand_over(source, "lazy", two=False)[0].hazards == []


def test_the_report_names_what_is_of_too_small_a_scope():
    source = SOURCE.replace("RAISES", RAISE["release.gpu"][0]).replace("AWAITS", AWAIT["acquire.sys"][0])
    (race,) = hand_over(source, "lazy")[0].hazards
    rows = source.splitlines()
    at = 1 + next(k for k, row in enumerate(rows) if "release.gpu" in row)
    assert f"here: kernel.cu:{at})" in race.step and "READ" in rows[race.where.line - 1] and "WRITE" in rows[race.other.line - 1]


ALONE = r"""
extern "C" __global__ void put(float* data, int* flag) {
    if (threadIdx.x == 37) {
        for (int i = 0; i < 128; i++) data[i] = i + 1.0f;
        RAISES
    }
}
extern "C" __global__ void take(const float* data, int* flag, float* out) {
    if (threadIdx.x == 70) {
        AWAITS
        for (int i = 0; i < 128; i++) out[i] = data[i];
    }
}"""


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("raises, awaits, right", [("release.sys", "acquire.sys", True), ("fence.sys and volatile", "volatile and fence.sys", True),
                                                   ("no fence", "acquire.sys", False)])
def test_one_thread_hands_to_one_thread(two, raises, awaits, right):
    """No barrier is needed where one thread writes and raises the flag, and the one that awaits it reads."""
    source = ALONE.replace("RAISES", RAISE[raises][0].replace("t == 0", "true").replace("__syncthreads();", "")).replace("AWAITS", AWAIT[awaits][0])
    for schedule in SCHEDULES:
        run, out = hand_over(source, schedule, two=two)
        assert [h.case for h in run.hazards] == ([] if right else ["race-of-devices" if two else "race-of-grids"])
        assert not right or (out == np.arange(N) + 1).all()


COPIES = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void raise(int* flag) { asm volatile("st.release.sys.u32 [%0], %1;" :: "l"(flag), "r"(1) : "memory"); }
__device__ void await(int* flag) { int v; do asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (v == 0); }
extern "C" __global__ void push(float* data, int* flag) {                // a bulk copy into the peer's memory
    __shared__ __align__(16) float tile[128];
    tile[threadIdx.x] = threadIdx.x + 1.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;\n cp.async.bulk.commit_group;" :: "l"(data), "r"(at(tile)) : "memory");
        if (COMPLETE) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        else asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        raise(flag);
    }
}
extern "C" __global__ void store(float* data, int* flag) {
    data[threadIdx.x] = threadIdx.x + 1.0f;
    if (FENCE == 1) asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) raise(flag);
}
extern "C" __global__ void load(const float* data, int* flag, float* out) {
    if (threadIdx.x == 0) await(flag);
    __syncthreads();
    out[threadIdx.x] = data[threadIdx.x];
}
extern "C" __global__ void pull(const float* data, int* flag, float* out) {          // a bulk copy out of the peer's memory
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" :: "r"(at(&full)) : "memory");
        await(flag);
        if (FENCE == 2) asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(at(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"(at(tile)), "l"(data), "r"(at(&full)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(at(&full)) : "memory");
    out[threadIdx.x] = tile[threadIdx.x];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("names, complete, fence, kinds", [
    (("push", "load"), 1, 0, []), (("push", "load"), 0, 0, ["race"]), (("push", "pull"), 1, 0, []), (("push", "pull"), 0, 0, ["race"]),
    (("store", "pull"), 1, 1, []), (("store", "pull"), 1, 2, []), (("store", "pull"), 1, 0, ["missing-proxy-fence"]), (("store", "load"), 1, 0, [])])
def test_copies_to_and_from_the_peer(schedule, names, complete, fence, kinds):
    source = f"#define COMPLETE {complete}\n#define FENCE {fence}\n" + COPIES
    run, out = hand_over(source, schedule, names=names)
    assert [str(h.kind) for h in run.hazards] == kinds
    assert kinds or (out == np.arange(N) + 1).all()


WORK = r"""
extern "C" __global__ void produce(float* y) { y[threadIdx.x] = threadIdx.x + 1; }
extern "C" __global__ void consume(const float* y, float* z) { z[threadIdx.x] = 2 * y[threadIdx.x]; }"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("event", [False, True])
def test_an_event_of_one_device_orders_the_other(schedule, event):
    module = hl.RawModule(code=WORK, backend="emulator")
    y, z = xp.zeros(N, np.float32), xp.zeros(N, np.float32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        a, b = streams(hl.devices(2, backend="emulator"))
        with a:
            module.get_function("produce")((1,), (N,), (y,))
            ready = a.record()
        with b:
            if event:
                b.wait_event(ready)
            module.get_function("consume")((1,), (N,), (y, z))
    assert [h.case for h in run.hazards] == ([] if event else ["race-of-devices"])
    assert not event or (z == 2 * (np.arange(N) + 1)).all()


def test_default_streams_belong_to_their_devices():
    """Launches without a stream run at once, and are not ordered with those of another device."""
    module = hl.RawModule(code=WORK, backend="emulator")
    y, z = xp.zeros(N, np.float32), xp.zeros(N, np.float32)
    for waits in (False, True):
        with hl.emulate(hazards="collect") as run:
            first, second = hl.devices(2, backend="emulator")
            with first:
                module.get_function("produce")((1,), (N,), (y,))
            if waits:
                first.synchronize()
            with second:
                module.get_function("consume")((1,), (N,), (y, z))
        assert [h.case for h in run.hazards] == ([] if waits else ["race-of-devices"]) and z[0] == 2


@pytest.mark.parametrize("count", [0, 9, "two", 1.5])
def test_devices_that_there_are_not(count):
    with pytest.raises(hl.BackendError, match="devices"):
        hl.devices(count, backend="emulator")


HALVES = r"""
__device__ void raise(unsigned* flag, unsigned step) { asm volatile("st.release.sys.u32 [%0], %1;" :: "l"(flag), "r"(step) : "memory"); }
__device__ void await(unsigned* flag, unsigned step) { unsigned v; do asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (v < step); }
extern "C" __global__ void swap(float* theirs, float* mine, unsigned* their_flag, unsigned* my_flag, float* out, unsigned step, int halves) {
    int half = step % halves * blockDim.x;
    theirs[half + threadIdx.x] = threadIdx.x + step;
    __syncthreads();
    if (threadIdx.x == 0) { raise(their_flag, step); await(my_flag, step); }
    __syncthreads();
    out[threadIdx.x] = mine[half + blockDim.x - 1 - threadIdx.x];
}"""


@pytest.mark.parametrize("schedule", ("lazy", "eager"))
@pytest.mark.parametrize("halves", [1, 2, 3])
def test_what_a_grid_learned_by_a_flag_the_next_of_its_stream_knows(schedule, halves):
    """Mail in two halves: who writes a half again has heard, in the step before, of a device that was through with it by then. With one half nothing says so."""
    swap = hl.RawModule(code=HALVES, backend="emulator").get_function("swap")
    mail, flags, out = [[xp.zeros(shape, dtype) for _ in range(2)] for shape, dtype in ((3 * N, np.float32), (1, np.uint32), (N, np.float32))]
    devices = hl.devices(2, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        made = streams(devices)
        for step in range(1, 6):
            for me, stream in enumerate(made):
                swap((1,), (N,), (mail[1 - me], mail[me], flags[1 - me], flags[me], out[me], np.uint32(step), np.int32(halves)), stream=stream)
        for stream in made:
            stream.synchronize()
    assert {str(hazard.kind) for hazard in run.hazards} == ({"race"} if halves == 1 else set())
    assert halves == 1 or (out[0] == 5 + np.arange(N)[::-1]).all()


MAILBOX = r"""
extern "C" __global__ void put(float* data, int* flag, int* ack) {
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        if (t == 0 && ANSWER) { while (*(volatile int*)ack < i) {} __threadfence_system(); }
        __syncthreads();
        data[t] = t + i;                                                      // REFILL
        __threadfence_system();
        __syncthreads();
        if (t == 0) *(volatile int*)flag = i + 1;
    }
}
extern "C" __global__ void take(const float* data, int* flag, int* ack, float* out) {
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        if (t == 0) while (*(volatile int*)flag < i + 1) {}
        __threadfence_system();
        __syncthreads();
        sum += data[127 - t];                                                 // TAKE
        __threadfence_system();
        __syncthreads();
        if (t == 0) *(volatile int*)ack = i + 1;
    }
    out[t] = sum;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("answer", [1, 0])
def test_a_mailbox_between_devices_is_not_filled_again_before_an_answer(answer, schedule):
    module = hl.RawModule(code=MAILBOX.replace("ANSWER", str(answer)), backend="emulator")
    data, out, flag, ack = xp.zeros(N, np.float32), xp.zeros(N, np.float32), xp.zeros(1, np.int32), xp.zeros(1, np.int32)
    with hl.emulate(schedule=schedule, seed=2, hazards="collect") as run:
        a, b = streams(hl.devices(2, backend="emulator"))
        module.get_function("put")((1,), (N,), (data, flag, ack), stream=a)
        module.get_function("take")((1,), (N,), (data, flag, ack, out), stream=b)
        hl.synchronize("emulator")
    lines = {name: k for k, row in enumerate(MAILBOX.splitlines(), 1) for name in ("REFILL", "TAKE") if row.endswith(f"// {name}")}
    if answer:
        assert not run.hazards and (out == 3 * (127 - np.arange(N)) + 3).all()
    else:
        assert {(h.case, frozenset((h.where.line, h.other.line))) for h in run.hazards} == {("race-of-devices", frozenset(lines.values()))}
