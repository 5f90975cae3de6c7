# SPDX-License-Identifier: Apache-2.0
"""Streams, events and the host: what orders two grids is known; what is missing is named, under every schedule."""
import hopperlab as hl
import numpy as np
import pytest

from support.grids import N, ORDERED, SCHEDULES, TWO, UNORDERED, after_event, found, kernels, line, stream, xp, zeros

# --- streams and events -------------------------------------------------------------------------------------------------
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


@pytest.mark.parametrize("first", [0, 1])
def test_of_a_race_the_lowest_word_is_named_whoever_looks_first(first):
    reads = hl.RawModule(code="""extern "C" __global__ void read(const volatile int* x, int* out, int first) {
    int sum = 0;
    for (int turn = 0; turn < 2; turn++)
        if (threadIdx.x % 2 == (first ^ turn)) sum += x[threadIdx.x];
    out[threadIdx.x] = sum;
}""", backend="emulator", name="read.cu").get_function("read")
    with hl.emulate(hazards="collect") as run:
        kernels()[0]((2,), (128,), (y := zeros(),), stream=stream())
        reads((1,), (32,), (y, zeros(), np.int32(first)), stream=stream())
    (race,) = [hazard for hazard in run.hazards if hazard.where.file == "read.cu"]
    assert (race.address, race.thread) == (0, 0)


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
