// Latent attention (MLA) of one query a sequence: what is cached is one row of DK = 576 numbers a token for all heads. It is the key, and its first DV = 512
// numbers are the value: every byte read from memory meets 16 queries twice. 16 query heads a piece: all sixteen rows of mma.sync m16n8k16 are in use.
//
// As decoding/decode.cu, but the output, 16 x 512, is too wide for one warp. So warps split the scores one way and the output another:
// - scores of 32 keys: eight warps, sixteen keys and a quarter of the 576 columns each; the four quarters meet in shared memory, in two buffers by turns, so
//   that one barrier per tile is enough: who writes a buffer again has passed the barrier behind which everybody had read it;
// - every warp then has the same softmax of all 32 keys, and multiplies with 64 of the 512 columns.
// A slot is read twice and copied once: keys and values are the same bytes.
//
// Macros: PAGE (a multiple of 32), STAGES. Launch: any grid, block 288, dynamic shared memory STAGES * 36864 + 20480 + 16 * STAGES.
// Tensor map over (pages, 9, PAGE, 64) bf16, swizzle 128B, box 1 x 9 x 32 x 64. q: sequences x heads x 576, o: sequences x heads x 512, heads a multiple of 16.
// Measured in recordings/decoding.json.
#include <hopperlab/decoding.cuh>

#ifndef PAGE
#define PAGE 64
#endif
#ifndef STAGES
#define STAGES 5
#endif

constexpr int DK = 576, DV = 512, GROUP = 16, BN = 32, WARPS = 8, CONSUMERS = 32 * WARPS, STEPS = DK / 16 / 4, WIDTH = DV / WARPS;
constexpr int PANEL_BYTES = BN * 128, TILE_BYTES = BN * DK * 2, PITCH = BN + 8, SCORES = 4 * 16 * PITCH;
static_assert(PAGE % BN == 0);

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1)
latent(const __grid_constant__ TensorMap cache, const __nv_bfloat16* q, __nv_bfloat16* o, float* partial, float* partial_lse, const int* table,
       const Piece* pieces, const int* starts, float scale, int head_blocks, int table_pitch) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES tiles, two buffers of scores, barriers
    float* scores = reinterpret_cast<float*>(shared + STAGES * TILE_BYTES);
    mbarrier_t *full = reinterpret_cast<mbarrier_t*>(scores + 2 * SCORES), *empty = full + STAGES;
    require_aligned(shared, 1024);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, from = starts[blockIdx.x], to = starts[blockIdx.x + 1];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], WARPS);
    }
    if (threadIdx.x == CONSUMERS) prefetch_tensormap(&cache);
    __syncthreads();
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    Ring<STAGES> ring;

    if (warp == WARPS) {                                        // the producer
        for (int number = from; number < to; number++) {
            Piece piece = pieces[number];
            const int* pages = table + piece.sequence * table_pitch;
            int last = (piece.end - 1) / PAGE, base = piece.first / PAGE;
            int held = pages[min(base + lane, last)], ahead = pages[min(base + 32 + lane, last)];
            for (int key0 = piece.first; key0 < piece.end; key0 += BN, ring.advance()) {
                if (key0 / PAGE - base == 32) {
                    base += 32, held = ahead;
                    ahead = pages[min(base + 32 + lane, last)];
                }
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                int page = __shfl_sync(0xffffffff, held, key0 / PAGE - base);     // after the wait: it brings the lanes together, before lane 0 speaks for all
                if (lane == 0) {
                    mbarrier_arrive_expect_tx(&full[ring.slot], TILE_BYTES);
                    cp_async_bulk_tensor_4d_load(shared + ring.slot * TILE_BYTES, &cache, &full[ring.slot], 0, key0 % PAGE, 0, page);
                }
            }
        }
        return;
    }

    float c = base_2(scale);
    int half = warp % 2, quarter = warp / 2, turn = 0;          // of the scores: sixteen keys, nine steps of 16 columns
    unsigned k_row = shared_address(shared) + (16 * half + lane % 8 + lane / 16 * 8) * 128, v_row = shared_address(shared) + lane % 16 * 128;
    for (int number = from; number < to; number++) {
        Piece piece = pieces[number];
        size_t first_head = (size_t)(piece.sequence * head_blocks + piece.head) * GROUP;
        unsigned queries[STEPS][4];
        #pragma unroll
        for (int i = 0; i < STEPS; i++) load_q_fragment<GROUP>(queries[i], q + first_head * DK, DK, 16 * (STEPS * quarter + i));
        float out[WIDTH / 8][4] = {};
        RunningSoftmax<2> softmax;
        for (int key0 = piece.first; key0 < piece.end; key0 += BN, ring.advance(), turn ^= 1) {
            unsigned offset = ring.slot * TILE_BYTES, p[4];
            float part[2][4] = {}, s[4][4] = {};
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            #pragma unroll
            for (int i = 0; i < STEPS; i++) {
                unsigned k[4], chunk = 2 * (STEPS * quarter + i) + lane / 8 % 2;
                ldmatrix_x4(k, k_row + offset + chunk / 8 * PANEL_BYTES + (chunk % 8 ^ lane % 8) * 16);
                mma_m16n8k16_bf16(part[0], queries[i], k[0], k[1]);
                mma_m16n8k16_bf16(part[1], queries[i], k[2], k[3]);
            }
            float* place = scores + turn * SCORES + lane / 4 * PITCH + 2 * (lane % 4);
            #pragma unroll
            for (int i = 0; i < 4; i++)                         // block of 8 keys i / 2, row g or g + 8
                *reinterpret_cast<float2*>(place + (quarter * 16 + i % 2 * 8) * PITCH + 16 * half + i / 2 * 8) = make_float2(part[i / 2][i % 2 * 2], part[i / 2][i % 2 * 2 + 1]);
            bar_sync(1, CONSUMERS);
            #pragma unroll
            for (int i = 0; i < 32; i++) {                      // the four quarters of 32 keys: block i / 8, row i / 4 % 2
                float2 more = *reinterpret_cast<float2*>(place + (i % 4 * 16 + i / 4 % 2 * 8) * PITCH + i / 8 * 8);
                s[i / 8][i / 4 % 2 * 2] += more.x, s[i / 8][i / 4 % 2 * 2 + 1] += more.y;
            }
            int keys = piece.end - key0;
            softmax.block(s, out, keys, c);
            #pragma unroll
            for (int step = 0; step < BN / 16; step++) {
                p_fragment<2>(p, s[2 * step], s[2 * step + 1]);
                multiply_values<WIDTH>(out, p, v_row + offset + step * 2048, PANEL_BYTES, WIDTH * warp, keys - 16 * step);
            }
            __syncwarp();
            if (lane == 0) mbarrier_arrive(&empty[ring.slot]);
        }
        for (int r = 0; r < 2; r++) {                           // every warp has the same maximum and sum, and columns of its own
            int row = 8 * r + lane / 4, column = WIDTH * warp + 2 * (lane % 4);
            float total = softmax.total(r), share = 1.0f / total;
            #pragma unroll
            for (int x = 0; x < WIDTH / 8; x++) {
                float low = out[x][2 * r] * share, high = out[x][2 * r + 1] * share;
                if (piece.slot >= 0) *reinterpret_cast<float2*>(partial + ((size_t)piece.slot * GROUP + row) * DV + column + 8 * x) = make_float2(low, high);
                else *reinterpret_cast<unsigned*>(o + (first_head + row) * DV + column + 8 * x) = pack_bf16x2(low, high);
            }
            if (piece.slot >= 0 && warp == 0 && lane % 4 == 0) partial_lse[(size_t)piece.slot * GROUP + row] = c * softmax.most[r] + log2f(total);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
