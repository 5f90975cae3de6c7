// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// For few tiles and a deep k, like stream_k, without a workspace: the CTAs of a cluster share one tile of C, each multiplies
// its part of k, and they exchange their fp32 sums through distributed shared memory. Why: with 128x64 tiles, which would
// also fill the GPU, an SM takes in 24 KB for half the products that 32 KB of a 128x128 tile make.
// The exchange: CTA r of the cluster finishes columns r * BN / SPLIT .. of the tile. Every thread stores what it has of the
// others' columns into their shared memory, where the ring was, and adds what it received. The same thread of every CTA
// holds the same places of the tile, so it is a private mailbox: 16 bytes per thread side by side, no bank conflicts.
// Two cluster barriers: all rings are idle (and all CTAs run), then all sums have arrived.
// STREAM_B, where m is one tile high, so that every byte of B is read once: its lines leave the L2 first.
//
// Macros: BN (128 or 256), SPLIT (2 or 4; BN / SPLIT at least 64), STAGES, IN_FLIGHT, STREAM_B, TMA_STORE (0: plain stores, for n no
// multiple of 8). Launch: grid (SPLIT * ceil(m/128), ceil(n/BN)), block 384, dynamic shared memory
// STAGES * (128 + BN) * 128 + 128. Tensor maps: A box 128 rows x 64 columns, B box BN x 64, C box 64 x 64 (ignored without
// TMA_STORE), swizzle 128B, fill zero. k a multiple of 8. Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/cache_hint.cuh>
#include <hopperlab/cluster.cuh>
#include <hopperlab/dsmem.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/ring_barriers.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef BN
#define BN 128
#endif
#ifndef SPLIT
#define SPLIT 2
#endif
#ifndef STAGES
#define STAGES 6
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 1
#endif
#ifndef STREAM_B
#define STREAM_B 0
#endif
#ifndef TMA_STORE
#define TMA_STORE 1
#endif

constexpr int BM = 128, BK = 64;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SLOT_BYTES = 64 * 128;                            // 64 rows x 64 columns of C
constexpr int OWN = BN / SPLIT / 2, CHUNKS = OWN / 32;          // sums a thread finishes, and 64-column chunks of C they are
constexpr int MAIL_BYTES = OWN * 4 * 128;                       // from one warpgroup to its twin in another CTA
enum { START = 3 };                                             // named barrier; 1 and 2 are the consumers' own
static_assert(CHUNKS >= 1 && 2 * ((SPLIT - 1) * MAIL_BYTES + CHUNKS * SLOT_BYTES) <= STAGES * STAGE_BYTES);

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then mail and C; barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int rank = cluster_ctarank(), k_tiles = (k + BK - 1) / BK;
    int share = (k_tiles + SPLIT - 1) / SPLIT, begin = rank * share;     // k-blocks past the end of k are filled with zeros
    int row0 = blockIdx.x / SPLIT * BM, col0 = blockIdx.y * BN;
    int warpgroup = threadIdx.x / 128;

    if (threadIdx.x == 0) ring_barriers_init<STAGES>(full, 1, empty, 2);
    __syncwarp();
    if (warpgroup == 0) bar_arrive(START, 384);                 // the producer's warp made the barriers and goes on
    else bar_sync(START, 384);

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            unsigned long long once = createpolicy_evict_first();
            for (int i = 0; i < share; i++, ring.advance()) {
                unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], (begin + i) * BK, row0);
                if (STREAM_B) cp_async_bulk_tensor_2d_load_hint(stage + A_BYTES, &b, &full[ring.slot], (begin + i) * BK, col0, once);
                else cp_async_bulk_tensor_2d_load(stage + A_BYTES, &b, &full[ring.slot], (begin + i) * BK, col0);
            }
        }
        __syncwarp();                                           // the cluster barriers want whole warps
        barrier_cluster_arrive();
        barrier_cluster_wait();
        barrier_cluster_arrive();
        barrier_cluster_wait();
        return;
    }
    setmaxnreg_inc<232>();
    float d[BN / 2];
    int me = warpgroup - 1, thread = threadIdx.x % 128;
    for (int i = 0; i < share; i++, ring.advance()) {
        unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
        wgmma_fence();
        wgmma_k_block(d, stage + me * 64 * BK * 2, stage + A_BYTES, i > 0);
        wgmma_commit_group();
        if (i + 1 < share) wgmma_wait_group<IN_FLIGHT>();
        else wgmma_wait_group<0>();                             // here, so that nothing touches the sums before
        int read = ring.slot - IN_FLIGHT;                       // the slot that has been read now
        if (thread == 0 && i >= IN_FLIGHT) mbarrier_arrive(&empty[read < 0 ? read + STAGES : read]);
    }

    unsigned char* mail = shared + me * (SPLIT - 1) * MAIL_BYTES;
    unsigned char* slot = shared + 2 * (SPLIT - 1) * MAIL_BYTES + me * CHUNKS * SLOT_BYTES;
    float own[OWN];
    barrier_cluster_arrive();                                   // nobody in the cluster needs its ring any more
    barrier_cluster_wait();
    #pragma unroll
    for (int r = 0; r < SPLIT; r++) {
        if (r == rank) {
            #pragma unroll
            for (int i = 0; i < OWN; i++) own[i] = d[r * OWN + i];
        } else {                                                // my place in CTA r's mail: 0 for the CTA after it, and so on
            unsigned to = mapa_shared_cluster(mail + (rank - r - 1 + SPLIT) % SPLIT * MAIL_BYTES + thread * 16, r);
            #pragma unroll
            for (int i = 0; i < OWN; i += 4) {
                const float* e = d + r * OWN + i;
                st_shared_cluster_v4(to + i / 4 * 2048, make_uint4(__float_as_uint(e[0]), __float_as_uint(e[1]),
                                                                   __float_as_uint(e[2]), __float_as_uint(e[3])));
            }
        }
    }
    barrier_cluster_arrive();                                   // the mail has arrived; nobody writes to another CTA after this
    barrier_cluster_wait();
    #pragma unroll
    for (int s = 0; s < SPLIT - 1; s++) {
        #pragma unroll
        for (int i = 0; i < OWN; i += 4) {
            float4 more = *reinterpret_cast<float4*>(mail + s * MAIL_BYTES + thread * 16 + i / 4 * 2048);
            own[i] += more.x, own[i + 1] += more.y, own[i + 2] += more.z, own[i + 3] += more.w;
        }
    }
    row0 += me * 64, col0 += rank * BN / SPLIT;
#if TMA_STORE
    #pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) stage_chunk(shared_address(slot + chunk * SLOT_BYTES), own, chunk);
    fence_proxy_async_shared_cta();
    bar_sync(warpgroup, 128);                                   // this warpgroup's part is complete
    if (thread == 0) {
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            if (row0 < m && col0 + chunk * 64 < n)
                cp_async_bulk_tensor_2d_store(&c_map, slot + chunk * SLOT_BYTES, col0 + chunk * 64, row0);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();                     // shared memory outlives the reads of it
    }
#else
    store_accumulator(c, own, row0, col0, m, n);
#endif
}
// SPDX-License-Identifier: Apache-2.0
