# SPDX-License-Identifier: Apache-2.0
"""Order of accesses to global memory: races between threads and blocks, flags and fences, and the copy engine's view."""
import hopperlab as hl
import numpy as np
import pytest

SCHEDULES = ("lazy", "eager", "random")


def hazards(source, grid, block, args, schedule="lazy", shared_mem=0, options=()):
    kernel = hl.RawModule(code=source, options=options, backend="emulator").get_function("kernel")
    with hl.emulate(schedule=schedule, hazards="collect") as session:
        kernel(grid, block, args, shared_mem=shared_mem)
    return session.hazards


def line(source, text):
    return next(k for k, row in enumerate(source.splitlines(), 1) if text in row)


NEIGHBOUR = r"""
extern "C" __global__ void kernel(int* a, int* out) {
    int i = threadIdx.x;
    a[i] = i * 3;                                      // WRITE
    if (SYNC) __syncthreads();
    out[i] = a[(i + 40) % 128];                        // READ
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_another_warps_element_needs_a_barrier(schedule):
    args = lambda: (np.zeros(128, np.int32), np.zeros(128, np.int32))
    (race,) = hazards(NEIGHBOUR, (1,), (128,), args(), schedule, options=("-DSYNC=0",))
    assert race.kind == "race"
    assert {race.where.line, race.other.line} == {line(NEIGHBOUR, "READ"), line(NEIGHBOUR, "WRITE")}
    assert hazards(NEIGHBOUR, (1,), (128,), args(), schedule, options=("-DSYNC=1",)) == []


IN_PLACE = r"""
extern "C" __global__ void kernel(int* a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int x = a[(i + SHIFT) % 256];                      // READ
    if (SYNC) __syncthreads();
    a[i] = x + 1;                                      // WRITE
}"""


@pytest.mark.parametrize("shift, sync, kinds", [(0, 0, []), (64, 0, ["race"]), (64, 1, ["race"])])
def test_writing_what_another_block_reads(shift, sync, kinds):
    """A barrier inside the block does not order blocks."""
    found = hazards(IN_PLACE, (2,), (128,), (np.zeros(256, np.int32),), options=(f"-DSHIFT={shift}", f"-DSYNC={sync}"))
    assert sorted({h.kind for h in found}) == kinds


def test_neighbours_inside_a_word_do_not_race():
    source = r"""
    extern "C" __global__ void kernel(unsigned short* a, unsigned char* b) {
        int i = threadIdx.x % 32 * 2 + threadIdx.x / 32;      // two warps write the halves of every word
        a[i] = i;
        b[i] = i;
    }"""
    a, b = np.zeros(64, np.uint16), np.zeros(64, np.uint8)
    assert hazards(source, (1,), (64,), (a, b)) == []
    assert a.tolist() == b.tolist() == list(range(64))


FLAG = r"""
extern "C" __global__ void kernel(int* data, volatile int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;           // WRITE
        __syncthreads();
        if (threadIdx.x == 0) {
            if (FENCE) __threadfence();
            *flag = 1;
        }
    } else {
        if (threadIdx.x == 0) { while (*flag == 0) {} __threadfence(); }
        __syncthreads();
        out[threadIdx.x] = data[63 - threadIdx.x];     // READ
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_flag_between_blocks_needs_a_fence(schedule):
    def args():
        return np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int32)
    given = args()
    assert hazards(FLAG, (2,), (64,), given, schedule, options=("-DFENCE=1",)) == []
    assert given[2].tolist() == [68 - t for t in range(64)]
    found = hazards(FLAG, (2,), (64,), args(), schedule, options=("-DFENCE=0",))
    assert [h.kind for h in found] == ["race"] and "__threadfence" in found[0].message


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_last_block_reduces(schedule):
    source = r"""
    extern "C" __global__ void kernel(const int* in, int* part, unsigned* count, int* out) {
        __shared__ bool last;
        atomicAdd(&part[blockIdx.x], in[blockIdx.x * 32 + threadIdx.x]);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicAdd(count, 1u) == gridDim.x - 1;
        __syncthreads();
        if (last && threadIdx.x == 0) {
            __threadfence();
            int sum = 0;
            for (int b = 0; b < gridDim.x; b++) sum += part[b];
            *out = sum;
        }
    }"""
    x = np.arange(6 * 32, dtype=np.int32)
    out = np.zeros(1, np.int32)
    found = hazards(source, (6,), (32,), (x, np.zeros(6, np.int32), np.zeros(1, np.uint32), out), schedule)
    assert out[0] == x.sum() and found == []


def test_grid_sync_of_cooperative_groups_orders_blocks():
    source = r"""
    __device__ unsigned arrived;
    extern "C" __global__ void kernel(int* a, unsigned* gate, int* out) {
        a[blockIdx.x * 32 + threadIdx.x] = blockIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) {                        // what grid.sync() does
            __threadfence();
            atomicAdd(gate, 1u);
            while (*(volatile unsigned*)gate < gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
        out[blockIdx.x * 32 + threadIdx.x] = a[(blockIdx.x + 1) % gridDim.x * 32 + threadIdx.x];
    }"""
    out = np.zeros(128, np.int32)
    found = hazards(source, (4,), (32,), (np.zeros(128, np.int32), np.zeros(1, np.uint32), out))
    assert found == [] and out.tolist() == [(b + 1) % 4 for b in range(4) for _ in range(32)]


COPY = r"""
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void kernel(float* a, float* out) {
    __shared__ __align__(128) float tile[64];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    a[t] = t;                                          // WRITE
    if (FENCE == 1) asm volatile("fence.proxy.async;" ::: "memory");
    if (FENCE == 2) asm volatile("fence.proxy.async.global;" ::: "memory");
    if (FENCE == 3) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        if (FENCE == 4) asm volatile("fence.proxy.async.global;" ::: "memory");
        mbarrier_arrive_expect_tx(&full, 256);
        cp_async_bulk_load(tile, a, 256, &full);       // COPY
    }
    mbarrier_wait_parity(&full, 0);
    out[t] = tile[63 - t];
}"""


@pytest.mark.parametrize("fence, kinds", [(0, ["missing-proxy-fence"]), (1, []), (2, []), (3, ["missing-proxy-fence"]), (4, [])])
def test_the_copy_engine_reads_what_the_kernel_wrote(fence, kinds):
    found = hazards(COPY, (1,), (64,), (np.zeros(64, np.float32), np.zeros(64, np.float32)), options=(f"-DFENCE={fence}",))
    assert [h.kind for h in found] == kinds
    if found:
        assert found[0].where.line == line(COPY, "COPY") and found[0].other.line == line(COPY, "WRITE")


STORE = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void kernel(float* a, float* out) {
    __shared__ __align__(128) float tile[64];
    int t = threadIdx.x;
    tile[t] = t;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (t == 0) {
        cp_async_bulk_store(a, tile, 256);             // STORE
        cp_async_bulk_commit_group();
        if (WAIT == 1) cp_async_bulk_wait_group_read<0>();
        if (WAIT == 2) cp_async_bulk_wait_group<0>();
        out[0] = a[5];                                 // READ
        cp_async_bulk_wait_group<0>();
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait, kinds", [(0, ["read-before-arrival"]), (1, ["read-before-arrival"]), (2, [])])
def test_reading_back_a_bulk_store(wait, kinds, schedule):
    """wait_group.read says that shared memory was read, not that global memory was written."""
    found = hazards(STORE, (1,), (64,), (np.zeros(64, np.float32), np.zeros(1, np.float32)), schedule, options=(f"-DWAIT={wait}",))
    assert [h.kind for h in found] == kinds
    if found:
        assert found[0].where.line == line(STORE, "READ") and found[0].other.line == line(STORE, "STORE")


def test_the_read_only_cache_and_data_of_this_kernel():
    source = r"""
    extern "C" __global__ void kernel(int* a, int* out) {
        a[threadIdx.x] = 7;
        __syncthreads();
        out[threadIdx.x] = __ldg(&a[threadIdx.x]);
    }"""
    found = hazards(source, (1,), (32,), (np.zeros(32, np.int32), np.zeros(32, np.int32)))
    assert [h.kind for h in found] == ["race"] and "read-only cache" in found[0].message


HANDOVER = r"""
#include <hopperlab/tma.cuh>
#include <hopperlab/fence.cuh>
extern "C" __global__ void kernel(float* data, int* flag, float* out) {
    __shared__ __align__(16) float tile[32];
    if (blockIdx.x == 0) {
        tile[threadIdx.x] = threadIdx.x;
        fence_proxy_async_shared_cta();
        __syncwarp();
        if (threadIdx.x == 0) {
            cp_async_bulk_store(data, tile, 128);                       // STORE
            cp_async_bulk_commit_group();
            if (READ_ONLY) cp_async_bulk_wait_group_read<0>();
            else cp_async_bulk_wait_group<0>();
            asm volatile("fence.proxy.async;" ::: "memory");
            asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(flag) : "memory");
            if (READ_ONLY) cp_async_bulk_wait_group<0>();
        }
    } else if (threadIdx.x == 0) {
        int seen = 0;
        while (!seen) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        out[0] = data[5];                                               // READ
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("read_only, kinds", [(0, []), (1, ["read-before-arrival"])])
def test_a_bulk_store_handed_to_another_block_must_have_been_written(read_only, kinds, schedule):
    arrays = np.zeros(32, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    found = hazards(HANDOVER, (2,), (32,), arrays, schedule, options=(f"-DREAD_ONLY={read_only}",))
    assert [h.kind for h in found] == kinds
    assert arrays[2][0] == 5 or read_only
    if found:
        assert found[0].where.line == line(HANDOVER, "// READ") and found[0].other.line == line(HANDOVER, "STORE")
