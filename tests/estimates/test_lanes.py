# SPDX-License-Identifier: Apache-2.0
"""Estimates of kernels whose lanes move their own data: what the L1 has, how long loads take, what CTAs cost, and that no unit does more than it can."""
import time

import hopperlab as hl
import numpy as np
import pytest
from hopperlab.estimates import boards, estimating, sample
from hopperlab.estimates.lane_loads import Lanes

pytestmark = pytest.mark.emulator_only
BOARD = boards.board("h200")
BODIES = {
    "copy": "for (long long i = at; i < n; i += all) y[i] = x[i];",
    "reads": "float s = 0; for (long long i = at; i < n; i += all) s += x[i]; y[at] = s;",
    "fma": "float a = x[at], b = a + 1, c = a + 2, d = a + 3; for (int i = 0; i < m; i++) { a = a * b + c;"
           " b = b * c + d; c = c * d + a; d = d * a + b; } y[at] = a + b + c + d;",
    "exp": "float a = x[at], s = 0; for (int i = 0; i < m; i++) s += __expf(a + i); y[at] = s;",
    "again": "float s = 0; for (int i = 0; i < m; i++) s += x[blockIdx.x * 1024 + (threadIdx.x + i * 257) % 1024]; y[at] = s;",
    "stride": "float s = 0; for (int i = 0; i < m; i++) s += x[blockIdx.x * 8192 + (threadIdx.x % 32) * 32 + i % 8 * 1024 + i / 8 % 32]; y[at] = s;",
    "random": "y[at] = x[(at * 2654435761u) % n];",
    "sums": "atomicAdd(y + at % m, x[at]);",
}
KERNEL = """extern "C" __global__ void __launch_bounds__(256) k(const float* __restrict__ x, float* __restrict__ y, long long n, int m) {
    extern __shared__ float unused[];
    long long at = blockIdx.x * 256LL + threadIdx.x, all = gridDim.x * 256LL;
    BODY
}"""
BINS = """extern "C" __global__ void __launch_bounds__(256) k(const unsigned* __restrict__ x, unsigned* y, int n) {
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(bins + (WHERE), 1u);
    __syncthreads();
    atomicAdd(y + threadIdx.x, bins[threadIdx.x]);
}"""


def sampled(body, grid, n=1 << 24, m=1, shared=0, x=None):
    """A sample of one of the kernels, with what must live as long as it does."""
    kernel = hl.RawModule(code=KERNEL.replace("BODY", BODIES[body]), backend="emulator").get_function("k")
    kernel.max_dynamic_shared_size_bytes = shared
    args = (np.ones(n, np.float32) if x is None else x, np.zeros(n, np.float32), np.int64(n), np.int32(m))
    planned, kept = sample.planned(kernel, (grid,), (256,), args, shared)
    return estimating.sampled(planned, body), (planned, kept, args)


def estimated(*given, **named):
    found, kept = sampled(*given, **named)
    return estimating.of_sample(found, given[0], BOARD)


@pytest.mark.parametrize("grid", [132, 1056, 32768])
@pytest.mark.parametrize("body, a_turn, most", [("fma", 4, 128), ("exp", 1, 16)])
def test_no_unit_does_more_than_it_can(body, a_turn, most, grid):
    """128 numbers multiplied and added a cycle and SM, 16 exponentials (CUDA Programming Guide, throughput of native arithmetic)."""
    found = estimated(body, grid, m=256)
    done = grid * 256 * 256 * a_turn / 132 / found.cycles
    assert done <= most and found.issue <= 0.96 and (grid < 32768 or done > 0.6 * most), found


def test_what_the_l1_has_comes_once():
    found, _kept = sampled("again", 132, m=64)
    asked = sum(found.counts[index]["global_load_sectors"] for index in found.lanes.missed)
    assert sum(found.lanes.missed.values()) == 128 and asked >= 64 * 8 * 4 and found.lanes.alone


def test_more_than_the_l1_holds_comes_again():
    """The same with so much shared memory that nothing is left of the L1, in an array as large as it is."""
    body = BODIES["again"].replace("1024", "65536")
    kernel = hl.RawModule(code=KERNEL.replace("BODY", body), backend="emulator").get_function("k")
    args = (np.ones(1 << 23, np.float32), np.zeros(1 << 20, np.float32), np.int64(1 << 23), np.int32(512))
    planned, _kept = sample.planned(kernel, (64,), (256,), args, 0)
    found = estimating.sampled(planned, "again")
    assert 2 * 8192 <= sum(found.lanes.missed.values()) < 2.2 * 8192


@pytest.mark.parametrize("m, lines", [(256, 32)])
def test_a_load_takes_as_long_as_the_words_that_lie_in_one_bank(m, lines):
    """Lanes 128 bytes apart: 32 cycles on an H200 (benchmarks/lanes.py, hits)."""
    found, _kept = sampled("stride", 132, m=m)
    index = next(iter(found.lanes.missed))
    counts = found.counts[index]
    assert counts["lane_wavefronts"] == lines * counts["global_load_requests"]


def test_fewer_loads_on_their_way_take_longer():
    """An SM that holds two CTAs asks for a quarter of what one asks for that holds eight (H200: 78 and 247 us for one that stores, too)."""
    many, few = (estimated("reads", 98304, n=98304 * 256, shared=shared) for shared in (0, 100 << 10))
    assert 2.5 < few.us / many.us < 4 and 70 < many.us < 95 and many.memory < 0.7


def test_ctas_that_do_next_to_nothing_are_launched_one_after_the_other():
    """132 SMs are given one each 158 cycles (benchmarks/lanes.py, launches)."""
    small, large = (estimated("fma", grid, n=1 << 25, m=1) for grid in (132 * 200, 132 * 400))
    assert large.cycles - small.cycles >= 200 * 158


def test_single_words_from_all_over_take_memory_longer_than_a_copy():
    scattered, copied = estimated("random", 65536, n=1 << 26), estimated("copy", 65536, n=1 << 24)
    assert 3 < scattered.us / copied.us < 12, (scattered, copied)


def test_of_what_is_scattered_some_comes_twice():
    lanes = Lanes(run={1: 32.0})
    assert lanes.brought(1, 1e6, 1e9, 45e6) == pytest.approx(1e6, rel=0.01)
    assert 0.6e9 < lanes.brought(1, 1e9, 1e9, 45e6) < 1e9 < lanes.brought(1, 2e9, 1e9, 45e6) < 2e9
    assert lanes.brought(2, 2e9, 1e9, 45e6) == 1e9 and lanes.takes(2) == 1 < lanes.takes(1)


def test_sums_of_one_word_wait_for_each_other():
    one, many = (estimated("sums", 16384, n=1 << 22, m=m) for m in (1, 1 << 20))
    assert one.us > 10 * many.us and one.cycles > 16384 * 256 * 2.5


@pytest.mark.parametrize("where, slower", [("x[i] & 255", 1.0), ("threadIdx.x % 32 * 0 + (x[i] & 1) * 32", 1.0)])
def test_loops_with_atomics_are_no_loops_that_wait(where, slower):
    """Each turn counts, and an estimate of them takes no longer than another one."""
    kernel = hl.RawModule(code=BINS.replace("WHERE", where), backend="emulator").get_function("k")
    took = []
    for n in (1 << 20, 1 << 22, 1 << 24):
        x, y = np.random.default_rng(1).integers(0, 1 << 31, n, dtype=np.int64).astype(np.uint32), np.zeros(256, np.uint32)
        begin = time.process_time()
        took.append(hl.estimate(kernel, (792,), (256,), (x, y, np.int32(n)), board="h200").us)
        assert time.process_time() - begin < 5 and not y.any()
    assert took[0] < took[1] < took[2] and took[2] > 2 * took[1]
