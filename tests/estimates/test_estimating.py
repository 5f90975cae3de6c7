# SPDX-License-Identifier: Apache-2.0
"""hl.estimate: what it gives, what it leaves alone, what it refuses, and that the emulator without it does nothing more."""
import dataclasses
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import cli
from hopperlab.emulator import EmulatorError
from hopperlab.estimates import boards, chip, l2_and_memory, sample, sm, steps, trace, sm_units
from hopperlab.estimates.costs import Cost
from hopperlab.estimates.cut import progress
from hopperlab.estimates.estimating import bound, estimate_launch
from hopperlab.estimates.programs import COMPUTE, Actor
from hopperlab.hopper import limits
from hopperlab.measure import recordings
from hopperlab.measure.launches import gemm, micro

H200, H100 = map(boards.board, ("h200", "h100"))
SCALE = r"""
extern "C" __global__ void scale(const float* in, float* out, int* count, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
    if (threadIdx.x == 0) atomicAdd(count, 1);
}"""
CHAIN = r"""
extern "C" __global__ void chain(float* out, float x, int rounds) {
    float y = x;
    #pragma unroll 1
    for (int i = 0; i < rounds; i++) y = y * x + 1.0f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = y;
}"""
MEETING = r"""
extern "C" __global__ void meeting(volatile int* arrived, int* out) {
    if (threadIdx.x == 0) {
        atomicAdd((int*)&arrived[blockIdx.x], 1);
        while (arrived[(blockIdx.x + 1) % gridDim.x] == 0) { }
        out[blockIdx.x] = 1;
    }
}"""


def kernel(source, name):
    return hl.RawModule(code=source, backend="emulator").get_function(name)


def test_a_product_of_what_lies_past_shared_memory_is_named_as_in_a_launch():
    kernel = hl.RawModule(code=r"""#include <hopperlab/wgmma.cuh>
        extern "C" __global__ void __launch_bounds__(128) multiply(float* out) {
            float d[32] = {};
            unsigned long long rest = 1ull << 62 | 64ull << 32 | 1ull << 16;                // 128-byte swizzle, rows of eight 1024 bytes apart
            wgmma_fence();
            wgmma_m64n64k16_bf16(d, rest, rest | 220 * 1024 / 16, 0);
            wgmma_commit_group();
            wgmma_wait_group<0>();
            out[threadIdx.x] = d[0];
        }""", backend="emulator").get_function("multiply")
    with pytest.raises(EmulatorError, match="past the end of shared memory"):
        hl.estimate(kernel, (1,), (128,), (np.zeros(128, np.float32),), shared_mem=16384)


def test_it_leaves_arrays_alone_and_says_that_it_is_an_estimate():
    n = 1 << 16
    x, y, count = np.ones(n, np.float32), np.zeros(n, np.float32), np.zeros(1, np.int32)
    found = hl.estimate(kernel(SCALE, "scale"), (n // 256,), (256,), (x, y, count, np.int32(n)))
    assert not y.any() and not count.any()
    assert found.low_us < found.us < found.high_us and found.cycles > 0
    assert "estimated" in str(found) and "no measurement" in str(found)
    assert json.loads(json.dumps(found.as_dict()))["us"] == found.us


def test_more_dependent_work_takes_longer_by_the_latency():
    run = kernel(CHAIN, "chain")
    out = np.zeros(132 * 32, np.float32)
    short, long = (hl.estimate(run, (132,), (32,), (out, np.float32(0.5), np.int32(rounds))) for rounds in (1000, 3000))
    assert 4 * 2000 <= long.cycles - short.cycles <= 14 * 2000, "a fused multiply-add takes four cycles, a loop has a few instructions more"


def test_twice_the_waves_take_nearly_twice_as_long():
    run = kernel(CHAIN, "chain")
    out = np.zeros(8 * 132 * 1024, np.float32)
    times = [hl.estimate(run, (2 * waves * 132,), (1024,), (out, np.float32(0.5), np.int32(500))).cycles for waves in (2, 4)]
    assert 1.5 < times[1] / times[0] < 2.2


def test_ctas_that_wait_for_others_have_no_estimate():
    arrived, out = np.zeros(64, np.int32), np.zeros(64, np.int32)
    with pytest.raises(hl.LaunchError, match="wait for others"):
        hl.estimate(kernel(MEETING, "meeting"), (64,), (32,), (arrived, out))
    assert not arrived.any()


@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.sampled(every=2)
def test_products_come_at_the_recorded_rate(n):
    """micro.json, wgmma_rate: 32.18 and 128.08 cycles for one of two warpgroups' products with three in flight."""
    rates = [estimate_launch(micro.wgmma(n, rounds=rounds, samples=1, backend="emulator").launch).cycles for rounds in (16, 48)]
    per_product = (rates[1] - rates[0]) / (2 * 4 * 32)
    assert per_product == pytest.approx({64: 32.18, 256: 128.08}[n], rel=0.1)


def test_a_cut_sample_goes_on_as_it_went():
    a, b, c = (np.zeros(shape, np.uint16) for shape in ((4096, 512), (4096, 512), (4096, 4096)))
    launch = gemm.persistent(a, b, c, blocks=32, backend="emulator")
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    whole, cut = sample.run(planned, most=60_000), sample.run(planned, most=1000)
    assert whole.whole and not cut.whole and 0.1 < progress(cut) < 0.5
    assert chip.simulate(cut, H200).cycles == pytest.approx(chip.simulate(whole, H200).cycles, rel=0.05)


def test_nine_warps_take_the_registers_of_nine():
    assert sample.resident(288, 90, 98352) == 2 and limits.occupancy(288, 90, 98352).blocks == 1
    assert sample.resident(384, 168, 98352) == 1 and sample.resident(256, 90, 98352) == 2


def test_the_line_that_says_what_bounds_it():
    assert bound({"tensor cores": 0.97, "the L2": 0.5}) == "tensor cores, 97% busy"
    assert bound({"tensor cores": 0.3, "the L2": 0.5}).startswith("waiting: the L2 comes nearest")


@pytest.mark.parametrize("board", [H200, H100], ids=lambda board: board.name)
def test_every_constant_says_where_it_comes_from(board):
    for name, constant in board.constants.items():
        named = re.findall(r"(\w+)\.json", constant.source)
        assert named or "fitted" in constant.source or re.search(r"limits\.py|Guide|peers|benchmarks/\w+\.py", constant.source), name
        assert all(recording in recordings.names() for recording in named), name


def test_unknown_constants_are_an_error():
    with pytest.raises(KeyError):
        H200.number("no_such_constant")


def test_a_launch_without_a_clock_has_no_listener_and_loads_nothing():
    code = ("import sys, numpy as np, hopperlab as hl\n"
            "from hopperlab.emulator.machine import machine\n"
            "seen = []\n"
            "made = machine.Machine.__init__\n"
            "def watched(self, *given, **named):\n    made(self, *given, **named)\n    seen.append((self.landing, self.tell))\n"      # a launch dissolves its machine
            "machine.Machine.__init__ = watched\n"
            f"k = hl.RawModule(code={CHAIN!r}, backend='emulator').get_function('chain')\n"
            "k((1,), (32,), (np.zeros(32, np.float32), np.float32(1), np.int32(3)))\n"
            "assert not [name for name in sys.modules if name.startswith('hopperlab.estimates')]\n"
            "from hopperlab.emulator.machine.events import _nothing\n"
            "assert type(seen[0][0]).__name__ == 'Landing' and seen[0][1].running is _nothing\n")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "HOPPERLAB_BACKEND": "emulator"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command(capsys):
    assert cli.main(["estimate", "tma_wgmma", "512", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel"] == "tma_wgmma at 512x512x512"
    assert cli.main(["estimate", "no_such_step"]) == 2
    assert "the ladder has naive" in capsys.readouterr().err
    assert cli.main(["estimate", "tma_wgmma", "12x"]) == 2
    assert cli.main(["estimate"]) == 2


def test_the_command_takes_files(tmp_path, capsys):
    path = tmp_path / "scale.cu"
    path.write_text(SCALE)
    assert cli.main(["estimate", str(path), "--grid", "16", "--block", "256", "--args", "f32[4096]", "f32[4096]", "i32[1]", "i32=4096"]) == 0
    assert "scale: an estimated" in capsys.readouterr().out


def test_sizes():
    assert steps.shape_of("4096") == (4096,) * 3 and steps.shape_of("1x2x3") == (1, 2, 3)
    with pytest.raises(ValueError, match="no size"):
        steps.shape_of("0")


def test_traffic_counts_what_must_come_from_memory_once():
    moved = chip.Traffic(loaded=800.0, stored=100.0, unique=200.0)
    assert moved.missed == 0.25 and chip.Traffic(0.0, 1.0, 0.0).missed == 0.0
    assert moved.memory == 300 and moved.pushed == 0, "nothing is dirty"


def test_memory_keeps_its_pace_where_sms_slow_down():
    rates = [l2_and_memory.dram_share(H200, 132, mhz, 0.0) * 132 * mhz * 1e6 for mhz in (1980.0, 1500.0)]
    assert rates == pytest.approx([H200.number("dram_gbs") * 1e9] * 2)


def test_memory_that_reads_and_writes_takes_turns():
    reads, copies = chip.Traffic(100.0, 0.0, 100.0), chip.Traffic(100.0, 100.0, 100.0)
    assert (reads.mixed, copies.mixed, chip.Traffic(100.0, 25.0, 100.0).mixed, chip.Traffic(0.0, 0.0, 0.0).mixed) == (0.0, 1.0, 0.4, 0.0)
    rates = [l2_and_memory.dram_share(H100, 132, 1980.0, moved.mixed) * 132 * 1980.0 * 1e6 for moved in (reads, copies)]
    assert rates == pytest.approx([H100.number("dram_gbs") * 1e9, H100.number("dram_mixed_gbs") * 1e9])


def test_what_is_loaded_pushes_dirty_lines_out():
    small, large = chip.Traffic(800.0, 100.0, 200.0, dirty=1000.0), chip.Traffic(8000.0, 1000.0, 3000.0, dirty=1000.0)
    assert small.pushed == 200 and small.memory == 500, "a line for each that comes in"
    assert large.pushed == 750, "of all dirty lines those that were not pushed out by stores"
    assert chip.Traffic(800.0, 100.0, 200.0, dirty=1000.0, share=0.35).pushed == pytest.approx(70), "a third of the lines are dirty"


def loads(memory, count=8, nbytes=4096, more=0):
    """Cycles until loads of one actor have left L2 and memory."""
    steps = [(trace.LOAD, -1, nbytes, [], more, False, 1)] * count
    found = sm.Simulation(H200, memory, {}, 8, 4, {}.__getitem__)
    found.start([Actor(0, 0, 1, steps)], 0, 0, sm_units.Multiprocessor(), 0.0, 1)
    found.run()
    return found.load_ends[-1][0]


def test_memory_is_as_long_busy_with_dirty_lines_as_with_those_that_push_them_out():
    clean, half, full = (loads(sm.Memory(l2=1e6, store=1.0, lane_store=1.0, dram=8.0, missed=1.0, dirty=dirty)) for dirty in (0.0, 16384.0, 1e9))
    assert half - clean == pytest.approx(16384 / 8) and full - clean == pytest.approx(32768 / 8)
    third = loads(sm.Memory(l2=1e6, store=1.0, lane_store=1.0, dram=8.0, missed=1.0, dirty=1e9, share=0.25))
    assert third - clean == pytest.approx(32768 / 4 / 8)


def test_what_rows_cost_beside_their_bytes_is_time_of_the_l2():
    memory = sm.Memory(l2=8.0, store=1.0, lane_store=1.0, dram=1e6)
    assert loads(memory, more=4096) - loads(memory) == pytest.approx(8 * 4096 / 8)


def test_loads_of_lanes_take_turns_with_those_of_the_copy_engine():
    """A warp asks for few bytes when a producer has asked for 512 KiB: they come long before these are through, and after what lanes asked for earlier."""
    ends = {}
    for ahead, nbytes in ((0, 1024), (128, 1024), (0, 65536)):
        actors = [Actor(0, 0, 1, [(trace.LOAD, -1, 4096, [], 0, 1)] * ahead), Actor(0, 4, 1, [(COMPUTE, Cost(alone=1e4), 1), (COMPUTE, Cost(loaded=nbytes), 1)])]
        found = sm.Simulation(H200, sm.Memory(l2=1.0, store=1.0, lane_store=1.0, dram=1e6), {}, 8, 8, {}.__getitem__)
        found.start(actors, 0, 0, sm_units.Multiprocessor(), 0.0, 1)
        found.run()
        ends[ahead, nbytes] = found.cta_ends[(0, 0)]
    assert ends[128, 1024] == pytest.approx(ends[0, 1024], rel=0.01)
    assert ends[0, 65536] > 1e4 + 0.9 * 65536 * H200.number("l1_missed")


def test_the_first_load_of_an_sm_goes_out_later():
    later = dataclasses.replace(H200, constants={**H200.constants, "tma_first": dataclasses.replace(H200.constants["tma_first"], value=H200.number("tma_first") + 500)})
    memory = sm.Memory(l2=1e6, store=1.0, lane_store=1.0, dram=1e6)
    first, second = ([end for end, _ in run(board, memory)] for board in (H200, later))
    assert second[0] - first[0] == pytest.approx(500) and first[-1] == pytest.approx(second[-1]), "later ones find it there"


def run(board, memory, count=64):
    """When loads of one actor have come."""
    found = sm.Simulation(board, memory, {}, 8, 4, {}.__getitem__)
    found.start([Actor(0, 0, 1, [(trace.LOAD, -1, 4096, [], 0, 1)] * count)], 0, 0, sm_units.Multiprocessor(), 0.0, 1)
    found.run()
    return found.load_ends


def test_short_rows_and_those_that_begin_inside_a_sector_take_the_l2_longer():
    rows = np.array([0, 784, 1568])                       # 392 columns of two bytes: the second begins in the middle of a sector
    assert trace.more(rows, 128) == trace.CUT
    assert trace.more(rows + 64, 128) == trace.CUT, "rows that lie in two lines cost nothing, if they have whole sectors"
    assert trace.more(rows, 64) == 3 * (trace.ROW - 64) + trace.CUT and trace.more(rows, 0) == 0
    assert (trace.ROW, trace.CUT) == (H200.number("l2_row"), H200.number("l2_cut"))


def test_a_samples_loads_know_what_their_rows_cost():
    found = {}
    for k in (384, 392):
        a, b, c = (np.zeros(shape, np.uint16) for shape in ((128, k), (128, k), (128, 128)))
        launch = gemm.final(a, b, c, backend="emulator")
        planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
        steps = [step for warp in sample.run(planned).trace.warps for step in warp if step[0] == trace.LOAD]
        found[k] = sum(step[4] for step in steps) / sum(step[2] for step in steps)
    assert found[384] == 0
    assert found[392] == pytest.approx((7 * trace.CUT / 2 + trace.ROW - 16) / 784), "every other row begins inside a sector; those of the seventh box are 16 bytes"


@pytest.mark.thorough
def test_what_is_read_again_and_again_has_no_estimate_where_the_sample_is_cut():
    """A CTA reads its 8 KiB some thousand times; the array's size says nothing of it."""
    launch = micro.multicast(np.zeros((64 * 4, 64), np.uint16), 1, False, 4, passes=100000, backend="emulator")
    with pytest.raises(hl.LaunchError, match="no estimate: what it moves is moved again and again"):
        estimate_launch(launch)


def test_a_kernel_of_exponentials_of_which_other_ctas_wait_for_the_first_has_an_estimate():
    """Another CTA is looked at for one that does more; one that waits is passed over."""
    source = r"""
extern "C" __global__ void flagged(volatile int* flag, float* out) {
    if (blockIdx.x == 0) { __threadfence(); flag[0] = 1; }
    else while (flag[0] == 0) {}
    out[blockIdx.x * blockDim.x + threadIdx.x] = exp2f(threadIdx.x * 0.5f);
}"""
    kernel = hl.RawModule(code=source, backend="emulator").get_function("flagged")
    assert hl.estimate(kernel, (8,), (32,), (np.zeros(1, np.int32), np.zeros(256, np.float32))).us > 0
