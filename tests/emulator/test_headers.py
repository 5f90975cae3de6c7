# SPDX-License-Identifier: Apache-2.0
"""The toolkit's own headers and libcu++ in the emulator: cooperative groups, half types, barriers, pipelines, atomics, cuda::ptx."""
import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest

SCHEDULES = ("lazy", "eager", "random")


def run(source, args, grid=(1,), block=(128,), schedule="lazy", name="k", hazards="raise"):
    """Compile as C++17 and launch; no hazard is tolerated."""
    kernel = hl.RawModule(code=source, options=("-std=c++17",), backend="emulator").get_function(name)
    with hl.emulate(schedule=schedule, hazards=hazards) as session:
        kernel(grid, block, args)
    return session


GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int* in, int* out) {
    cg::thread_block block = cg::this_thread_block();
    int t = block.thread_rank(), x = in[t];
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    out[t] = cg::reduce(warp, x, cg::plus<int>());
    out[128 + t] = cg::reduce(eight, x, cg::greater<int>());
    out[256 + t] = cg::exclusive_scan(warp, x);
    out[384 + t] = -1;
    if (t % 3 == 0) {
        auto some = cg::coalesced_threads();
        out[384 + t] = some.thread_rank() * 1000 + cg::reduce(some, x, cg::plus<int>());
    }
    block.sync();
    auto labelled = cg::labeled_partition(cg::coalesced_threads(), t & 3);
    out[512 + t] = labelled.size() * 10 + labelled.thread_rank();
    out[640 + t] = cg::binary_partition(warp, x > 5).size();
    out[768 + t] = warp.any(x > 7) + 2 * warp.all(x >= 0) + 4 * __popc(warp.ballot(x & 1)) + eight.shfl_xor(x, 3) * 1000;
    auto quarter = cg::tiled_partition(block, 16);
    __shared__ int s[128];
    s[t] = x;
    quarter.sync();
    out[896 + t] = s[t ^ 15] + quarter.thread_rank() * 100;
}"""


def test_cooperative_groups():
    x, out = np.random.default_rng(83).integers(0, 10, 128).astype(np.int32), np.zeros(1024, np.int32)
    run(GROUPS, (x, out))
    t, warps, out = np.arange(128), x.reshape(4, 32), out.reshape(8, 128)
    assert (out[0].reshape(4, 32) == warps.sum(axis=1)[:, None]).all()
    assert (out[1].reshape(16, 8) == x.reshape(16, 8).max(axis=1)[:, None]).all()
    assert (out[2].reshape(4, 32) == np.cumsum(warps, axis=1) - warps).all()
    for i in t:
        mates = t[(t // 32 == i // 32) & (t % 3 == 0)]
        assert out[3][i] == (int((mates < i).sum()) * 1000 + int(x[mates].sum()) if i % 3 == 0 else -1)
    assert (out[4] == 80 + t % 32 // 4).all()
    big = (warps > 5).sum(axis=1)[:, None]
    assert (out[5].reshape(4, 32) == np.where(warps > 5, big, 32 - big)).all()
    assert (out[6] == np.repeat((warps > 7).any(axis=1) + 2 + 4 * (warps & 1).sum(axis=1), 32) + 1000 * x[t ^ 3]).all()
    assert (out[7] == x[t ^ 15] + t % 16 * 100).all()


NARROW_TYPES = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void k(const float* x, __half* h, __nv_bfloat16* b, __nv_fp8_e4m3* f8, __nv_fp8_e5m2* f5, float* out,
                             __half2* h2, __half* hsum, __nv_bfloat162* bsum, unsigned* packed) {
    int t = threadIdx.x;
    __half a = __float2half(x[t]);
    __nv_bfloat16 c = __float2bfloat16(x[t]);
    h[t] = __hfma(a, a, __float2half(1.0f));
    b[t] = c * c + __float2bfloat16(0.5f);
    f8[t] = __nv_fp8_e4m3(x[t]);
    f5[t] = __nv_fp8_e5m2(x[t]);
    out[t] = float(f8[t]) + float(f5[t]);
    h2[t] = __hmul2(__halves2half2(a, __hneg(a)), __float2half2_rn(3.0f));
    out[64 + t] = __half2float(hsqrt(__habs(a)));
    out[128 + t] = __hgt(a, h[t]) + 2 * __hisnan(a) + 4 * __half2int_rn(a);
    atomicAdd(hsum, __float2half(1.0f));
    atomicAdd(bsum, __floats2bfloat162_rn(1.0f, -2.0f));
    __nv_fp8x4_e4m3 four(make_float4(x[t], -x[t], 2.0f, 1.0f));
    packed[t] = *reinterpret_cast<unsigned*>(&four);
}"""


def test_half_bf16_and_fp8_types():
    x = np.random.default_rng(89).normal(scale=3, size=64).astype(np.float32)
    f16, bf16, e4, e5 = np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    h, b, f8, f5 = np.zeros(64, f16), np.zeros(64, bf16), np.zeros(64, e4), np.zeros(64, e5)
    out, h2, hsum, bsum, packed = np.zeros(192, np.float32), np.zeros(128, f16), np.zeros(2, f16), np.zeros(2, bf16), np.zeros(64, np.uint32)
    run(NARROW_TYPES, (x, h, b, f8.view(np.uint8), f5.view(np.uint8), out, h2, hsum, bsum, packed), block=(64,))
    a, c = x.astype(f16), x.astype(bf16)
    assert (h == (a.astype(np.float64) ** 2 + 1).astype(f16)).all()
    product = (c.astype(np.float32) ** 2)                              # the compiler may fuse or round in between
    fused, split = (product + np.float32(0.5)).astype(bf16), (product.astype(bf16).astype(np.float32) + np.float32(0.5)).astype(bf16)
    assert ((b == fused) | (b == split)).all()
    assert (f8 == x.astype(e4)).all() and (f5 == x.astype(e5)).all()
    assert (out[:64] == f8.astype(np.float32) + f5.astype(np.float32)).all()
    assert (h2.reshape(64, 2) == np.stack([a, -a], axis=1) * f16(3)).all()
    assert np.allclose(out[64:128], np.sqrt(np.abs(a.astype(np.float32))), rtol=2e-3)
    assert (out[128:] == (a > h) + 4 * np.rint(a.astype(np.float32))).all()
    assert hsum[0] == 64 and bsum.astype(np.float32).tolist() == [64, -128]
    four = np.stack([x, -x, np.full(64, 2, np.float32), np.ones(64, np.float32)], axis=1).astype(e4)
    assert (packed == four.view(np.uint32)[:, 0]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.thorough
def test_cuda_barrier_with_bulk_copies(schedule):
    source = r"""
    #include <cuda/barrier>
    #include <cuda/std/utility>
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    namespace cde = cuda::device::experimental;
    extern "C" __global__ void k(const int* in, int* out) {
        __shared__ barrier bar;
        __shared__ alignas(128) int buffer[128];
        int t = threadIdx.x;
        if (t == 0) { init(&bar, blockDim.x); cde::fence_proxy_async_shared_cta(); }
        __syncthreads();
        barrier::arrival_token token;
        if (t == 0) {
            cde::cp_async_bulk_global_to_shared(buffer, in, sizeof(buffer), bar);
            token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(buffer));
        } else token = bar.arrive();
        bar.wait(cuda::std::move(token));
        out[t] = buffer[127 - t];
        bar.arrive_and_wait();
        buffer[t] = t * 3;
        cde::fence_proxy_async_shared_cta();
        bar.arrive_and_wait();
        if (t == 0) {
            cde::cp_async_bulk_shared_to_global(out + 128, buffer, sizeof(buffer));
            cde::cp_async_bulk_commit_group();
            cde::cp_async_bulk_wait_group_read<0>();
        }
    }"""
    x, out = np.arange(128, dtype=np.int32), np.zeros(256, np.int32)
    run(source, (x, out), schedule=schedule)
    assert (out[:128] == x[::-1]).all() and (out[128:] == 3 * np.arange(128)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.sampled(every=3)
def test_cuda_pipeline_and_memcpy_async(schedule):
    source = r"""
    #include <cuda/pipeline>
    #include <cooperative_groups.h>
    #include <cooperative_groups/memcpy_async.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int* in, int* out) {
        auto block = cg::this_thread_block();
        int t = threadIdx.x;
        __shared__ alignas(16) int buffer[2][128];
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
        auto pipe = cuda::make_pipeline(block, &state);
        pipe.producer_acquire(); cuda::memcpy_async(block, buffer[0], in, sizeof(int) * 128, pipe); pipe.producer_commit();
        for (int i = 0; i < 4; i++) {
            if (i < 3) {
                pipe.producer_acquire();
                cuda::memcpy_async(block, buffer[(i + 1) & 1], in + 128 * (i + 1), sizeof(int) * 128, pipe);
                pipe.producer_commit();
            }
            pipe.consumer_wait();
            out[128 * i + t] = buffer[i & 1][127 - t];
            pipe.consumer_release();
        }
        block.sync();
        cg::memcpy_async(block, buffer[0], in, sizeof(int) * 128);
        cg::wait(block);
        out[512 + t] = buffer[0][t ^ 1];
        auto mine = cuda::make_pipeline();
        mine.producer_acquire();
        cuda::memcpy_async(&buffer[1][t], in + t, cuda::aligned_size_t<4>(4), mine);
        mine.producer_commit();
        cuda::pipeline_consumer_wait_prior<0>(mine);
        out[640 + t] = buffer[1][t];
        mine.consumer_release();
    }"""
    x, out = np.random.default_rng(97).integers(0, 1000, 512).astype(np.int32), np.zeros(768, np.int32)
    run(source, (x, out), schedule=schedule)
    assert (out[:512].reshape(4, 128) == x.reshape(4, 128)[:, ::-1]).all()
    assert (out[512:640] == x[np.arange(128) ^ 1]).all() and (out[640:] == x[:128]).all()


@pytest.mark.thorough
def test_memcpy_async_with_a_barrier_and_one_thread_each():
    source = r"""
    #include <cuda/barrier>
    extern "C" __global__ void k(const int4* in, int4* out) {
        __shared__ int4 s[128];
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        if (threadIdx.x == 0) init(&bar, blockDim.x);
        __syncthreads();
        cuda::memcpy_async(&s[threadIdx.x], &in[threadIdx.x], cuda::aligned_size_t<16>(sizeof(int4)), bar);
        bar.arrive_and_wait();
        out[threadIdx.x] = s[127 - threadIdx.x];
    }"""
    x, out = np.arange(512, dtype=np.int32).reshape(128, 4), np.zeros((128, 4), np.int32)
    run(source, (x, out))
    assert (out == x[::-1]).all()


@pytest.mark.thorough
def test_atomic_references_and_standard_types():
    source = r"""
    #include <cuda/atomic>
    #include <cuda/std/complex>
    #include <cuda/std/array>
    #include <cuda/std/optional>
    extern "C" __global__ void k(int* a, float* f, unsigned char* bytes) {
        cuda::atomic_ref<int, cuda::thread_scope_device> whole(a[0]);
        whole.fetch_add(2, cuda::memory_order_relaxed);
        cuda::atomic_ref<int, cuda::thread_scope_device>(a[1]).fetch_max(threadIdx.x, cuda::memory_order_acq_rel);
        cuda::atomic_ref<unsigned char, cuda::thread_scope_device>(bytes[threadIdx.x % 4]).fetch_add(1);
        cuda::atomic_ref<float, cuda::thread_scope_device>(f[0]).fetch_add(1.5f);
        __shared__ cuda::atomic<int, cuda::thread_scope_block> shared;
        if (threadIdx.x == 0) shared.store(0);
        __syncthreads();
        shared.fetch_add(threadIdx.x);
        __syncthreads();
        if (threadIdx.x == 0) {
            a[2] = shared.load();
            cuda::std::complex<float> z(f[1], f[2]);
            z = z * z;
            f[3] = z.real(); f[4] = z.imag();
            cuda::std::array<int, 3> three{1, 2, 3};
            cuda::std::optional<int> maybe = three[1];
            a[3] = maybe.value_or(7) + cuda::std::optional<int>().value_or(40);
        }
    }"""
    a, f, counts = np.zeros(4, np.int32), np.array([0, 2, 3, 0, 0], np.float32), np.zeros(4, np.uint8)
    run(source, (a, f, counts))
    assert a.tolist() == [256, 127, 127 * 64, 42] and f[0] == 192 and f[3:].tolist() == [-5, 12] and counts.tolist() == [32] * 4


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cuda_ptx_wrappers(schedule):
    source = r"""
    #include <cuda/ptx>
    #include <cuda/std/cstdint>
    namespace ptx = cuda::ptx;
    extern "C" __global__ void k(const float* in, float* out) {
        __shared__ alignas(128) float tile[256];
        __shared__ cuda::std::uint64_t bar;
        int t = threadIdx.x;
        if (t == 0) {
            ptx::mbarrier_init(&bar, 1);
            ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        }
        __syncthreads();
        if (t == 0) {
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in, 1024, &bar);
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 1024);
        }
        while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
        tile[t] *= 2;
        tile[128 + t] *= 2;
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (t == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, tile, 1024);
            ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out + 256, tile, 1024);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
        }
    }"""
    x, out = np.arange(256, dtype=np.float32), np.ones(512, np.float32)
    run(source, (x, out), schedule=schedule)
    assert (out[:256] == 2 * x).all() and (out[256:] == 2 * x + 1).all()


def test_cluster_group_and_distributed_shared_memory():
    source = r"""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(4, 1, 1) k(int* out) {
        __shared__ int mine[32];
        auto cluster = cg::this_cluster();
        mine[threadIdx.x] = cluster.block_rank() * 100 + threadIdx.x;
        cluster.sync();
        int* other = cluster.map_shared_rank(mine, (cluster.block_rank() + 1) % cluster.num_blocks());
        out[blockIdx.x * 32 + threadIdx.x] = other[31 - threadIdx.x];
        cluster.sync();
    }"""
    out = np.zeros(256, np.int32)
    run(source, (out,), grid=(8,), block=(32,))
    assert out.tolist() == [(b + 1) % 4 * 100 + 31 - t for b in range(8) for t in range(32)]
