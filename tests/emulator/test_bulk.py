# SPDX-License-Identifier: Apache-2.0
"""Copies through registers, cp.async, bulk copies and scaling through TMA: every byte, under every schedule, no hazard."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab.measure.launches import launch as launches
from support.emulated import SCHEDULES, kinds, lines_with, run, told


def bytes_of(count, seed):
    return np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)


def collected(launch, schedule, seed=0):
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as session:
        launch()
    return session


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size, blocks, stages", [(16, 1, 2), (4096 * 9 + 16, 2, 4), (100_000, 3, 5), (32, 7, 2)])
def test_bulk_copy(size, blocks, stages, schedule):
    source, target = bytes_of(size, size), np.zeros(size, np.uint8)
    session = collected(launches.bulk_copy(source, target, stages, 4096, blocks, backend="emulator"), schedule)
    assert (source == target).all() and not session.hazards
    assert session.counters["bulk_load_bytes"] == session.counters["bulk_store_bytes"] == size


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size, blocks, stages", [(16, 1, 2), (16 * 3001, 2, 3), (16 * 256 * 11, 4, 8)])
def test_cp_async_copy(size, blocks, stages, schedule):
    source, target = bytes_of(size, size), np.zeros(size, np.uint8)
    session = collected(launches.cp_async_copy(source, target, stages, blocks, backend="emulator"), schedule)
    assert (source == target).all() and not session.hazards
    assert session.counters["cp_async_bytes"] == size


@pytest.mark.parametrize("size, unroll", [(16, 4), (16 * 5000, 1), (16 * 4097, 3)])
def test_vector_copy(size, unroll):
    source, target = bytes_of(size, size), np.zeros(size, np.uint8)
    session = collected(launches.vector_copy(source, target, unroll, backend="emulator"), "lazy")
    assert (source == target).all() and not session.hazards
    assert session.counters["global_load_bytes"] == session.counters["global_store_bytes"] == size


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape, blocks", [((64, 32), 1), ((130, 72), 2), ((1, 4), 3), ((200, 100), 1)])
def test_tma_scale(shape, blocks, schedule):
    source = np.random.default_rng(shape[0]).integers(-99, 99, shape).astype(np.float32)
    target = np.zeros(shape, np.float32)
    session = collected(launches.tma_scale(source, target, 3.0, blocks, backend="emulator"), schedule, 3)
    assert (target == 3 * source).all() and not session.hazards, told(session)


SCALE_BUGS = [
    ("BUG_NO_PROXY_FENCE", "missing-proxy-fence", "cp_async_bulk_tensor_2d_store(", "values[i] *= factor"),
    ("BUG_REUSE_BEFORE_READ", "overwrite-in-flight", "load(tile + gridDim.x", "cp_async_bulk_tensor_2d_store("),
    ("BUG_NO_FULL_WAIT", "read-before-arrival", "values[i] *= factor", "load("),
    ("BUG_WRONG_PARITY", "read-before-arrival", "values[i] *= factor", "load("),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bug, kind, early, other", SCALE_BUGS, ids=[b[0] for b in SCALE_BUGS])
def test_scale_bugs_are_named(bug, kind, early, other, schedule):
    source, target = np.ones((300, 64), np.float32), np.zeros((300, 64), np.float32)
    session = collected(launches.tma_scale(source, target, 2.0, 1, (f"-D{bug}=1",), backend="emulator"), schedule)
    found = [h for h in session.hazards if h.kind == kind]
    path = "copy/tma_scale.cu"
    if bug == "BUG_WRONG_PARITY" and schedule != "lazy" and kinds(session) == ["deadlock"]:
        return          # the copy landed before the wrong wait, which then waits for the phase after: also an error
    assert any(h.where.line in lines_with(early, path) and h.other.line in lines_with(other, path) for h in found), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bug", ["BUG_FORGOTTEN_EXPECT_TX", "BUG_WRONG_BYTES"])
def test_scale_deadlocks(bug, schedule):
    source, target = np.ones((64, 32), np.float32), np.zeros((64, 32), np.float32)
    session = collected(launches.tma_scale(source, target, 2.0, 1, (f"-D{bug}=1",), backend="emulator"), schedule)
    assert "deadlock" in kinds(session), told(session)


def test_micro_loads_are_clean_and_sum_right():
    matrix = np.random.default_rng(4).integers(0, 9, (128, 128)).astype(np.uint16)
    for how in ("tma", "cp_async"):
        out = np.zeros(2, np.uint32)
        session = collected(launches.box_load(how, matrix, out, (64, 64), 2, 2, backend="emulator"), "lazy")
        last = [matrix[64:, :64], matrix[64:, 64:]]
        assert out.tolist() == [int(x.view(np.uint32).sum()) if x.flags.c_contiguous
                                else int(np.ascontiguousarray(x).view(np.uint32).sum()) for x in last]
        assert not session.hazards, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("waits", [True, False])
def test_a_block_that_ends_under_a_copy(schedule, waits):
    source = r"""
    extern "C" __global__ void k(const unsigned char* x, unsigned char* y) {
        __shared__ __align__(128) unsigned char s[256];
        __shared__ mbarrier_t full;
        if (threadIdx.x) return;
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 256);
        cp_async_bulk_load(s, x, 256, &full);
        if (WAITS) mbarrier_wait_parity(&full, 0);
    }"""
    x, y = bytes_of(256, 1), np.zeros(256, np.uint8)
    session = run(source, (x, y), schedule=schedule, options=(f"-DWAITS={int(waits)}",))
    assert kinds(session) == ([] if waits else ["exit-in-flight"]), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", ["", "cp_async_bulk_wait_group_read<0>();", "cp_async_bulk_wait_group<0>();"])
def test_a_block_that_ends_under_a_store(schedule, wait):
    source = r"""
    extern "C" __global__ void k(unsigned char* y) {
        __shared__ __align__(128) unsigned char s[256];
        for (int i = threadIdx.x; i < 256; i += 32) s[i] = i;
        fence_proxy_async_shared_cta();
        __syncwarp();
        if (threadIdx.x == 0) {
            cp_async_bulk_store(y, s, 256);
            cp_async_bulk_commit_group();
            WAIT
        }
    }""".replace("WAIT", wait)
    y = np.zeros(256, np.uint8)
    session = run(source, (y,), schedule=schedule)
    assert kinds(session) == ([] if wait else ["exit-in-flight"]), told(session)
    assert (y == np.arange(256)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_misaligned_bulk_copy_is_a_fault(schedule):
    source = r"""
    extern "C" __global__ void k(const unsigned char* x, int bytes, int at) {
        __shared__ __align__(128) unsigned char s[256];
        __shared__ mbarrier_t full;
        if (threadIdx.x) return;
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, bytes);
        cp_async_bulk_load(s + at, x + at, bytes, &full);
        mbarrier_wait_parity(&full, 0);
    }"""
    x = bytes_of(256, 2)
    for size, at in ((24, 0), (32, 8), (512, 0)):
        with pytest.raises(hl.MemoryFault, match="bulk"):
            run(source, (x, np.int32(size), np.int32(at)), schedule=schedule, hazards="raise")
