// C[m,n] = A * B^T with every kind of operand that wgmma takes; C row-major in fp32, or int32 for integers.
//
// One schedule (a producer warp, two consumer warpgroups, one product in flight) on one tile of 128 x 128 and 128 bytes of k, so
// that what differs is the operands alone:
//   INPUT      0 bf16, 1 f16, 2 tf32 (fp32 data, 13 bits of the mantissa ignored), 3 e4m3, 4 s8 (exact, into int32)
//   A_SOURCE   0: A from shared memory (SS). 1: from registers (RS): ldmatrix brings the fragment, and while the tensor core
//              works on it the fragment of the next tile comes into other registers; A then costs 2 x 16 registers per thread
//   A_MN, B_MN 0: K-major, rows of 128 bytes of k. 1: MN-major, A is given as (k, m) or B as (k, n); 16-bit types only. A panel
//              is then 64 columns of m (n) x 64 rows of k, and the transposition costs nothing but another descriptor
// A k-step is 32 bytes of k in every type: 16, 8 or 32 elements.
//
// Macros: the above, STAGES (2 to 6). Launch: grid (ceil(n/128), ceil(m/128)), block 288, dynamic shared memory STAGES * 32768 +
// 16 * STAGES bytes. Tensor maps, swizzle 128B, fill zero: K-major box 128 rows x 128 bytes, MN-major box 64 rows of k x 64
// columns. Rows of every matrix in global memory are multiples of 16 bytes. Measured in recordings/variants.json.
#include <hopperlab/fence.cuh>
#include <hopperlab/mma.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma_operands.cuh>

#ifndef INPUT
#define INPUT 0
#endif
#ifndef A_SOURCE
#define A_SOURCE 0
#endif
#ifndef A_MN
#define A_MN 0
#endif
#ifndef B_MN
#define B_MN 0
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef BUG_TRANSPOSED                  // 1: the instruction reads B in the other major than the tile and its descriptor have
#define BUG_TRANSPOSED 0
#endif
#ifndef BUG_NO_READER_FENCE             // 1: RS reads A's slot by ldmatrix and hands it back to TMA without a proxy fence
#define BUG_NO_READER_FENCE 0
#endif

#define QUOTED(x) #x
#define QUOTE(x) QUOTED(x)
#if INPUT == 0
#define SHAPE "m64n128k16.f32.bf16.bf16"
#elif INPUT == 1
#define SHAPE "m64n128k16.f32.f16.f16"
#elif INPUT == 2
#define SHAPE "m64n128k8.f32.tf32.tf32"
#elif INPUT == 3
#define SHAPE "m64n128k32.f32.e4m3.e4m3"
#else
#define SHAPE "m64n128k32.s32.s8.s8"
#endif
#if B_MN ^ BUG_TRANSPOSED
#define B_TRANSPOSED "1"
#else
#define B_TRANSPOSED "0"
#endif
#if INPUT == 4
#define ACCUMULATOR int
#define TAIL ""
#else
#define ACCUMULATOR float
#if INPUT >= 2
#define TAIL ", 1, 1"
#elif A_SOURCE
#define TAIL ", 1, 1, " B_TRANSPOSED
#else
#define TAIL ", 1, 1, " QUOTE(A_MN) ", " B_TRANSPOSED
#endif
#endif
#if A_SOURCE
WGMMA_RS(multiply, 64, ACCUMULATOR, SHAPE, TAIL)
#else
WGMMA_SS(multiply, 64, ACCUMULATOR, SHAPE, TAIL)
#endif

constexpr int ELEMENT_BYTES = INPUT < 2 ? 2 : INPUT == 2 ? 4 : 1, BK = 128 / ELEMENT_BYTES;
constexpr int BM = 128, BN = 128, TILE_BYTES = 128 * 128, STAGE_BYTES = 2 * TILE_BYTES, PANEL_BYTES = 64 * 128;
static_assert(!(A_MN || B_MN) || ELEMENT_BYTES == 2, "only 16-bit operands can be read MN-major");

// One operand's tile: 128 rows of m (n) from row0, 128 bytes of k from k0.
template <int MN>
__device__ __forceinline__ void load_tile(unsigned char* tile, const TensorMap* map, mbarrier_t* barrier, int row0, int k0) {
    if (MN) {
        for (int panel = 0; panel < 2; panel++)
            cp_async_bulk_tensor_2d_load(tile + panel * PANEL_BYTES, map, barrier, row0 + 64 * panel, k0);
    } else {
        cp_async_bulk_tensor_2d_load(tile, map, barrier, k0, row0);
    }
}

// This warp's 16 rows of A of a warpgroup's 64 (`tile`: those 64 rows, or that panel), k-step `step`, as wgmma wants them in
// registers: rows 0-7 and 8-15 of the first 16 bytes of k, then of the second 16. In an MN-major panel a row is one k, so
// the matrices that ldmatrix brings are turned on the way (.trans).
__device__ __forceinline__ void load_fragment(unsigned (&a)[4], unsigned tile, int step) {
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    if (A_MN) {
        int row = 16 * step + lane / 16 * 8 + lane % 8, chunk = 2 * warp + lane / 8 % 2;
        ldmatrix_x4_trans(a, tile + row * 128 + ((chunk ^ (row % 8)) * 16));
    } else {
        int row = 16 * warp + lane % 16, chunk = 2 * step + lane / 16;
        ldmatrix_x4(a, tile + row * 128 + ((chunk ^ (row % 8)) * 16));
    }
}

extern "C" __global__ void __launch_bounds__(288, 1)
gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ACCUMULATOR* c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (A tile, B tile), then the barriers
    mbarrier_t* full = reinterpret_cast<mbarrier_t*>(shared + STAGES * STAGE_BYTES);
    mbarrier_t* empty = full + STAGES;
    require_aligned(shared, 1024);
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, k_tiles = (k + 2 * BK - 1) / (2 * BK) * 2;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);                         // the producer, and the bytes
            mbarrier_init(&empty[s], 2);                        // one arrival a consumer warpgroup
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    Ring<STAGES> ring;
    if (threadIdx.x >= 256) {                                   // the producer warp
        for (int i = 0; i < k_tiles && threadIdx.x == 256; i++, ring.advance()) {
            unsigned char* stage = shared + ring.slot * STAGE_BYTES;
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            mbarrier_arrive_expect_tx(&full[ring.slot], STAGE_BYTES);
            load_tile<A_MN>(stage, &a, &full[ring.slot], row0, i * BK);
            load_tile<B_MN>(stage + TILE_BYTES, &b, &full[ring.slot], col0, i * BK);
        }
        return;
    }

    ACCUMULATOR d[64];
    int warpgroup = threadIdx.x / 128, last = 0;                // the slot of the product in flight
    auto step_over_tile = [&](int i, unsigned (&fragments)[4][4]) {
        unsigned a_tile = shared_address(shared) + ring.slot * STAGE_BYTES + warpgroup * PANEL_BYTES;
        unsigned b_tile = shared_address(shared) + ring.slot * STAGE_BYTES + TILE_BYTES;
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
#if A_SOURCE
        #pragma unroll
        for (int step = 0; step < 4; step++) load_fragment(fragments[step], a_tile, step);
        if (!BUG_NO_READER_FENCE) fence_proxy_async_shared_cta();       // this thread has read A's slot: before TMA writes it again
#endif
        wgmma_fence();
        #pragma unroll
        for (int step = 0; step < 4; step++) {
            unsigned long long b_at = B_MN ? wgmma_descriptor_mn_major(b_tile + step * 2048, PANEL_BYTES)
                                           : wgmma_descriptor_k_major<128>(b_tile + step * 32);
#if A_SOURCE
            multiply(d, fragments[step], b_at, i > 0 || step > 0);
#else
            multiply(d, A_MN ? wgmma_descriptor_mn_major(a_tile + step * 2048, PANEL_BYTES)
                             : wgmma_descriptor_k_major<128>(a_tile + step * 32), b_at, i > 0 || step > 0);
#endif
        }
        wgmma_commit_group();
        wgmma_wait_group<1>();                                  // the product before has read its slot and its fragments
        if (i > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[last]);
        last = ring.slot;
        ring.advance();
    };
    // Fragments of A, of even and of odd tiles (unused in SS). Tiles come in pairs, the last one may be all zeros: with a
    // condition between the two, ptxas waits for each wgmma before the next fragment is loaded (its note C7513).
    unsigned even[4][4], odd[4][4];
    for (int i = 0; i < k_tiles; i += 2) {
        step_over_tile(i, even);
        step_over_tile(i + 1, odd);
    }
    wgmma_wait_group<0>();

    int lane = threadIdx.x % 32;
    int row = row0 + 64 * warpgroup + 16 * (threadIdx.x / 32 % 4) + lane / 4, col = col0 + 2 * (lane % 4);
    #pragma unroll
    for (int i = 0; i < 64; i++) {
        int y = row + 8 * (i / 2 % 2), x = col + 8 * (i / 4) + i % 2;
        if (y < m && x < n) c[(size_t)y * n + x] = d[i];
    }
}
// SPDX-License-Identifier: Apache-2.0
