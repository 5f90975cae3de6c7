// C[m,n] = A[m,k] * B[n,k]^T, bf16 in, fp32 accumulate, bf16 out; A, B and C row-major, so both operands are K-major.
//
// The best of the Ampere style. Every thread copies its share of the next tiles with cp.async, 16 bytes at a time, into a
// ring of STAGES slots, while the tensor core works on the oldest slot: ldmatrix into fragments, mma.sync on fragments.
// Shared tiles are swizzled (the 64-byte pattern: bits 4,5 of the offset ^= bits 7,8), so that neither the copies nor
// ldmatrix meet a bank twice.
//
// Macros: BM, BN (64, 128 or 256; the tile of C), STAGES (2 or more), CACHE_ALL (copies pass through L1: cp.async.ca).
// Launch: grid (ceil(n/BN), ceil(m/BM)), block 256, dynamic shared memory STAGES * (BM + BN) * 64 bytes.
// k a multiple of 8 (16-byte copies); any m, n: rows and columns outside are filled with zeros by cp.async itself.
// Measured in recordings/gemm.json.
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

constexpr int BK = 32;
constexpr int WM = BM / 2, WN = BN / 4;                     // a warp's part of the tile: 2 x 4 warps
constexpr int ROWS16 = WM / 16, COLS16 = WN / 16, COLS8 = WN / 8;
constexpr int BLOCKS_PER_SM = BM * BN <= 128 * 128 ? 2 : 1;
constexpr int ROW_BYTES = BK * 2;
constexpr int A_BYTES = BM * ROW_BYTES, B_BYTES = BN * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;

// Byte offset of 16-byte chunk `chunk` (0..3) of row `row` in a tile of 64-byte rows.
__device__ __forceinline__ unsigned swizzled(int row, int chunk) {
    return row * ROW_BYTES + ((chunk ^ (row / 2 % 4)) * 16);
}

// All 256 threads copy a tile of ROWS rows x 32 columns that starts at (row0, col0) of a row-major matrix.
template <int ROWS>
__device__ __forceinline__ void copy_tile(unsigned char* tile, const __nv_bfloat16* matrix, int row0, int col0, int rows, int cols) {
    #pragma unroll
    for (int i = 0; i < ROWS / 64; i++) {
        int chunk = threadIdx.x % 4, row = threadIdx.x / 4 + 64 * i;
        int y = row0 + row, x = col0 + chunk * 8;
        bool inside = y < rows && x < cols;                 // cols is a multiple of 8: a chunk is in or out as a whole
        const __nv_bfloat16* source = inside ? matrix + (size_t)y * cols + x : matrix;
#ifdef CACHE_ALL
        cp_async_ca_16_zfill(tile + swizzled(row, chunk), source, inside ? 16 : 0);
#else
        cp_async_cg_16_zfill(tile + swizzled(row, chunk), source, inside ? 16 : 0);
#endif
    }
}

// The fragments of one k-step (16 columns from 16 * step): ROWS16 blocks of 16 rows of A, COLS16 blocks of 16 columns of B.
__device__ __forceinline__ void load_fragments(unsigned (&a)[ROWS16][4], unsigned (&b)[COLS16][4], unsigned a_tile,
                                               unsigned b_tile, int warp_row, int warp_col, int step) {
    int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < ROWS16; i++)    // matrices: rows 0-7 and 8-15 of the low half of k, then of the high half
        ldmatrix_x4(a[i], a_tile + swizzled(warp_row + 16 * i + lane % 16, 2 * step + lane / 16));
    #pragma unroll
    for (int j = 0; j < COLS16; j++)    // matrices: columns 0-7 low k, high k, then columns 8-15
        ldmatrix_x4(b[j], b_tile + swizzled(warp_col + 16 * j + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char shared[];   // STAGES x (A tile, B tile)
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    int k_tiles = (k + BK - 1) / BK;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int warp_row = warp / 4 * WM, warp_col = warp % 4 * WN;
    float d[ROWS16][COLS8][4] = {};                             // [16-row block][8-column block][fragment register]

    // One group a tile, empty groups past the end: group i is always tile i, whatever k is.
    for (int i = 0; i < STAGES - 1; i++) {
        if (i < k_tiles) {
            copy_tile<BM>(shared + i * STAGE_BYTES, a, row0, i * BK, m, k);
            copy_tile<BN>(shared + i * STAGE_BYTES + A_BYTES, b, col0, i * BK, n, k);
        }
        cp_async_commit_group();
    }
    for (int i = 0; i < k_tiles; i++) {
        cp_async_wait_group<STAGES - 2 + BUG_WAIT_TOO_SHALLOW>();   // my copies of tile i have landed
        if (!BUG_NO_BARRIER_AFTER_WAIT) __syncthreads();            // everyone's have, and everyone is done with tile i-1
        int next = i + STAGES - 1;                                  // goes where tile i-1 was
        if (next < k_tiles) {
            unsigned char* stage = shared + next % STAGES * STAGE_BYTES;
            copy_tile<BM>(stage, a, row0, next * BK, m, k);
            copy_tile<BN>(stage + A_BYTES, b, col0, next * BK, n, k);
        }
        cp_async_commit_group();

        unsigned a_tile = shared_address(shared + i % STAGES * STAGE_BYTES), b_tile = a_tile + A_BYTES;
        unsigned fa[2][ROWS16][4], fb[2][COLS16][4];
        load_fragments(fa[0], fb[0], a_tile, b_tile, warp_row, warp_col, 0);
        #pragma unroll
        for (int step = 0; step < 2; step++) {                      // the next step's fragments load under this one's mma
            if (step == 0) load_fragments(fa[1], fb[1], a_tile, b_tile, warp_row, warp_col, 1);
            #pragma unroll
            for (int y = 0; y < ROWS16; y++)
                #pragma unroll
                for (int x = 0; x < COLS8; x++)
                    mma_m16n8k16_bf16(d[y][x], fa[step][y], fb[step][x / 2][x % 2 * 2], fb[step][x / 2][x % 2 * 2 + 1]);
        }
    }

    #pragma unroll
    for (int y = 0; y < ROWS16; y++)
        #pragma unroll
        for (int x = 0; x < COLS8; x++)
            #pragma unroll
            for (int half = 0; half < 2; half++) {                  // rows g and g + 8 of the fragment
                int row = row0 + warp_row + 16 * y + lane / 4 + 8 * half, col = col0 + warp_col + 8 * x + lane % 4 * 2;
                __nv_bfloat16* out = c + (size_t)row * n + col;
                float low = d[y][x][2 * half], high = d[y][x][2 * half + 1];
                if (row < m && col + 1 < n && n % 2 == 0) {
                    *reinterpret_cast<__nv_bfloat162*>(out) = __floats2bfloat162_rn(low, high);
                } else if (row < m) {                               // odd n: pairs are not 4-byte aligned
                    if (col < n) out[0] = __float2bfloat16(low);
                    if (col + 1 < n) out[1] = __float2bfloat16(high);
                }
            }
}
