# SPDX-License-Identifier: Apache-2.0
"""CTAs by how often their warps branch: their control flow alone, and samples that are cut before anything was written."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.estimates import branching, estimating, sample, skeleton, trace
from hopperlab.measure.launches import gemm
from hopperlab.measure import recordings

KEPT = []           # what arrays plans point to


@pytest.fixture(autouse=True)
def forgotten():
    yield
    KEPT.clear()


def planned(step, m, n, k):
    a, b, c = (np.zeros(shape, np.uint16) for shape in ((m, k), (n, k), (m, n)))
    launch = gemm.launch(step, a, b, c, backend="emulator")
    plan, kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    KEPT.extend((launch, kept))
    return plan


@pytest.mark.parametrize("step", ["naive", "shared_tile", "mma_multistage", "tma_mma", "warp_specialized"])
def test_control_flow_alone_branches_as_often_as_the_kernel(step):
    launch = planned(step, 512, 512, 448)
    clusters = launch.geometry.ctas // launch.geometry.cluster_ctas
    last = sample.run(launch, (clusters - 1,))
    assert last.whole and branching.counted(launch, [0, clusters - 1])[-1].tolist() == last.trace.turned


def test_a_sample_that_is_cut_goes_on_as_it_went(monkeypatch):
    whole = estimating.of_sample(estimating.sampled(planned("mma_multistage", 256, 256, 4096), "x"), "x", estimating.boards.board("h200"))
    monkeypatch.setattr(trace, "MOST_ALONE", 500_000)
    found = estimating.sampled(planned("mma_multistage", 256, 256, 4096), "x")
    cut = estimating.of_sample(found, "x", estimating.boards.board("h200"))
    assert 0.2 < found.done < 0.35 and cut.us == pytest.approx(whole.us, rel=0.05) and cut.mma == pytest.approx(whole.mma, rel=0.1)
    assert "% of their work, the rest at the pace" in cut.how


def test_who_does_more_than_others_is_told_by_branches_alone():
    kernel = hl.RawModule(code="""extern "C" __global__ void uneven(const float* in, float* out, int n) {
        float sum = 0;
        for (int i = 0; i < n * (1 + blockIdx.x); i++) sum += in[(i * 32 + threadIdx.x) % 4096];
        out[blockIdx.x * 32 + threadIdx.x] = sum;
    }""", options=("-lineinfo",), backend="emulator").get_function("uneven")
    given = np.zeros(4096, np.float32), np.zeros(128, np.float32), np.int32(64)
    launch, _kept = sample.planned(kernel, (4,), (32,), given)
    often = branching.counted(launch, [0, 3]).sum(axis=1)
    assert 3 < often[1] / often[0] < 4.1


@pytest.mark.parametrize("step", ["shared_tile", "register_double_buffer"])
def test_steps_without_tensor_cores_have_an_estimate_at_8192_cubed(step):
    measured = next(record.ms for record in recordings.load("ladder", board="h200").records if record.kernel == step and record.shape[0] == 8192)
    found = estimating.of_sample(estimating.sampled(planned(step, 8192, 8192, 8192), step), step, estimating.boards.board("h200"))
    assert found.us / 1e3 == pytest.approx(measured, rel=0.15)


def test_what_no_branch_needs_is_left_out():
    text = """
    ld.global.u32 %r1, [%rd1];
    { cvt.f32.bf16 %f1, %rs1;}
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4,%r5,%r6,%r7}, [%r8];
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4,%f5,%f6,%f7}, {%r4,%r5,%r6,%r7}, {%r9,%r10}, {%f4,%f5,%f6,%f7};
    add.s32 %r2, %r1, 1;
    setp.lt.s32 %p1, %r2, %r3;
    ld.volatile.global.u32 %r11, [%rd1];
    @%p1 bra $L__BB0_6;
    st.global.f32 [%rd2], %f1;"""
    left = [line.strip() for line in skeleton.branches(text).splitlines() if line.strip()]
    assert left == ["ld.global.u32 %r1, [%rd1];", "add.s32 %r2, %r1, 1;", "setp.lt.s32 %p1, %r2, %r3;", "@%p1 bra $L__BB0_6;"]


def test_loops_by_way_of_shared_memory_are_not_believed():
    """The control flow alone stores nothing, so that all CTAs would seem to do as little as the first."""
    kernel = hl.RawModule(code="""extern "C" __global__ void dealt(const int* lengths, float* out) {
        __shared__ int n;
        if (threadIdx.x == 0) n = lengths[blockIdx.x];
        __syncthreads();
        float sum = 0;
        for (int i = 0; i < n; i++) sum = sum * 0.5f + i;
        out[blockIdx.x * 32 + threadIdx.x] = sum;
    }""", backend="emulator").get_function("dealt")
    lengths, out = np.arange(1, 8192, dtype=np.int32) // 8, np.zeros(8191 * 32, np.float32)
    launch, _kept = sample.planned(kernel, (8191,), (32,), (lengths, out))
    assert branching.counted(launch, [0, 8000]) is None
    assert len(sample.typical(launch).ctas) == sample.MIXED_LANES, "CTAs from all over the grid, since they differ"


def test_a_sample_is_held_against_its_control_flow():
    known = np.array([[3, 5], [3, 5]])
    assert branching.follows([6, 10], known, True) and not branching.follows([6, 9], known, True)
    assert branching.follows([6, 2], known, False) and not branching.follows([7, 2], known, False)
