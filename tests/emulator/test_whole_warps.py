# SPDX-License-Identifier: Apache-2.0
"""Bulk copies that a whole warp runs, copies of no bytes, and tiles whose words were written in halves.

The rule for warps (docs/emulator.md): a store happens once for each different set of operands in the warp, everything else once a lane. Read off
the machine code that ptxas 13.0 makes; what a GPU says is in tests/gpu/proxy_facts.py.
"""
import re

import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, run, told

STORE = r"""
extern "C" __global__ void __launch_bounds__(64) k(const __grid_constant__ TensorMap map, float* y) {
    extern __shared__ __align__(128) float s[];
    for (int i = threadIdx.x; i < 2048; i += 64) s[i] = i + 1;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x >= 32) return;
    int place = PLACE;
    STORES;
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group_read<0>();
    s[64 * place + threadIdx.x % 2] = -1;                       // the slot is free again
    cp_async_bulk_wait_group<0>();
}"""
STORES = {"tensor": "cp_async_bulk_tensor_2d_store(&map, s + 64 * place, 0, 8 * place)", "bulk": "cp_async_bulk_store(y + 64 * place, s + 64 * place, 256)"}
PLACES = {"0": 1, "threadIdx.x": 32, "threadIdx.x / 8": 4, "threadIdx.x & 5": 4}


def stored(kind, place, schedule, text=STORE):
    y = np.zeros((256, 8), np.float32)
    source = text.replace("STORES", STORES[kind]).replace("PLACE", place)
    session = run(source, (hl.TensorMap.tiled(y, box=(8, 8)), y), block=(64,), schedule=schedule, shared_mem=8192)
    return session, y


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", STORES)
def test_stores_happen_once_for_each_different_set_of_operands(kind, place, schedule):
    session, y = stored(kind, place, schedule)
    tiles = sorted({eval(place.replace("threadIdx.x", str(lane)).replace("/", "//")) for lane in range(32)})
    want = np.zeros((32, 64), np.float32)
    want[tiles] = np.arange(1, 2049).reshape(32, 64)[tiles]
    assert (y.reshape(32, 64) == want).all()
    assert not session.hazards and not session.warnings, told(session)
    assert sum(e.kind == "issue" for e in session.timeline) == len(tiles) == PLACES[place]


@pytest.mark.parametrize("kind", STORES)
def test_a_store_by_a_warp_still_has_to_be_waited_for(kind):
    session, _ = stored(kind, "0", "lazy", STORE.replace("cp_async_bulk_wait_group_read<0>();", ""))
    assert "overwrite-in-flight" in kinds(session), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", STORES)
def test_some_lanes_are_as_good_as_a_warp_and_the_first_may_wait_for_all(kind, schedule):
    """The store belongs to the first lane that has its operands; the others learn of its end by a sync."""
    text = STORE.replace("    STORES;\n", "    if (threadIdx.x < 7) return;\n    STORES;\n    if (threadIdx.x == 7) {\n").replace(
        "cp_async_bulk_wait_group_read<0>();", "cp_async_bulk_wait_group_read<0>();\n    }\n    __syncwarp(0xffffff80);")
    session, y = stored(kind, "0", schedule, text)
    assert not session.hazards and not session.warnings, told(session)
    assert (y.ravel()[:64] == np.arange(1, 65)).all()
    session, _ = stored(kind, "0", schedule, text.replace("threadIdx.x == 7", "threadIdx.x == 9"))
    assert "overwrite-in-flight" in kinds(session), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tiles_of_several_lanes_over_each_other_are_no_one_store(schedule):
    """Different sources for one place: two stores, which nothing orders."""
    text = STORE.replace("s + 64 * place", "s + 64 * (threadIdx.x % 2)").replace("PLACE", "0")
    source = text.replace("STORES", STORES["bulk"].replace("s + 64 * place", "s + 64 * (threadIdx.x % 2)"))
    session = run(source, (hl.TensorMap.tiled(np.zeros((256, 8), np.float32), box=(8, 8)), np.zeros((256, 8), np.float32)), block=(64,),
                  schedule=schedule, shared_mem=8192)
    assert "overwrite-in-flight" in kinds(session), told(session)


EVERY_LANE = r"""
extern "C" __global__ void __launch_bounds__(32) k(const __grid_constant__ TensorMap map, const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 32 * 256); }
    s[threadIdx.x] = s[threadIdx.x + 32] = 1;
    fence_proxy_async_shared_cta();
    __syncwarp();
    COPY;
}"""


@pytest.mark.parametrize("copy", [
    'asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %2}], [%1];" :: "l"(&map), "r"(shared_address(s)), "r"(0) : "memory")',
    'asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" :: "l"(y), "r"(shared_address(s)) : "memory")'])
def test_reductions_happen_once_a_lane(copy):
    y = np.zeros((8, 8), np.float32)
    session = run(EVERY_LANE.replace("COPY", copy + "; cp_async_bulk_commit_group(); cp_async_bulk_wait_group<0>()"), (hl.TensorMap.tiled(y, box=(8, 8)), y, y),
                  block=(32,))
    assert (y == 32).all() and not session.hazards, told(session)       # measured on an H100: 32 lanes add 32


@pytest.mark.parametrize("copy", ["cp_async_bulk_load(s, x, 256, &full)", "cp_async_bulk_tensor_2d_load(s, &map, &full, 0, 0)"])
def test_loads_happen_once_a_lane(copy):
    """32 copies to one place: their bytes all count, and they overwrite each other."""
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    session = run(EVERY_LANE.replace("COPY", copy + "; mbarrier_wait_parity(&full, 0)"), (hl.TensorMap.tiled(x, box=(8, 8)), x, x), block=(32,))
    assert session.counters["tma_load_bytes" if "tensor" in copy else "bulk_load_bytes"] == 32 * 256
    assert "overwrite-in-flight" in kinds(session), told(session)


NOTHING = r"""
#include <hopperlab/cluster.cuh>
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(32) k(const float* x, float* y, unsigned bytes) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full, far;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    s[threadIdx.x] = 5;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_init(&far, 1); fence_mbarrier_init_release_cluster(); }
    fence_proxy_async_shared_cta();
    barrier_cluster_arrive(); barrier_cluster_wait();
    if (threadIdx.x == 0) {
        unsigned there = (shared_address(s) & 0xffffff) | (rank ^ 1) << 24, signal = (shared_address(&far) & 0xffffff) | (rank ^ 1) << 24;
        mbarrier_arrive_expect_tx(&full, bytes + 16);
        cp_async_bulk_load(s, x + 1000000 * AWAY, bytes, &full);
        cp_async_bulk_load(s + 32, x, 16, &full);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(there), "r"(shared_address(s + 48)), "r"(bytes), "r"(signal) : "memory");
        mbarrier_wait_parity(&full, 0);
        cp_async_bulk_store(y + 1000000 * AWAY, s, bytes);
        cp_async_bulk_prefetch_l2(x, bytes);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
        y[16 + rank] = s[0];
    }
    barrier_cluster_arrive(); barrier_cluster_wait();
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("away", (0, 4))
def test_a_copy_of_no_bytes_reads_writes_and_signals_nothing(away, schedule):
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    session = run(NOTHING, (x, y, np.uint32(0)), grid=(2,), block=(32,), schedule=schedule, options=(f"-DAWAY={away}",))
    assert not session.hazards and not session.warnings, told(session)
    assert y[16] == y[17] == 5 and y.sum() == 10


def test_bulk_copies_that_leave_an_array_or_meet_one_that_is_read_only_are_named():
    source = r"""
    extern "C" __global__ void k(const float* x, float* y, int from, int to, unsigned bytes) {
        __shared__ __align__(16) float s[512];
        __shared__ mbarrier_t full;
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, bytes);
        cp_async_bulk_load(s, x + from, bytes, &full);
        mbarrier_wait_parity(&full, 0);
        cp_async_bulk_store(y + to, s, bytes);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }"""
    def message(from_, to, nbytes, writable=True):
        x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
        y.flags.writeable = writable
        session = run(source, (x, y, np.int32(from_), np.int32(to), np.uint32(nbytes)), block=(1,))
        found, = (h for h in session.hazards if h.case != "expect-range")
        assert found.kind in ("out-of-bounds", "misaligned")
        return found.message
    assert "argument 1" in message(4, 0, 256) and "argument 2" in message(0, 4, 256)
    assert "past the end" in message(-4, 0, 256) or "below every array" in message(-4, 0, 256)      # begins before the array and ends in it
    assert re.search("argument 2 .* is read-only", message(0, 0, 256, writable=False))
    assert "multiples of 16" in message(0, 0, 8) and "4294967280 bytes" in message(0, 0, 0xFFFFFFF0)


HALVES = r"""
extern "C" __global__ void __launch_bounds__(128) k(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out, TYPE start) {
    extern __shared__ __align__(1024) TYPE s[];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 8192); cp_async_bulk_tensor_2d_load(s, &in, &full, 0, 0); }
    __syncthreads();
    mbarrier_wait_parity(&full, 0);
    __syncthreads();
    for (int i = threadIdx.x; i < 8192 / sizeof(TYPE); i += 128) if (i % 16 < PART) s[i] = start + i;
    if (FENCE) fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_tensor_2d_store(&out, s, 0, 0);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""


@pytest.mark.parametrize("dtype, type_", [(np.uint16, "unsigned short"), (np.uint8, "unsigned char"), (np.uint32, "unsigned")])
@pytest.mark.parametrize("part", (16, 5, 1))
def test_a_tile_whose_words_several_threads_wrote_by_halves_is_stored(dtype, type_, part):
    for swizzle in ("none", "128B"):
        columns = 128 // np.dtype(dtype).itemsize
        x, y = np.full((64, columns), 7, dtype), np.zeros((64, columns), dtype)
        maps = [hl.TensorMap.tiled(a, box=(64, columns), swizzle=swizzle) for a in (x, y)]
        for fence in (1, 0):
            session = run(HALVES, (*maps, dtype(3)), block=(128,), shared_mem=8192, options=(f"-DTYPE={type_}", f"-DPART={part}", f"-DFENCE={fence}"))
            assert kinds(session) == ([] if fence else ["missing-proxy-fence"]), told(session)
        if swizzle == "none":
            flat = np.full(64 * columns, 7, dtype)
            where = np.arange(len(flat)) % 16 < part
            flat[where] = (3 + np.arange(len(flat))).astype(dtype)[where]
            assert (y.ravel() == flat).all()


def test_a_product_of_a_tile_that_bf16_stores_changed():
    """wgmma reads a tile that TMA brought and threads changed by halves of words: it needs a fence, and no index runs away."""
    source = r"""
    extern "C" __global__ void __launch_bounds__(128) k(const __grid_constant__ TensorMap map, float* y) {
        extern __shared__ __align__(1024) unsigned short s[];
        __shared__ mbarrier_t full;
        if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 8192); cp_async_bulk_tensor_2d_load(s, &map, &full, 0, 0); }
        __syncthreads();
        mbarrier_wait_parity(&full, 0);
        for (int i = threadIdx.x; i < 4096; i += 128) s[i] = 0x3f80;    // bf16 1.0
        if (FENCE) fence_proxy_async_shared_cta();
        __syncthreads();
        float d[32] = {};
        wgmma_fence();
        unsigned long long tile = wgmma_descriptor_128B(shared_address(s));
        wgmma_m64n64k16_bf16(d, tile, tile, 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        for (int i = 0; i < 32; i++) y[i * 128 + threadIdx.x] = d[i];
    }"""
    x, y = np.zeros((64, 64), ml_dtypes.bfloat16), np.zeros(4096, np.float32)
    for fence in (1, 0):
        session = run(source, (hl.TensorMap.tiled(x, box=(64, 64), swizzle="128B"), y), block=(128,), shared_mem=8192, options=(f"-DFENCE={fence}",))
        assert kinds(session) == ([] if fence else ["missing-proxy-fence"]), told(session)
        assert (y == 16).all()
