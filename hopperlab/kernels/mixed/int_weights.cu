// y[m,n] = x[m,k] * w[n,k]^T, x and y bf16, w of 4 or 8 bits with a bf16 scale for every row and GROUP columns of k, fp32 accumulate.
//
// The tensor core multiplies no bf16 by an integer, so somebody makes bf16 of the weights on their way. Here the consumers do, in
// registers, and hand them to wgmma as its A (RS): they are never written to shared memory again. What that asks for:
// - The product is turned round, D = w * x^T, since only A may come from registers (weights_left.cuh).
// - The weights are prepared once, offline: 64 rows x 64 columns of 4 bits (32 of 8 bits) are 2 KiB in which thread t's part of the
//   fragments is the 16 bytes at 16 t. A bulk copy brings such blocks as they are (no tensor map, no swizzle), a thread reads its
//   part in one load without bank conflicts, and dequantise.cuh makes four (two) k-steps of A out of it.
// - Conversion runs under the product: the fragments of a k-block are made in one set of registers while the tensor core works on the
//   other set. A set is written again after wait_group<1>, when the product that read it is over; the same wait frees the slot.
//
// Macros: BITS (4 or 8), GROUP (a multiple of BK), BM, ROWS, BK, SPLIT, STAGES, CTAS. Launch: grid (SPLIT 1: at most CTAS * SMs; else
// SPLIT * tiles), block 384 (a producer, two consumers), dynamic shared memory STAGES * (X_BYTES + W_BYTES + SCALE_BYTES) + C_BYTES + 16 * STAGES.
// Tensor maps, swizzle 128B: x box BM x 64, y box (rows per slot) x 64. weights: (n / 64) x (k / WORD_K) blocks of 2 KiB; scales: (n / 64) x
// (k / GROUP) x 32 words. n a multiple of BN, k of 2 * SPLIT * BK and of GROUP. Measured in recordings/mixed.json.
#include <hopperlab/dequantise.cuh>
#include <hopperlab/weights_left.cuh>
#include <hopperlab/wgmma_operands.cuh>

#ifndef BITS
#define BITS 4
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef BUG_NIBBLES                     // the nibbles of a byte stand in the other order: wrong values, no hazard
#define BUG_NIBBLES 0
#endif

#define MULTIPLY(COUNT) WGMMA_RS(multiply, COUNT, float, "m64n" QUOTE(BM) "k16.f32.bf16.bf16", ", 1, 1, 0")
MULTIPLY(SUMS)

constexpr int WORD_K = 256 / BITS, WORDS = BK / WORD_K, STEPS = BK / 16;        // columns of k in a thread's 16 bytes; such words per k-block
constexpr int BLOCK_BYTES = WORDS * 2048, W_BYTES = ROW_BLOCKS * BLOCK_BYTES, SCALE_BYTES = ROW_BLOCKS * 128;
constexpr int STAGE_BYTES = X_BYTES + W_BYTES;
static_assert(GROUP % BK == 0 && WORDS >= 1 && (SPLIT == 1 || 2 * Exchange::BYTES <= STAGES * STAGE_BYTES));

extern "C" __global__ void
#if SPLIT > 1
__cluster_dims__(SPLIT, 1, 1)
#endif
__launch_bounds__(384, CTAS)
int_weights(const __grid_constant__ TensorMap x, const unsigned char* weights, const unsigned char* scales,
            const __grid_constant__ TensorMap y, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (x, w), STAGES x scales, slots of y, barriers
    unsigned char* scale_slots = shared + STAGES * STAGE_BYTES;
    unsigned char* c_slots = shared + (STAGES * (STAGE_BYTES + SCALE_BYTES) + 1023) / 1024 * 1024;
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
            size_t first = (size_t)tile.col * ROW_BLOCKS * (k / WORD_K) + begin * WORDS, group = (size_t)tile.col * ROW_BLOCKS * (k / GROUP);
            const unsigned char* block = weights + first * 2048;            // of the first 64 rows; those of the next lie k / WORD_K blocks on
            for (int i = begin; i < begin + k_share; i++, ring.advance(), block += BLOCK_BYTES) {
                unsigned char* slot = shared + ring.slot * STAGE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence_proxy_async_shared_cta();      // weights were read by ordinary loads
                load_x(slot, &x, &full[ring.slot], W_BYTES + SCALE_BYTES, i * BK, tile.row * BM);
                for (int b = 0; b < ROW_BLOCKS; b++) {
                    cp_async_bulk_load(slot + X_BYTES + b * BLOCK_BYTES, block + b * (k / WORD_K) * 2048, BLOCK_BYTES, &full[ring.slot]);
                    cp_async_bulk_load(scale_slots + ring.slot * SCALE_BYTES + b * 128, scales + (group + b * (k / GROUP) + i * BK / GROUP) * 128, 128, &full[ring.slot]);
                }
            }
        }
        producer_ends();
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    float d[ROWS][SUMS];
    unsigned even[ROWS][STEPS][4], odd[ROWS][STEPS][4];     // fragments of A, of even and of odd k-blocks
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, last = 0;
    auto k_block = [&](int i, unsigned (&a)[ROWS][STEPS][4]) {
        unsigned char* slot = shared + ring.slot * STAGE_BYTES;
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
        #pragma unroll
        for (int b = 0; b < ROWS; b++) {
            int block = me * ROWS + b;
            const uint4* words = reinterpret_cast<const uint4*>(slot + X_BYTES + block * BLOCK_BYTES) + thread;
            unsigned pair = reinterpret_cast<const unsigned*>(scale_slots + ring.slot * SCALE_BYTES + block * 128)[thread / 4];
            unsigned low = broadcast_half(pair, 0), high = broadcast_half(pair, 1);
            #pragma unroll
            for (int j = 0; j < WORDS; j++) {
                uint4 word = words[j * 128];                    // this thread's 16 bytes
                if (BUG_NIBBLES) exchange_nibbles(word);
#if BITS == 4
                dequantise_4(a[b][4 * j], word.x, low, high), dequantise_4(a[b][4 * j + 1], word.y, low, high);
                dequantise_4(a[b][4 * j + 2], word.z, low, high), dequantise_4(a[b][4 * j + 3], word.w, low, high);
#else
                dequantise_8(a[b][2 * j], word.x, word.y, low, high), dequantise_8(a[b][2 * j + 1], word.z, word.w, low, high);
#endif
            }
        }
        wgmma_fence();                                          // the fragments' registers were written
        #pragma unroll
        for (int step = 0; step < STEPS; step++) {
            unsigned long long columns = wgmma_descriptor_k_major<128>(shared_address(slot) + step / 4 * BM * 128 + step % 4 * 32);
            #pragma unroll
            for (int b = 0; b < ROWS; b++) multiply(d[b], a[b][step], columns, i > 0 || step > 0);
        }
        wgmma_commit_group();
        wgmma_wait_group<1>();                                  // the product before has read its slot and its fragments
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
