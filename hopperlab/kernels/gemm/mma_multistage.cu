// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The best of the Ampere style. Every thread copies its share of the next tiles with cp.async, 16 bytes at a time, into a
// ring of STAGES slots, while the tensor core works on the oldest slot: ldmatrix brings fragments into registers,
// mma.sync multiplies them, and the fragments of the next step load under the multiplication of this one.
// Shared tiles are swizzled (the 64-byte pattern: bits 4,5 of the offset ^= bits 7,8), so that neither the copies nor
// ldmatrix meet a bank twice.
//
// Macros: BM, BN (64, 128 or 256; the tile of C), STAGES (2 or more), CACHE_ALL (copies pass through L1: cp.async.ca).
// Launch: grid (ceil(n/BN), ceil(m/BM)), block 256, dynamic shared memory STAGES * (BM + BN) * 64 bytes.
// k a multiple of 8 (16-byte copies); any m, n: rows and columns outside are filled with zeros by cp.async itself.
// Measured in recordings/gemm.json: -DBN=256 is the fast one, because a warp then works on 64x64, and each byte that
// ldmatrix brings is multiplied more often.
#include <cuda_bf16.h>
#include <hopperlab/bugs.cuh>
#include <hopperlab/cp_async.cuh>
#include <hopperlab/mma.cuh>

#ifndef STAGES
#define STAGES 4
#endif
#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif

constexpr int BK = 32, ROW_BYTES = BK * 2;
constexpr int A_BYTES = BM * ROW_BYTES, B_BYTES = BN * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int WARPS_M = BM == 256 ? 4 : 2, WARPS_N = 8 / WARPS_M;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N;         // a warp's part of the tile
constexpr int ROWS16 = WM / 16, COLS16 = WN / 16, COLS8 = WN / 8;
constexpr int BLOCKS_PER_SM = BM * BN <= 128 * 128 && BN <= 128 ? 2 : 1; // what the registers are budgeted for
static_assert(STAGES >= 2 && WN >= 16 && BM * BN <= 128 * 256);

// Byte offset of 16-byte chunk `chunk` (0..3) of row `row` in a tile of 64-byte rows. It repeats every 8 rows.
__device__ __forceinline__ unsigned swizzled(int row, int chunk) {
    return row * ROW_BYTES + ((chunk ^ (row / 2 % 4)) * 16);
}

// One chunk of this thread's row and of every 64th row below it, ROWS in all; zeros where `inside` is false or no row is
// left.
template <int ROWS>
__device__ __forceinline__ void copy_rows(unsigned char* to, const __nv_bfloat16* from, int k, int rows_left, bool inside) {
    #pragma unroll
    for (int row = 0; row < ROWS; row += 64) {
        int bytes = inside && row < rows_left ? 16 : 0;     // 0: nothing is read, wherever the address points
#ifdef CACHE_ALL
        cp_async_ca_16_zfill(to + row * ROW_BYTES, from + (size_t)row * k, bytes);
#else
        cp_async_cg_16_zfill(to + row * ROW_BYTES, from + (size_t)row * k, bytes);
#endif
    }
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char shared[];    // STAGES x (A tile, B tile)
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    // What this thread copies of every tile: chunk my_chunk of row my_row and of each 64th row below, of A and of B.
    int my_row = threadIdx.x / 4, my_chunk = threadIdx.x % 4;
    const __nv_bfloat16* a_from = a + (size_t)(row0 + my_row) * k + my_chunk * 8;
    const __nv_bfloat16* b_from = b + (size_t)(col0 + my_row) * k + my_chunk * 8;
    int a_left = m - row0 - my_row, b_left = n - col0 - my_row, k_left = k - my_chunk * 8;
    unsigned slot = 0, to = swizzled(my_row, my_chunk);
    // One group a tile, of zeros past the end of k: group i is always tile i.
    auto copy_next_tile = [&]() {
        copy_rows<BM>(shared + slot + to, a_from, k, a_left, k_left > 0);    // k is a multiple of 8: a chunk is in or out as a whole
        copy_rows<BN>(shared + slot + to + A_BYTES, b_from, k, b_left, k_left > 0);
        cp_async_commit_group();
        a_from += BK, b_from += BK, k_left -= BK;
        slot = slot == (STAGES - 1) * STAGE_BYTES ? 0 : slot + STAGE_BYTES;
    };

    // Which row's address this lane gives to ldmatrix. A: rows 0-7 and 8-15 of the low 8 columns of a k-step, then of the
    // high 8. B: columns 0-7 low k, high k, then columns 8-15. The next 16 rows are 1024 bytes further.
    int warp_row = warp / WARPS_N * WM, warp_col = warp % WARPS_N * WN;
    unsigned a_lane[2], b_lane[2];
    #pragma unroll
    for (int step = 0; step < 2; step++) {
        a_lane[step] = swizzled(warp_row + lane % 16, 2 * step + lane / 16);
        b_lane[step] = swizzled(warp_col + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2) + A_BYTES;
    }
    unsigned fa[2][ROWS16][4], fb[2][COLS16][4];                // fragments of two k-steps
    auto load_fragments = [&](int step, unsigned tile) {
        #pragma unroll
        for (int y = 0; y < ROWS16; y++) ldmatrix_x4(fa[step][y], tile + a_lane[step] + y * 16 * ROW_BYTES);
        #pragma unroll
        for (int x = 0; x < COLS16; x++) ldmatrix_x4(fb[step][x], tile + b_lane[step] + x * 16 * ROW_BYTES);
    };
    float d[ROWS16][COLS8][4] = {};                             // [16-row block][8-column block][fragment register]
    auto multiply = [&](int step) {
        #pragma unroll
        for (int y = 0; y < ROWS16; y++)
            #pragma unroll
            for (int x = 0; x < COLS8; x++)
                mma_m16n8k16_bf16(d[y][x], fa[step][y], fb[step][x / 2][x % 2 * 2], fb[step][x / 2][x % 2 * 2 + 1]);
    };
    auto wait_for_tile = [&]() {
        cp_async_wait_group<STAGES - 2 + BUG_WAIT_TOO_SHALLOW>();   // my copies of the next tile have landed;
        if (!BUG_NO_BARRIER_AFTER_WAIT) __syncthreads();            // so have everyone's, and all have read the tile before
    };

    unsigned read = shared_address(shared), read_end = read + STAGES * STAGE_BYTES;
    for (int i = 0; i < STAGES - 1; i++) copy_next_tile();
    wait_for_tile();
    load_fragments(0, read);
    for (int left = k; left > 0; left -= BK) {
        load_fragments(1, read);
        copy_next_tile();                                       // into the slot of the tile before: everyone has read it
        multiply(0);
        wait_for_tile();
        read = read + STAGE_BYTES == read_end ? read_end - STAGES * STAGE_BYTES : read + STAGE_BYTES;
        load_fragments(0, read);                                // of the next tile (zeros after the last)
        multiply(1);
    }
    cp_async_wait_all();                                        // nothing is under way when the block ends

    #pragma unroll
    for (int y = 0; y < ROWS16; y++)
        #pragma unroll
        for (int x = 0; x < COLS8; x++)
            #pragma unroll
            for (int half = 0; half < 2; half++) {              // rows g and g + 8 of the fragment
                int row = row0 + warp_row + 16 * y + lane / 4 + 8 * half, col = col0 + warp_col + 8 * x + lane % 4 * 2;
                __nv_bfloat16* out = c + (size_t)row * n + col;
                float low = d[y][x][2 * half], high = d[y][x][2 * half + 1];
                if (row < m && col + 1 < n && n % 2 == 0) {
                    *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(low, high);
                } else if (row < m) {                           // odd n: pairs are not 4-byte aligned
                    if (col < n) out[0] = __float2bfloat16(low);
                    if (col + 1 < n) out[1] = __float2bfloat16(high);
                }
            }
}
// SPDX-License-Identifier: Apache-2.0
