// y[m,n] = x[m,k] * w[n,k]^T, all bf16, fp32 accumulate; of every four neighbours in a row of w at most two are not zero, and only two
// are stored: the tensor core takes k-steps of 32 columns in the time of 16.
//
// New beside a dense product: w's tile is half as wide as x's, and every k-step wants metadata, 2 bits for each stored number, in the
// registers of certain threads (wgmma_sparse.cuh). Prepared, 64 rows x 64 columns of k have one word a thread, 512 bytes in a row: its
// lower lanes of a quad (q = 0, 1) hold the first 32 columns' metadata, the upper ones (q = 2, 3) the second's; the selector, a constant
// of the instruction, says whose words count. They ride in the same slot as the tiles, and a thread reads one word a k-block.
// A register with metadata belongs to the wgmma as a fragment does: two sets of them, as in int_weights.cu.
//
// Macros: BM, ROWS, BK, SPLIT, STAGES, CTAS (weights_left.cuh). Launch: grid (SPLIT 1: at most CTAS * SMs; else SPLIT * tiles), block 384 (a
// producer, two consumers), dynamic shared memory STAGES * (X_BYTES + W_BYTES + META_BYTES) + C_BYTES + 16 * STAGES. Tensor maps: x box
// BM x 64, swizzle 128B; stored (n x k / 2) box BN x 32, swizzle 64B; y box (rows per slot) x 64, 128B. metadata: (n / 64) x (k / 64) blocks of
// 128 words. n a multiple of BN, k of 2 * SPLIT * BK. Measured in recordings/mixed.json.
#include <hopperlab/weights_left.cuh>
#include <hopperlab/wgmma_sparse.cuh>

#ifndef BUG_METADATA                    // each thread takes its neighbour's word: wrong values, no hazard
#define BUG_METADATA 0
#endif

#define MULTIPLY(NAME, COUNT, SELECTOR) WGMMA_SPARSE_SS(NAME, COUNT, float, "m64n" QUOTE(BM) "k32.f32.bf16.bf16", SELECTOR, ", 1, 1, 0, 0")
MULTIPLY(multiply_first, SUMS, "0")                             // metadata of lanes with q = 0, 1
MULTIPLY(multiply_second, SUMS, "1")                            // of lanes with q = 2, 3

constexpr int W_BYTES = BN * BK, META_BYTES = ROW_BLOCKS * HALVES * 512, STAGE_BYTES = X_BYTES + W_BYTES;
static_assert(SPLIT == 1 || 2 * Exchange::BYTES <= STAGES * STAGE_BYTES);

extern "C" __global__ void
#if SPLIT > 1
__cluster_dims__(SPLIT, 1, 1)
#endif
__launch_bounds__(384, CTAS)
sparse(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap stored, const unsigned char* metadata,
       const __grid_constant__ TensorMap y, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (x, w), STAGES x metadata, slots of y, barriers
    unsigned char* meta_slots = shared + STAGES * STAGE_BYTES;
    unsigned char* c_slots = shared + (STAGES * (STAGE_BYTES + META_BYTES) + 1023) / 1024 * 1024;
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(c_slots + C_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int rank = SPLIT > 1 ? cluster_ctarank() : 0, k_share = k / BK / SPLIT, begin = rank * k_share;     // this CTA's k-blocks
    int down = (m + BM - 1) / BM, across = n / BN, warpgroup = threadIdx.x / 128;
    if (threadIdx.x == 0) ring_barriers_init<STAGES>(full, 1, empty, 2);        // the producer, and the bytes; a thread of each consumer
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        for (int index = blockIdx.x / SPLIT; threadIdx.x == 0 && index < down * across; index += gridDim.x / SPLIT) {
            Tile tile = grouped_tile<8>(index, down, across);
            for (int i = begin; i < begin + k_share; i++, ring.advance()) {
                unsigned char* slot = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence_proxy_async_shared_cta();      // metadata were read by ordinary loads
                load_x(slot, &x, &full[ring.slot], W_BYTES + META_BYTES, i * BK, tile.row * BM);
                for (int half = 0; half < HALVES; half++)
                    cp_async_bulk_tensor_2d_load(slot + X_BYTES + half * BN * 64, &stored, &full[ring.slot], i * BK / 2 + half * 32, tile.col * BN);
                for (int b = 0; b < ROW_BLOCKS; b++)
                    cp_async_bulk_load(meta_slots + ring.slot * META_BYTES + b * HALVES * 512,
                                       metadata + ((size_t)(tile.col * ROW_BLOCKS + b) * (k / 64) + i * HALVES) * 512, HALVES * 512, &full[ring.slot]);
            }
        }
        producer_ends();
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    float d[ROWS][SUMS];
    unsigned even[ROWS][HALVES], odd[ROWS][HALVES];             // metadata, of even and of odd k-blocks
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, last = 0;
    auto k_block = [&](int i, unsigned (&meta)[ROWS][HALVES]) {
        unsigned slot = shared_address(shared) + ring.slot * STAGE_BYTES;
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
        const unsigned* words = reinterpret_cast<const unsigned*>(meta_slots + ring.slot * META_BYTES) + me * ROWS * HALVES * 128;
        #pragma unroll
        for (int part = 0; part < ROWS * HALVES; part++) meta[part / HALVES][part % HALVES] = words[part * 128 + (BUG_METADATA ? thread ^ 1 : thread)];
        wgmma_fence();                                          // the metadata's registers were written
        #pragma unroll
        for (int half = 0; half < HALVES; half++) {
            unsigned columns = slot + half * BM * 128, rows = slot + X_BYTES + half * BN * 64 + me * ROWS * 64 * 64;
            #pragma unroll
            for (int b = 0; b < ROWS; b++) {                    // a k-step: 32 columns of k are 64 bytes of x, 32 of what is stored of w
                multiply_first(d[b], wgmma_descriptor_k_major<64>(rows + b * 4096), wgmma_descriptor_k_major<128>(columns), meta[b][half], i > 0 || half > 0);
                multiply_second(d[b], wgmma_descriptor_k_major<64>(rows + b * 4096 + 32), wgmma_descriptor_k_major<128>(columns + 64), meta[b][half], 1);
            }
        }
        wgmma_commit_group();
        wgmma_wait_group<1>();                                  // the product before has read its slot and its metadata
        if (i > 0 && thread == 0) mbarrier_arrive(&empty[last]);
        last = ring.slot;
        ring.advance();
    };
    for (int index = blockIdx.x / SPLIT; index < down * across; index += gridDim.x / SPLIT) {
        Tile tile = grouped_tile<8>(index, down, across);
        for (int i = 0; i < k_share; i += 2) {                  // in pairs: a register's name is a constant
            k_block(i, even);
            k_block(i + 1, odd);
        }
        wgmma_wait_group<0>();
        if (thread == 0) mbarrier_arrive(&empty[last]);
        finish(d, &y, shared, c_slots + me * Store::SLOT_BYTES, me, rank, tile.col * BN + me * ROWS * 64, tile.row * BM, m, n);
    }
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
}
// SPDX-License-Identifier: Apache-2.0
