# SPDX-License-Identifier: Apache-2.0
"""Kernels as strangers write them: maps that change under a copy, counters whose atomics are the block's own, and shared memory that volatile stores fill."""
import hopperlab as hl
import numpy as np
import pytest
from support.gemms import SCHEDULES

pytestmark = pytest.mark.emulator_only

MAPS = r"""
struct Map { alignas(64) unsigned long long words[16]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void publish(Map* map, Map* edited, float* where) {            // by a whole warp
    if (threadIdx.x == 0)
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(at(edited)), "l"(where) : "memory");
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 :: "l"(map), "r"(at(edited)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
extern "C" __global__ void stores(const __grid_constant__ Map start, Map* map, float* y) {
    __shared__ __align__(128) float tile[2][64];
    __shared__ __align__(128) Map edited;
    if (threadIdx.x < 16) edited.words[threadIdx.x] = start.words[threadIdx.x];
    for (int g = 0; g < 4; g++) {
        tile[g & 1][threadIdx.x] = tile[g & 1][threadIdx.x + 32] = g;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        publish(map, &edited, y + 512 * g);                               // CHANGE stores
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {0, 0}], [%1];" :: "l"(map), "r"(at(tile[g & 1])) : "memory");  // USE
            asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
        }
        __syncwarp();
    }
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
extern "C" __global__ void loads(const __grid_constant__ Map start, Map* map, float* x, float* y) {
    __shared__ __align__(128) float tile[2][64];
    __shared__ __align__(128) Map edited;
    __shared__ unsigned long long full[2];
    if (threadIdx.x < 16) edited.words[threadIdx.x] = start.words[threadIdx.x];
    if (threadIdx.x < 2) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full[threadIdx.x])) : "memory");
    __syncwarp();
    for (int g = 0; g < 2 + PENDING; g++) {
        if (g < 2) {
            publish(map, &edited, x + 512 * g);                           // CHANGE loads
            if (threadIdx.x == 0) {
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(at(&full[g])) : "memory");
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {0, 0}], [%2];"
                             :: "r"(at(tile[g])), "l"(map), "r"(at(&full[g])) : "memory");          // FETCH
            }
        }
        if (g >= PENDING) {
            int s = g - PENDING;
            asm volatile("{ .reg .pred p;\nW%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W%=; }" :: "r"(at(&full[s])) : "memory");
            y[64 * s + threadIdx.x] = tile[s][threadIdx.x];
        }
    }
}"""


def found(source, name, grid, block, args, schedule, seed=0, options=()):
    kernel = hl.RawModule(code=source, options=options, backend="emulator").get_function(name)
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run:
        kernel((grid,), (block,), args)
    return [(h.kind, h.case, h.where.line, h.other.line if h.other else None) for h in run.hazards]


def line(source, text):
    return next(k for k, row in enumerate(source.splitlines(), 1) if text in row)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("pending", (0, 1))
@pytest.mark.parametrize("name, use, case", [("stores", "USE", "global-overwrite"), ("loads", "FETCH", "global-overwrite-copy")])
def test_a_map_in_global_memory_is_not_changed_under_a_copy(name, use, case, pending, schedule):
    xp = hl.array_module("emulator")
    x, y = xp.zeros((64, 64), np.float32), xp.zeros(128, np.float32)
    maps = (hl.TensorMap.tiled(x, box=(8, 8)), xp.zeros((1, 128), np.uint8), x, *((y,) if name == "loads" else ()))
    wanted = [("overwrite-in-flight", case, line(MAPS, f"CHANGE {name}"), line(MAPS, f"// {use}"))] if pending else []
    assert found(MAPS, name, 1, 32, maps, schedule, options=(f"-DPENDING={pending}",)) == wanted


TICKETS = r"""
extern "C" __global__ void kernel(int* counter, int* y) {
    __shared__ int tile;
    for (;;) {
        if (threadIdx.x == 0) tile = ADD(counter, 1);             // TAKE
        __syncthreads();
        int mine = tile;
        __syncthreads();
        if (mine >= 8) break;
        y[32 * mine + threadIdx.x] = mine;
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("grid, add, named", [(2, "atomicAdd_block", True), (2, "atomicAdd", False), (1, "atomicAdd_block", False)])
def test_tickets_of_several_blocks_need_device_scope(grid, add, named, schedule):
    take = line(TICKETS, "TAKE")
    args = (np.zeros(1, np.int32), np.zeros(256, np.int32))
    assert found(TICKETS, "kernel", grid, 32, args, schedule, options=(f"-DADD={add}",)) == ([("race", "narrow-atomics", take, take)] if named else [])


OTHER_SCOPE = r"""
extern "C" __global__ void kernel(int* count) {
    if (blockIdx.x == 0) atomicAdd_block(count, 1);               // OWN
    else atomicAdd(count, 1);                                     // ALL
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_one_scope_too_narrow_is_enough(schedule):
    (hazard,) = found(OTHER_SCOPE, "kernel", 2, 1, (np.zeros(1, np.int32),), schedule)
    assert hazard[:2] == ("race", "narrow-atomics") and set(hazard[2:]) == {line(OTHER_SCOPE, "OWN"), line(OTHER_SCOPE, "ALL")}


VOLATILE = r"""
extern "C" __global__ void kernel(const float* x, float* y) {
    __shared__ float tile[64];
    if (STORE) ((volatile float*)tile)[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_volatile_stores_have_written(schedule):
    args = (np.arange(64, dtype=np.float32), np.zeros(64, np.float32))
    assert not found(VOLATILE, "kernel", 1, 64, args, schedule, options=("-DSTORE=1",)) and args[1][0] == 63
    assert [h[1] for h in found(VOLATILE, "kernel", 1, 64, args, schedule, options=("-DSTORE=0",))] == ["never-written"]


SENT = r"""
extern "C" __global__ void kernel(float* y) {
    __shared__ __align__(128) float tile[64];
    volatile float* words = tile;
    unsigned at = (unsigned)__cvta_generic_to_shared(tile);
    for (int i = 0; i < 2; i++) {
        words[threadIdx.x] = threadIdx.x + i;                     // FILL
        if (FENCE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" :: "l"(y + 64 * i), "r"(at) : "memory");      // SEND
            asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fence", (0, 1))
def test_what_volatile_stores_fill_is_fenced_before_a_bulk_store(fence, schedule):
    wanted = [] if fence else [("missing-proxy-fence", "shared-proxy-fence", line(SENT, "SEND"), line(SENT, "FILL"))]
    assert found(SENT, "kernel", 1, 64, (np.zeros(128, np.float32),), schedule, options=(f"-DFENCE={fence}",)) == wanted


PRODUCT = r"""
extern "C" __global__ void __launch_bounds__(128) kernel(float* y) {
    __shared__ __align__(1024) unsigned char tile[9216];
    for (int i = threadIdx.x; i < 2304; i += 128) ((volatile unsigned*)tile)[i] = 0x3f803f80;      // FILL
    if (FENCE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long at = (unsigned)__cvta_generic_to_shared(tile);
    unsigned long long a = (at & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62, b = a + 512;
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");                             // MULTIPLY
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
    y[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fence", (0, 1))
def test_what_volatile_stores_fill_is_fenced_before_a_product(fence, schedule):
    wanted = [] if fence else [("missing-proxy-fence", "shared-proxy-fence", line(PRODUCT, "MULTIPLY"), line(PRODUCT, "FILL"))]
    y = np.zeros(128, np.float32)
    assert found(PRODUCT, "kernel", 1, 128, (y,), schedule, options=(f"-DFENCE={fence}",)) == wanted and (y == 64).all()


SHUFFLE = r"""
extern "C" __global__ void kernel(float* y) {
    float v = threadIdx.x;
    if (threadIdx.x % 32 < 16) v = SHFL;                          // ASK
    y[threadIdx.x] = v;
}"""
SHUFFLES = [("__shfl_xor_sync(0xffff, v, 16)", True), ("__shfl_sync(0xffff, v, 20)", True), ("__shfl_xor_sync(0xffff, v, 8)", False),
            ("__shfl_sync(0xffff, v, 3)", False), ("__shfl_sync(0xffff, v, 20, 16)", False), ("__shfl_down_sync(0xffff, v, 8)", False)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shuffle, named", SHUFFLES, ids=[s for s, _ in SHUFFLES])
def test_a_shuffle_reads_lanes_of_its_mask(shuffle, named, schedule):
    kernel = hl.RawModule(code=SHUFFLE, options=(f"-DSHFL={shuffle}",), backend="emulator").get_function("kernel")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        kernel((1,), (64,), (np.zeros(64, np.float32),))
    assert not run.hazards and [(w.case, w.where.line) for w in run.warnings] == ([("lane-outside", line(SHUFFLE, "ASK"))] if named else [])
