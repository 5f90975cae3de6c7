# SPDX-License-Identifier: Apache-2.0
"""hl.explore: the first schedule whose values differ or that shows hazards."""
import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import launch as launches

pytestmark = [pytest.mark.emulator_only, pytest.mark.usefixtures("own_memory")]         # several launches differ by design from schedule to schedule

COPY = r"""
#include <hopperlab/cp_async.cuh>
extern "C" __global__ void copy(const float4* in, float4* out) {
    __shared__ float4 tile[64];
    cp_async_cg_16(&tile[threadIdx.x], &in[threadIdx.x]);
    cp_async_commit_group();
#ifndef BUG
    cp_async_wait_group<0>();
#endif
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void tally(const float* in, float* sum) { atomicAdd(sum, in[threadIdx.x]); }
extern "C" __global__ void next(int* counter, int* order) {
    if (threadIdx.x == 0) order[atomicAdd(counter, 1)] = blockIdx.x;
}
extern "C" __global__ void grow(float* x) { x[threadIdx.x] += 1.0f; }
extern "C" __global__ void beyond(float* x) { x[threadIdx.x + (1 << 24)] = 1.0f; }
"""


def kernel(name, *options):
    return hl.RawModule(code=COPY, options=options, backend="emulator").get_function(name)


def vectors():
    return np.arange(256, dtype=np.float32), np.zeros(256, np.float32)


def test_a_correct_kernel_is_clean_and_leaves_its_result():
    x, y = vectors()
    copy = kernel("copy")
    result = hl.explore(lambda: copy((1,), (64,), (x, y)), seeds=5)
    assert result.clean and result and result.first is None and len(result.trials) == 9
    assert repr(result) == "clean: 9 schedules gave the same values in 2 arrays, without hazards"
    assert (y == x).all()


def test_a_missing_wait_is_found_by_its_hazard_and_by_its_values():
    x, y = vectors()
    copy = kernel("copy", "-DBUG")
    result = hl.explore(lambda: copy((1,), (64,), (x, y)))
    assert not result.clean and result.first.name == "lazy" and result.first.hazards[0].kind == "read-before-arrival"
    assert "schedule 1 of 24 is the first that is not clean. lazy:" in repr(result)
    whole = hl.explore(lambda: copy((1,), (64,), (x, y)), seeds=3, stop=False)
    assert len(whole.trials) == 7
    difference = whole.trials[1].differences[0]                        # eager copies at once: other values than lazy
    assert whole.trials[1].schedule == "eager" and difference.count == 255 and difference.index == (1,)
    assert difference.value == 1.0 and difference.expected == 0.0
    assert "argument 2 (float32, shape (256,)) differs in 255 of 256 elements, first at [1]: 1.0 here, 0.0 under lazy" in str(whole.trials[1])


def test_the_same_call_gives_the_same_result():
    x, y = vectors()
    copy = kernel("copy", "-DBUG")
    found = [hl.explore(lambda: copy((1,), (64,), (x, y)), seeds=4, stop=False) for _ in range(2)]
    assert repr(found[0]) == repr(found[1])
    assert [(t.name, t.hazards, t.differences) for t in found[0].trials] == [(t.name, t.hazards, t.differences) for t in found[1].trials]


def test_inputs_are_restored_between_runs():
    x = np.zeros(64, np.float32)
    grow = kernel("grow")
    assert hl.explore(lambda: grow((1,), (64,), (x,)), seeds=3).clean
    assert (x == 1).all()


def test_arrays_that_the_callable_makes_are_compared_too():
    copy = kernel("copy", "-DBUG")

    def launch():
        x, y = vectors()
        copy((1,), (64,), (x, y))
    result = hl.explore(launch, seeds=0, stop=False)
    assert [len(t.differences) for t in result.trials] == [0, 1, 1, 0]        # late-copies lands them as lazy does


def test_exempt_arrays_may_differ_but_hazards_count():
    x, y = vectors()
    copy = kernel("copy", "-DBUG")

    def launch():
        copy((1,), (64,), (x, y))
    for exempt in ([y], "all"):
        result = hl.explore(launch, seeds=0, exempt=exempt, stop=False)
        assert not any(t.differences for t in result.trials) and result.hazards
    assert "exempt" in repr(hl.explore(lambda: kernel("copy")((1,), (64,), (x, y)), seeds=0, exempt=[y]))
    with pytest.raises(ValueError, match="all"):
        hl.explore(launch, exempt="y")


def test_floating_point_atomics_and_dynamic_orders_can_be_declared():
    x, total = np.ones(64, np.float32), np.zeros(1, np.float32)
    counter, order = np.zeros(1, np.int32), np.zeros(8, np.int32)
    tally, following = kernel("tally"), kernel("next")

    def launch():
        tally((1,), (64,), (x, total))
        following((8,), (32,), (counter, order))
    assert hl.explore(launch, seeds=4, exempt=[total, order]).clean


def test_a_fault_is_reported_with_its_schedule():
    x = np.zeros(64, np.float32)
    beyond = kernel("beyond")
    result = hl.explore(lambda: beyond((1,), (64,), (x,)), seeds=1)
    assert result.first.name == "lazy" and "out-of-bounds" in repr(result)


def test_explore_takes_the_schedule_over_from_emulate_inside():
    x, y = vectors()
    copy = kernel("copy", "-DBUG")
    seen = []

    def launch():
        with hl.emulate(schedule="eager", hazards="raise") as session:
            copy((1,), (64,), (x, y))
        seen.append((session.schedule, len(session.hazards)))
    result = hl.explore(launch, seeds=1, stop=False)
    assert [schedule for schedule, _ in seen] == ["lazy", "eager", "late-wgmma", "late-copies", "random"]
    assert all(len(t.hazards) == count for t, (_, count) in zip(result.trials, seen))


def test_errors_of_the_callable_come_through_with_arrays_restored():
    x, y = vectors()
    grow = kernel("grow")

    def launch():
        grow((1,), (64,), (x,))
        raise RuntimeError("mine")
    with pytest.raises(RuntimeError, match="mine"):
        hl.explore(launch)
    assert (x == np.arange(256)).all()
    with pytest.raises(hl.HopperlabError, match="launched no kernel"):
        hl.explore(lambda: None)
    with pytest.raises(ValueError, match="negative"):
        hl.explore(launch, seeds=-1)


@pytest.mark.parametrize("bug", ["", "BUG_EARLY_RELEASE"])
def test_a_warp_specialised_product_under_every_pairing(bug):
    """Late products with early copies are what an early release of a stage needs to print wrong values."""
    import ml_dtypes
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, (128, 512)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((128, 128), ml_dtypes.bfloat16)
    gemm = hl.load_kernel("gemm/warp_specialized.cu", "gemm", options=(f"-D{bug}=1",) if bug else (), backend="emulator")
    sizes = tuple(np.int32(n) for n in (128, 128, 512))

    def launch():
        maps = [hl.TensorMap.tiled(m, box=(128, 64), swizzle="128B") for m in (a, b)]
        gemm((1, 1), (384,), (*maps, c, *sizes), shared_mem=4 * 32768 + 64)
    result = hl.explore(launch, seeds=2, stop=False)
    assert result.clean == (not bug), result
    if bug:
        assert all("overwrite-in-flight" in {h.kind for h in t.hazards} for t in result.trials)
        late = next(t for t in result.trials if t.name == "late-wgmma")
        assert late.differences and not result.trials[0].differences
    else:
        assert (c == (a.astype(np.float32) @ b.astype(np.float32).T).astype(c.dtype)).all()


REACHED = r"""
#include <hopperlab/cp_async.cuh>
__device__ float4 kept[64];
extern "C" __global__ void spread(const float4* in, float4* const* table) {
    __shared__ float4 tile[64];
    cp_async_cg_16(&tile[threadIdx.x], &in[threadIdx.x]);       // read without a wait: values depend on the schedule
    cp_async_commit_group();
    kept[threadIdx.x] = tile[threadIdx.x];
    table[0][threadIdx.x] = tile[threadIdx.x];
}
"""


def test_variables_and_arrays_behind_pointers_are_compared_and_restored():
    spread = hl.RawModule(code=REACHED, backend="emulator").get_function("spread")
    xp = hl.array_module("emulator")
    x, behind, bystander = np.arange(256, dtype=np.float32), xp.ones(256, np.float32), xp.ones(8, np.float32)
    table = np.array([behind.data.ptr, bystander.data.ptr], np.uint64)
    result = hl.explore(lambda: spread((1,), (64,), (x, table)), seeds=0, stop=False)
    eager = next(trial for trial in result.trials if trial.schedule == "eager")
    told = "\n".join(map(str, eager.differences))
    assert len(eager.differences) == 2 and "variable kept" in told, told
    assert result.arrays == 4                        # two arguments, the variable, what the table leads to; not the bystander
    assert (behind == 0).all() and (bystander == 1).all()


def test_warnings_are_told_and_leave_it_clean():
    code = 'extern "C" __global__ void k(int* y) { y[threadIdx.x / 2] = threadIdx.x; }'
    last = hl.RawModule(code=code, backend="emulator").get_function("k")
    result = hl.explore(lambda: last((1,), (32,), (np.zeros(32, np.int32),)), seeds=1)
    assert result.clean and [w.kind for w in result.warnings] == ["race"]
    assert "race (warning)" in repr(result)


@pytest.mark.parametrize("name", ["tma_wgmma", "warp_specialized"])
def test_sums_that_round_are_equal_under_every_schedule(name):
    """Random floats: each wgmma is added on its own, in the order of issue, whenever it lands."""
    rng = np.random.default_rng(12)
    a, b = (rng.standard_normal((128, 320)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((128, 128), ml_dtypes.bfloat16)
    launch = launches.GEMMS[name](a, b, c, backend="emulator")
    found = hl.explore(lambda: launch.kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem), seeds=3)
    assert found.clean, found
