// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The last step: everything that helped, with what depends on the shape left to macros (hopperlab.measure.gemm_choice picks
// them). Persistent clusters, TMA multicast of B, two consumer warpgroups on one tile, C by stmatrix and TMA under the
// next tile. New here: tile, depth, cluster and order are choices; the tensor maps are fetched ahead; and IN_FLIGHT leaves one
// k-block's wgmma running while the next is issued, so that the tensor core never waits for a warpgroup to wake up
// (the slot released is then the one before).
//
// Macros: BM (128 or 256), BN (64, 128 or 256; BM * BN at most 32768), STAGES, CLUSTER (1 or 2 CTAs, one above the other),
// GROUP (rows of cluster tiles that the order walks down before it moves right), C_SLOTS (64x64 tiles of C a warpgroup
// keeps), IN_FLIGHT (0 or 1), TMA_STORE (0: plain stores, for n not a multiple of 8).
// Launch: grid (CLUSTER * clusters), at most the SMs; block 384, dynamic shared memory
// STAGES * (BM + BN) * 128 + TMA_STORE * C_SLOTS * 16384 + 128. Tensor maps: A box BM rows x 64 columns,
// B box BN / CLUSTER x 64, C box 64 x 64 (ignored without TMA_STORE), swizzle 128B, fill zero. k a multiple of 8.
// Measured in recordings/ladder.json.
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/multicast.cuh>
#include <hopperlab/raster.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/wgmma_tile.cuh>

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef C_SLOTS
#define C_SLOTS 4
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 0
#endif
#ifndef TMA_STORE
#define TMA_STORE 1
#endif

constexpr int BK = 64, A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int SHARE = BN / CLUSTER, SHARE_BYTES = B_BYTES / CLUSTER;    // the part of B that one CTA loads for all
constexpr int SLOT_BYTES = 64 * 128;                                    // 64 rows x 64 columns of C
constexpr int WM = BM / 2, BLOCKS = WM / 64;                            // a warpgroup's rows, and how many wgmma high
constexpr int CHUNKS = BN / 64;
static_assert(BLOCKS * CHUNKS % C_SLOTS == 0 && BM * BN <= 128 * 256 && BM % 128 == 0 && BN % 64 == 0);
static_assert(CLUSTER <= 2 && STAGES > IN_FLIGHT);

// This warpgroup has read the slot: one thread tells every CTA of the cluster.
__device__ __forceinline__ void release(mbarrier_t* empty) {
    if (threadIdx.x % 128 != 0) return;
    if (CLUSTER == 1) return mbarrier_arrive(empty);
    for (int r = 0; r < CLUSTER; r++) mbarrier_arrive_remote(mapa_shared_cluster(empty, r));
}

// Block `block` (64 rows) of a warpgroup's part of C, through `slots` and TMA or by plain stores.
__device__ __forceinline__ void store_rows(const float (&d)[BN / 2], int block, unsigned char* slots, const TensorMap* map,
                                           __nv_bfloat16* c, int row0, int col0, int m, int n) {
#if TMA_STORE
    int thread = threadIdx.x % 128, barrier = threadIdx.x / 128;
    #pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        unsigned char* slot = slots + (block * CHUNKS + chunk) % C_SLOTS * SLOT_BYTES;
        // One group a chunk, the slots in turn: when at most C_SLOTS - 1 groups are unread, this slot's last one has been.
        if (thread == 0) cp_async_bulk_wait_group_read<C_SLOTS - 1>();
        bar_sync(barrier, 128);
        stage_chunk(shared_address(slot), d, chunk);
        fence_proxy_async_shared_cta();
        bar_sync(barrier, 128);                                 // the slot is complete
        if (thread == 0) {
            if (row0 < m && col0 + chunk * 64 < n) cp_async_bulk_tensor_2d_store(map, slot, col0 + chunk * 64, row0);
            cp_async_bulk_commit_group();
        }
    }
#else
    store_accumulator(c, d, row0, col0, m, n);
#endif
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c_map,
     __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), slots of C, barriers
    unsigned char* slots = shared + STAGES * STAGE_BYTES;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(slots + TMA_STORE * 2 * C_SLOTS * SLOT_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int k_tiles = (k + BK - 1) / BK;
    int rows = (m + CLUSTER * BM - 1) / (CLUSTER * BM), cols = (n + BN - 1) / BN;   // in cluster tiles
    int clusters = gridDim.x / CLUSTER, first = blockIdx.x / CLUSTER;
    int warpgroup = threadIdx.x / 128, rank = CLUSTER > 1 ? cluster_ctarank() : 0;

    if (threadIdx.x == 0) {
        prefetch_tensormap(&a);
        prefetch_tensormap(&b);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);                         // this CTA's producer, and the bytes of all
            mbarrier_init(&empty[s], 2 * CLUSTER);              // the consumer warpgroups of all CTAs
        }
        fence_mbarrier_init_release_cluster();
    }
    barrier_cluster_arrive();                                   // nobody, in any CTA, touches a barrier before it is one
    barrier_cluster_wait();

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            for (int index = first; index < rows * cols; index += clusters) {
                Tile tile = grouped_tile<GROUP>(index, rows, cols);
                int row0 = (tile.row * CLUSTER + rank) * BM, col0 = tile.col * BN + rank * SHARE;
                for (int i = 0; i < k_tiles; i++, ring.advance()) {
                    unsigned char* stage = shared + ring.slot * STAGE_BYTES;
                    unsigned char* share = stage + A_BYTES + rank * SHARE_BYTES;
                    mbarrier_wait_parity_cluster(&empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
                    cp_async_bulk_tensor_2d_load(stage, &a, &full[ring.slot], i * BK, row0);
                    if (CLUSTER == 1) cp_async_bulk_tensor_2d_load(share, &b, &full[ring.slot], i * BK, col0);
                    else cp_async_bulk_tensor_2d_load_multicast(share, &b, &full[ring.slot], (1 << CLUSTER) - 1, i * BK, col0);
                }
            }
        }
        __syncwarp();                                           // the cluster barrier wants whole warps
    } else {
        setmaxnreg_inc<232>();
        float d[BLOCKS][BN / 2];
        int my_rows = (warpgroup - 1) * WM;
        unsigned char* my_slots = slots + (warpgroup - 1) * C_SLOTS * SLOT_BYTES;
        for (int index = first; index < rows * cols; index += clusters) {
            Tile tile = grouped_tile<GROUP>(index, rows, cols);
            int before = 0;                                     // the slot of the k-block before
            for (int i = 0; i < k_tiles; i++, ring.advance()) {
                unsigned stage = shared_address(shared) + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&full[ring.slot], ring.phase);
                wgmma_fence();
                #pragma unroll
                for (int block = 0; block < BLOCKS; block++)
                    wgmma_k_block(d[block], stage + (my_rows + block * 64) * BK * 2, stage + A_BYTES, i > 0);
                wgmma_commit_group();
                wgmma_wait_group<IN_FLIGHT>();                  // with IN_FLIGHT the k-block before this one has been read
                if (IN_FLIGHT == 0 || i > 0) release(&empty[IN_FLIGHT ? before : ring.slot]);
                before = ring.slot;
            }
            if (IN_FLIGHT) {
                wgmma_wait_group<0>();
                release(&empty[before]);
            }
            #pragma unroll
            for (int block = 0; block < BLOCKS; block++)
                store_rows(d[block], block, my_slots, &c_map, c, (tile.row * CLUSTER + rank) * BM + my_rows + block * 64,
                           tile.col * BN, m, n);
        }
        if (TMA_STORE && threadIdx.x % 128 == 0) cp_async_bulk_wait_group_read<0>();    // shared memory outlives its readers
        __syncwarp();
    }
    barrier_cluster_arrive();                                   // another CTA may still arrive on my barriers
    barrier_cluster_wait();
}
