# SPDX-License-Identifier: Apache-2.0
"""Timelines: marks cost nothing when they are compiled out, tell what each warp did when they are in, and decode to rows."""
import re
import struct

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import launch as launches, operands
from hopperlab.measure import timelines
from hopperlab.measure.timelines import HEADER_WORDS, Mark
from hopperlab.runtime.library import kernel_source
from hopperlab.runtime.module import RawModule

RING, PRODUCT = "micro/traced_ring.cu", "gemm/warp_specialized.cu"
CHUNK, SHARED = 2048, 3 * 2048 * 4


def ring(options=(), chunks=8, blocks=2, schedule="lazy", hazards="raise", **how):
    """The timeline of traced_ring in the emulator, after checking its values."""
    kernel = hl.load_kernel(RING, "traced_ring", options, backend="emulator")
    x = np.random.default_rng(chunks).standard_normal(chunks * CHUNK, dtype=np.float32)
    y = np.full_like(x, np.nan)
    with hl.emulate(schedule=schedule, seed=5, hazards=hazards) as run:
        found = hl.timeline(kernel, (blocks,), (160,), (x, y, np.float32(2), np.int32(x.size)), shared_mem=SHARED, names={0: "scale"}, **how)
    assert (y == 2 * x).all() and not run.warnings
    return found


def machine_code(module: RawModule, kernel: str) -> bytes:
    """The bytes of a kernel's instructions: section .text.<kernel> of the cubin (ELF 64)."""
    image = module.cubin
    start, = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, start + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        if image[strings + name:].split(b"\0", 1)[0] == f".text.{kernel}".encode():
            return image[offset:offset + length]
    raise AssertionError(f"no code of {kernel}")


def instructions(module: RawModule) -> list[str]:
    """The PTX without line information."""
    return [line for line in module.ptx.splitlines() if line.strip() and not re.match(r"\s*(\.loc|\.file|//|\.section|\.b\d|\$L__|\}?$|\{)", line)]


def without_marks(source: str) -> str:
    """The source with everything that names a trace taken out, line by line, so that lines keep their numbers."""
    return re.sub(r"^.*(\bTrace trace|trace\.(begin|end|mark)|trace\.cuh|TRACE_USER).*$", "", source, flags=re.MULTILINE)


@pytest.mark.parametrize(("path", "kernel"), [(RING, "traced_ring"), (PRODUCT, "gemm")])
def test_marks_that_are_compiled_out_leave_the_same_machine_code(path, kernel):
    source = kernel_source(path)
    bare = without_marks(source)
    assert source.count("trace.") > bare.count("trace.") == 0
    first, second = (RawModule(code=code, name=path, backend="emulator") for code in (source, bare))
    assert machine_code(first, kernel) == machine_code(second, kernel)
    assert instructions(first) == instructions(second)


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_a_warp_specialised_product_tells_its_roles_and_stays_right(schedule):
    """Producer: waits and issues; consumers: wait, multiply, store. The products, and no hazard under any schedule."""
    a, b = operands.integer_bf16(np, (200, 328), 1), operands.integer_bf16(np, (136, 328), 2)
    c = np.zeros((200, 136), np.uint16)
    launch = launches.warp_specialized(a, b, c, stages=3, backend="emulator")
    with hl.emulate(schedule=schedule, seed=2, hazards="raise"):
        found = hl.timeline(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
    assert (c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()
    for block in range(4):
        own = [row for row in found if row.block == block]
        assert [row.event for row in own if row.warp == 0] == ["wait", "issue"] * 6
        assert all([row.event for row in own if row.warp == warp] == [*["wait", "mma"] * 6, "store"] for warp in range(4, 12))
        assert {row.warp for row in own} == {0, *range(4, 12)}


def test_a_traced_product_needs_no_more_registers():
    plain, traced = (RawModule(code=kernel_source(PRODUCT), name=PRODUCT, options=options, backend="emulator").ptxas_info
                     for options in ((), (timelines.OPTION,)))
    assert traced.kernels["gemm"].registers == plain.kernels["gemm"].registers and not traced.kernels["gemm"].spill_stores
    assert not [note for note in traced.notes if note.serious]


def test_marks_that_are_compiled_in_do_not():
    plain, traced = (RawModule(code=kernel_source(RING), name=RING, options=options, backend="emulator") for options in ((), (timelines.OPTION,)))
    assert machine_code(plain, "traced_ring") != machine_code(traced, "traced_ring")
    assert "globaltimer" in traced.ptx and "globaltimer" not in plain.ptx and timelines.VARIABLE not in plain.ptx


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_every_warp_tells_what_it_did(schedule):
    found = ring(schedule=schedule)
    assert (found.place, found.unit, found.dropped, found.open, found.kernel) == ("emulator", "virtual", 0, 0, "traced_ring")
    assert {(row.block, row.warp) for row in found} == {(block, warp) for block in range(2) for warp in range(5)}
    producer = [row for row in found if (row.block, row.warp) == (0, 0)]
    assert [(row.event, row.id) for row in producer] == [(event, i) for i in range(4) for event in ("wait", "issue")]
    consumer = [row for row in found if (row.block, row.warp) == (1, 3)]
    assert [(row.event, row.id) for row in consumer] == [(event, i) for i in range(4) for event in ("wait", "scale", "store")]
    assert all(row.start < row.end for row in found if row.event != "issue")
    assert all(row.start == row.end for row in found.of("issue"))


def test_the_order_is_that_of_the_barriers():
    """A consumer ends waiting for a chunk after it was issued; the producer ends waiting for a slot after all have read it."""
    found = ring(chunks=10, blocks=1, schedule="random")
    issued = {row.id: row.start for row in found.of("issue")}
    waited = {(row.warp, row.id): row.end for row in found.of("wait")}
    scaled = {(row.warp, row.id): row.end for row in found.of("scale")}
    for chunk in range(10):
        assert all(issued[chunk] < waited[warp, chunk] for warp in range(1, 5) if chunk >= 1)
        if chunk >= 3:
            assert all(scaled[warp, chunk - 3] < waited[0, chunk] for warp in range(1, 5))


def test_times_start_at_zero_and_count_the_moments():
    moments = {time for row in ring() for time in (row.start, row.end)}
    assert moments == set(range(len(moments)))


def test_marks_without_room_are_counted():
    found = ring(chunks=8, blocks=1, marks=6)
    assert found.dropped == (3 * 8 - 6) + 4 * (6 * 8 - 6) and "found no room" in repr(found)
    assert found.open == 0 and len(found.of("wait")) == 2 + 4 * 1


def test_only_the_first_blocks_are_traced_where_so_few_are_asked_for():
    assert {row.block for row in ring(blocks=2)} == {0, 1}
    x, y = np.ones(4 * CHUNK, np.float32), np.zeros(4 * CHUNK, np.float32)
    kernel = hl.load_kernel(RING, "traced_ring", backend="emulator")
    found = hl.timeline(kernel, (4,), (160,), (x, y, np.float32(3), np.int32(x.size)), shared_mem=SHARED, blocks=2)
    assert {row.block for row in found} == {0, 1} and (y == 3).all()
    assert {row.event for row in found} == {"wait", "issue", "user 0", "store"}


def test_a_kernel_compiled_with_marks_is_taken_as_it_is_and_silent_without_a_timeline():
    kernel = hl.load_kernel(RING, "traced_ring", (timelines.OPTION,), backend="emulator")
    x, y = np.ones(2 * CHUNK, np.float32), np.zeros(2 * CHUNK, np.float32)
    args = (x, y, np.float32(3), np.int32(x.size))
    kernel((1,), (160,), args, shared_mem=SHARED)
    assert (y == 3).all()                                   # no buffer was given: nothing is written, nothing faults
    assert len(hl.timeline(kernel, (1,), (160,), args, shared_mem=SHARED)) == 2 * 2 + 4 * 3 * 2
    kernel((1,), (160,), args, shared_mem=SHARED)           # nor after one: the buffer is gone


def test_a_template_is_compiled_again_by_its_name():
    code = "#include <hopperlab/trace.cuh>\ntemplate <int N> __global__ void fill(float* y) { Trace trace; trace.mark(TRACE_ISSUE, N); y[threadIdx.x] = N; }\n"
    module = hl.RawModule(code=code, name_expressions=("fill<3>",), backend="emulator")
    y = np.zeros(64, np.float32)
    found = hl.timeline(module.get_function("fill<3>"), (1,), (64,), (y,))
    assert [(row.warp, row.event, row.id) for row in found] == [(0, "issue", 3), (1, "issue", 3)] and (y == 3).all()


def test_a_kernel_without_marks_is_told_what_to_add():
    kernel = hl.RawModule(code='extern "C" __global__ void f(float* y) { y[0] = 1; }', backend="emulator").get_function("f")
    with pytest.raises(ValueError, match=r"f of kernel.cu has no marks: include <hopperlab/trace.cuh>"):
        hl.timeline(kernel, (1,), (1,), (np.zeros(1, np.float32),))
    with pytest.raises(ValueError, match="both are at least 1"):
        ring(marks=0)


# --- words to rows ----------------------------------------------------------------------------------------------------
def region(start, end, sm, marks, room=8):
    """A warp's words: (globaltimer, clock) at its start and end, its SM, and (clock, kind, event, id) of its marks."""
    words = np.zeros(HEADER_WORDS + 2 * room, np.uint64)
    words[:8] = (*start, *end, sm, len(marks), len(marks), 1)
    for i, (clock, kind, event, number) in enumerate(marks):
        words[8 + 2 * i:10 + 2 * i] = clock, number << 16 | event << 2 | kind
    return words


def test_cycles_of_different_sms_come_onto_one_axis():
    """Two SMs whose clocks differ by 10^12 cycles, both at 2 cycles a nanosecond; the same moments on both."""
    far = 10 ** 12
    regions = np.stack([region((5000, 100), (6024, 2148), 7, [(300, 1, 1, 0), (500, 2, 1, 0)]),
                        region((5000, far), (6024, far + 2048), 9, [(far + 200, 1, 2, 4), (far + 400, 2, 2, 4), (far + 600, 0, 0, 1)])])
    found = timelines.decode(regions, 1, "k", "gpu", {})
    assert found == [Mark(0, 0, 7, "wait", 0, 0.0, 100.0), Mark(1, 0, 9, "mma", 4, 0.0, 100.0), Mark(1, 0, 9, "issue", 1, 200.0, 200.0)]
    assert (found.unit, found.timer_ns, found.place) == ("ns", 1024, "gpu")


def test_a_timer_that_did_not_move_leaves_cycles():
    found = timelines.decode(np.stack([region((5000, 100), (5000, 400), 0, [(150, 1, 3, 0), (350, 2, 3, 0)])]), 1, "k", "gpu", {})
    assert found.unit == "cycles" and (found[0].event, found[0].end) == ("store", 200.0)


def test_warps_that_left_nothing_have_no_rows_and_open_spans_last_to_the_end():
    regions = np.stack([np.zeros(24, np.uint64), region((0, 0), (100, 100), 0, [(10, 1, 16, 2), (20, 2, 17, 9)])])
    found = timelines.decode(regions, 2, "k", "gpu", {0: "mine"})
    assert found == [Mark(0, 1, 0, "mine", 2, 0.0, 90.0)] and found.open == 1
    assert timelines.decode(regions[:1], 1, "k", "gpu", {}) == []


def test_spans_of_one_event_nest():
    marks = [(10, 1, 1, 0), (20, 1, 1, 0), (30, 2, 1, 0), (40, 2, 1, 0)]
    rows = timelines.decode(np.stack([region((0, 0), (100, 100), 0, marks)]), 1, "k", "gpu", {})
    assert [(row.start, row.end) for row in rows] == [(0.0, 30.0), (10.0, 20.0)]


def test_totals_and_events():
    found = ring()
    own = [row for row in found.of("wait") if (row.block, row.warp) == (1, 2)]
    assert found.total("wait", 1, 2) == sum(row.end - row.start for row in own) > 0
    with pytest.raises(ValueError, match="no event 'mma' in this timeline; it has issue, scale, store, wait"):
        found.of("mma")


def test_some_blocks_keep_their_times_and_all_else():
    found = ring()
    second = found.only([1])
    assert second == [row for row in found if row.block == 1] and vars(second) == vars(found)


def test_the_recorder_needs_a_gpu_and_checks_its_product(monkeypatch, capsys):
    from hopperlab.measure.machine import here
    from hopperlab.measure.suites import timelines as recorder
    monkeypatch.setattr(here, "gpu", lambda: None)
    assert recorder.main([]) == 2 and "needs a Hopper GPU" in capsys.readouterr().err
    monkeypatch.setattr(recorder, "bf16_bits", lambda values: values)
    with pytest.raises(AssertionError, match="the traced product is wrong"):
        recorder.product(128, 128, 64, 0)


def test_the_recorder_writes_each_timeline_of_the_table(monkeypatch, tmp_path, capsys):
    from hopperlab.measure.machine import board, here
    from hopperlab.measure.suites import table, timelines as recorder
    monkeypatch.setattr(here, "no_gpu", lambda: None)
    monkeypatch.setattr(board, "header", lambda: {"gpu": "a GPU", "driver": "1", "cuda": "13.0", "date": "2026-01-01"})
    monkeypatch.setattr(recorder, "product", ring)
    monkeypatch.setattr(recorder, "attention", lambda step: ring())
    assert recorder.main(["--out", str(tmp_path)]) == 0 and "timeline_pingpong.json" in capsys.readouterr().out
    assert {path.stem for path in tmp_path.iterdir()} == {suite.recording for suite in table.SUITES if suite.name == "timelines"}


@pytest.mark.parametrize("step", ["overlapped", "two_consumers"])
@pytest.mark.thorough
def test_attentions_recorder_marks_both_consumers_and_checks_its_result(step, monkeypatch):
    from hopperlab.measure.suites import timelines as recorder
    with hl.emulate():
        found = recorder.attention(step, 256, 2, launches_before=0)
    assert {(row.warp, row.event) for row in found} == {(warp, event) for warp in (4, 8) for event in ("scores", "values", "softmax")}
    monkeypatch.setattr(recorder, "reference", lambda *given: (np.full((1, 2, 1), 9.0), None))
    with hl.emulate(), pytest.raises(AssertionError, match="the traced .* is wrong"):
        recorder.attention(step, 256, 2, launches_before=0)


def test_files_come_back_as_they_were(tmp_path):
    found = ring()
    back = timelines.load(timelines.save(found, tmp_path / "one.json"))
    assert back == found and back.as_dict() == found.as_dict()
    head = {"gpu": "a GPU", "driver": "1", "cuda": "13.0", "date": "2026-01-01"}
    assert timelines.load(timelines.save(found, tmp_path / "two.json", head)).source == "recorded on a GPU, driver 1, CUDA 13.0, 2026-01-01"


def test_the_recorded_product_is_a_pipeline():
    """On the GPU as in the emulator: a consumer multiplies a k-block only after it was issued; both consumers work at once."""
    found = timelines.load()
    assert (found.place, found.unit, found.dropped, found.open) == ("gpu", "ns", 0, 0) and found.source.startswith("recorded on NVIDIA H")
    for block in {row.block for row in found}:
        own = [row for row in found if row.block == block]
        issued = {row.id: row.start for row in own if row.event == "issue"}
        multiplied = [row for row in own if row.event == "mma"]
        assert {row.warp for row in multiplied} == set(range(4, 12)) and len(multiplied) == 8 * len(issued)
        assert all(issued[row.id] < row.end for row in multiplied)
        first, second = ([row for row in multiplied if row.warp == warp] for warp in (4, 8))
        assert any(a.start < b.end and b.start < a.end for a in first for b in second)
