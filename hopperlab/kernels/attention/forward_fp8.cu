// o = softmax(scale * q k^T) v on e4m3: q, k, v in 8 bits with a scale a head each, fp32 in between, bf16 o, and lse. Sequences, heads and
// CAUSAL as in forward.cu; so are the order of tiles, the draw, the turns and the overlap of one block's softmax with products.
// What 8 bits change:
// - V. wgmma reads 8-bit operands only K-major, and in p * v the summed dimension is the keys: it wants a row a column of v, TMA brings a
//   row a key. Three warps beside the producer transpose each block from its slot into another one: v_full (TMA) -> ldmatrix.trans,
//   prmt, stmatrix -> fence.proxy.async, vt_full -> wgmma; v_empty and vt_empty go back.
// - p. The accumulator of the scores is not the A fragment of 8-bit elements; a permutation of the keys, the same in p and in V^T,
//   makes it one, and no lane hands anything to another (attention_fp8.cuh).
// - The range of p: terms are scaled by 256, and their sum with them (ScaledSoftmax).
// - The sums. The tensor core adds e4m3 products with few bits (recordings/fp8.json, `accuracy`: thousands of positive products lose
//   several per cent). PROMOTED: the values of a block are summed up from zero and added to o in fp32, by the multiply-add that
//   scales o anyway. It costs WIDE / 2 registers: only the first WIDE columns run under the next softmax, the others follow it.
// - HELD: those columns do run under it. Else ptxas puts the wait for them before the softmax, and mostly fares better so.
// - Shared memory: half the bytes per tile, but a second copy of v. o is twice as wide as q and leaves straight from registers.
//
// Macros: D (64, 128, 256), BN (64, 96, 128, 160, 192, 224), CONSUMERS (1 to 3), STAGES, CAUSAL, OVERLAP, TURNS, PROMOTED, WIDE (64, 128, D;
// promoted at D 256: 64, else registers run out), HELD (with OVERLAP).
// Launch: grid and block as forward.cu; dynamic shared memory (64 * CONSUMERS + 3 * STAGES * BN) * D + 256.
// Tensor maps over (tokens, heads, D) bytes, boxes as wide as a row of R = min(D, 128), swizzle R: q 64 * CONSUMERS x 1 x R, k, v BN x 1 x R.
// q_scale: heads, k_scale, v_scale: kv_heads numbers, greater than 0, by which the e4m3 numbers are to be multiplied.
// counter: two ints, zero before the first launch.
// Measured in recordings/attention_fp8.json.
#include <hopperlab/attention_fp8.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>

#ifndef D
#define D 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef OVERLAP
#define OVERLAP 1
#endif
#ifndef TURNS
#define TURNS 1
#endif
#ifndef PROMOTED
#define PROMOTED 1
#endif
#ifndef WIDE
#define WIDE D
#endif
#ifndef HELD
#define HELD 0
#endif

constexpr int BM = 64 * CONSUMERS, THREADS = 128 * (CONSUMERS + 1), ROW = row_bytes(D), PANELS = D / ROW, TRANSPOSERS = 3;
constexpr int Q_PANEL = BM * ROW, KV_PANEL = BN * ROW, Q_BYTES = BM * D, KV_BYTES = BN * D, VT_ROW = row_bytes(BN), VT_PANEL = D * VT_ROW;
enum { TURN = 1, OWN = 1 + CONSUMERS };                         // named barriers: one a warpgroup for its turn, one for itself
static_assert(D % 64 == 0 && BN % 32 == 0 && CONSUMERS <= 3);
static_assert((WIDE == D || (PROMOTED && D % WIDE == 0)) && (OVERLAP || !HELD));

extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          __nv_bfloat16* o, float* lse, const float* q_scale, const float* k_scale, const float* v_scale, const int* q_starts,
          const int* k_starts, int* counter, float scale, int tiles, int heads, int kv_heads, int sequences, int tokens, int group) {
    extern __shared__ __align__(1024) unsigned char shared[];   // q, STAGES x k, STAGES x v, STAGES x V^T, barriers
    unsigned char *ks = shared + Q_BYTES, *vs = ks + STAGES * KV_BYTES, *vts = vs + STAGES * KV_BYTES;
    mbarrier_t* q_full = reinterpret_cast<mbarrier_t*>(vts + STAGES * KV_BYTES);
    mbarrier_t *q_empty = q_full + 1, *k_full = q_empty + 1, *k_empty = k_full + STAGES, *v_full = k_empty + STAGES, *v_empty = v_full + STAGES;
    mbarrier_t *vt_full = v_empty + STAGES, *vt_empty = vt_full + STAGES, *work_full = vt_empty + STAGES, *work_empty = work_full + 2;
    int* drawn = reinterpret_cast<int*>(work_empty + 2);        // the numbers of this tile and the next
    require_aligned(shared, 1024);
    int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32, all = tiles * heads * sequences;
    auto work_at = [&](int index) { return work_of<BM, BN, CAUSAL>(index, q_starts, k_starts, tiles, heads, sequences, group); };
    if (threadIdx.x == 0) {
        mbarrier_init(q_full, 1), mbarrier_init(q_empty, CONSUMERS);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&k_full[s], 1), mbarrier_init(&k_empty[s], CONSUMERS);    // a thread of each consumer
            mbarrier_init(&v_full[s], 1), mbarrier_init(&v_empty[s], TRANSPOSERS);  // a lane of each warp
            mbarrier_init(&vt_full[s], TRANSPOSERS), mbarrier_init(&vt_empty[s], CONSUMERS);
        }
        for (int s = 0; s < 2; s++) mbarrier_init(&work_full[s], 1), mbarrier_init(&work_empty[s], 4 * CONSUMERS + TRANSPOSERS);
    }
    if (threadIdx.x == 32) {                                    // another warp fetches the maps
        prefetch_tensormap(&q);
        prefetch_tensormap(&k);
        prefetch_tensormap(&v);
    }
    __syncthreads();

    Ring<STAGES> ring;
    Ring<1> queries;                                            // q has one slot
    Ring<2> draws;
    auto next_tile = [&] {                                      // the number drawn, to every warp but the producer's
        mbarrier_wait_parity(&work_full[draws.slot], draws.phase);
        int index = drawn[draws.slot];
        __syncwarp();
        if (lane == 0) mbarrier_arrive(&work_empty[draws.slot]);
        draws.advance();
        return index;
    };
    if (warpgroup == 0) {
        if (CONSUMERS == 3) setmaxnreg_dec<32>();
        else setmaxnreg_dec<40>();
        int warp = threadIdx.x / 32;
        if (threadIdx.x == 0) {
            for (int index = blockIdx.x;; index = gridDim.x + atomicAdd(&counter[0], 1), draws.advance()) {
                mbarrier_wait_parity(&work_empty[draws.slot], draws.phase ^ 1);
                drawn[draws.slot] = index;
                mbarrier_arrive(&work_full[draws.slot]);
                if (index >= all) break;                        // the others see it too
                Work work = work_at(index);
                int kv_head = work.head / (heads / kv_heads);
                for (int j = work.blocks - 1; j >= 0; j--, ring.advance()) {
                    int token = work.k_start + j * BN;
                    mbarrier_wait_parity(&k_empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&k_full[ring.slot], KV_BYTES);
                    for (int p = 0; p < PANELS; p++)
                        cp_async_bulk_tensor_3d_load(ks + ring.slot * KV_BYTES + p * KV_PANEL, &k, &k_full[ring.slot], ROW * p, kv_head, token);
                    if (j == work.blocks - 1) {                 // after the first keys, which have a slot of their own already
                        mbarrier_wait_parity(q_empty, queries.phase ^ 1);
                        mbarrier_arrive_expect_tx(q_full, Q_BYTES);
                        for (int p = 0; p < PANELS; p++)
                            cp_async_bulk_tensor_3d_load(shared + p * Q_PANEL, &q, q_full, ROW * p, work.head, work.q_start + work.first);
                        queries.advance();
                    }
                    mbarrier_wait_parity(&v_empty[ring.slot], ring.phase ^ 1);
                    mbarrier_arrive_expect_tx(&v_full[ring.slot], KV_BYTES);
                    for (int p = 0; p < PANELS; p++)
                        cp_async_bulk_tensor_3d_load(vs + ring.slot * KV_BYTES + p * KV_PANEL, &v, &v_full[ring.slot], ROW * p, kv_head, token);
                }
            }
            if (atomicAdd(&counter[1], 1) == gridDim.x - 1) {   // everybody has drawn for the last time
                atomicExch(&counter[0], 0);
                atomicExch(&counter[1], 0);
            }
        } else if (warp > 0) {
            for (int index = next_tile(); index < all; index = next_tile())
                for (int left = work_at(index).blocks; left > 0; left--, ring.advance()) {
                    mbarrier_wait_parity(&v_full[ring.slot], ring.phase);
                    mbarrier_wait_parity(&vt_empty[ring.slot], ring.phase ^ 1);
                    transpose_e4m3<BN, D, TRANSPOSERS>(shared_address(vs) + ring.slot * KV_BYTES, shared_address(vts) + ring.slot * KV_BYTES, warp - 1);
                    fence_proxy_async_shared_cta();             // each lane's own writes, before wgmma reads them
                    __syncwarp();
                    if (lane == 0) {
                        mbarrier_arrive(&v_empty[ring.slot]);
                        mbarrier_arrive(&vt_full[ring.slot]);
                    }
                }
        }
        return;
    }
    if (CONSUMERS == 3) setmaxnreg_inc<160>();
    else setmaxnreg_inc<232>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128;
    unsigned q_tile = shared_address(shared) + me * 64 * ROW, k_tiles = shared_address(ks), vt_tiles = shared_address(vts);
    float s[BN / 2], out[D / 2], scales[2], c = 0;              // c: of the exponentials to the base 2
#if PROMOTED
    float part[WIDE / 2], earlier[2];                           // values of one block; what o is scaled by before they are added
#endif
    unsigned p[BN / 32][4];
    auto scores = [&](int slot) {
        wgmma_fence();
        wgmma_scores_e4m3<D>(s, q_tile, Q_PANEL, k_tiles + slot * KV_BYTES, KV_PANEL);
        wgmma_commit_group();
    };
    auto values = [&](int slot, int first, int accumulate) {    // first: column of o
        wgmma_fence();
#if PROMOTED
        wgmma_values_e4m3<BN>(part, p, vt_tiles + slot * KV_BYTES + first * VT_ROW, VT_PANEL, 0);
#else
        wgmma_values_e4m3<BN>(out, p, vt_tiles + slot * KV_BYTES, VT_PANEL, accumulate);
#endif
        wgmma_commit_group();
    };
    auto release = [&](mbarrier_t* barrier) { if (thread == 0) mbarrier_arrive(barrier); };
    auto finish_values = [&](int slot, const float (&by)[2]) {  // o = by * o + values, whose first columns are on their way
#if PROMOTED
        #pragma unroll
        for (int first = 0; first < D; first += WIDE) {
            if (first) values(slot, first, 0);
            wgmma_wait_group<0>();
            if (first + WIDE == D) release(&vt_empty[slot]);
            #pragma unroll
            for (int i = 0; i < WIDE / 2; i++) out[first / 2 + i] = fmaf(out[first / 2 + i], by[i / 2 % 2], part[i]);
        }
#else
        wgmma_wait_group<0>();
        release(&vt_empty[slot]);
#endif
    };
    auto my_turn = [&] { if (TURNS && CONSUMERS > 1) bar_sync(TURN + me, 256); };
    auto next_turn = [&] { if (TURNS && CONSUMERS > 1) bar_arrive(TURN + (me + 1) % CONSUMERS, 256); };
    auto skip = [&](int from, int to) {                         // blocks in which this warpgroup sees nothing
        for (int j = from; j > to; j--, ring.advance()) {
            mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
            my_turn();
            next_turn();
            mbarrier_wait_parity(&vt_full[ring.slot], ring.phase);
            bar_sync(OWN + me, 128);                            // everybody has looked; where there is work, wgmma sees to that
            release(&k_empty[ring.slot]);
            release(&vt_empty[ring.slot]);
        }
    };
    if (me == CONSUMERS - 1) next_turn();                       // the first one begins

    for (int index = next_tile(); index < all; index = next_tile()) {
        Work work = work_at(index);
        if (work.first >= work.queries) continue;               // a shorter sequence has fewer tiles
        int row = work.first + me * 64 + thread / 32 * 16 + lane / 4, offset = work.keys - work.queries, kv_head = work.head / (heads / kv_heads);
        c = scale * 1.44269504f * q_scale[work.head] * k_scale[kv_head];
        ScaledSoftmax softmax;
        auto masked = [&](int j) {                              // the same in all threads of a warpgroup
            int end = (j + 1) * BN;
            if (end > work.keys || (CAUSAL && end - 1 > work.first + me * 64 + offset)) mask<CAUSAL>(s, row, j * BN + 2 * (lane % 4), work.keys, offset);
        };
#if PROMOTED
        #pragma unroll
        for (int i = 0; i < D / 2; i++) out[i] = 0;
#endif
        int blocks = blocks_of<BN, CAUSAL>(work, work.first + me * 64, 64);     // that this warpgroup sees
        if (work.blocks) {
            mbarrier_wait_parity(q_full, queries.phase);
            queries.advance();
            skip(work.blocks, blocks);
            if (!blocks) release(q_empty);
        }
        if (blocks) {
#if OVERLAP
            mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
            my_turn();
            scores(ring.slot);
            next_turn();
            wgmma_wait_group<0>();
            release(&k_empty[ring.slot]);
            if (blocks == 1) release(q_empty);                  // nobody multiplies with q any more
            masked(blocks - 1);
            softmax.block(s, scales, c);
            scores_to_fragments_e4m3(p, s);
            for (int j = blocks - 2; j >= 0; j--) {
                int before = ring.slot;
                unsigned phase = ring.phase;
                ring.advance();
                mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
                my_turn();
                scores(ring.slot);
                mbarrier_wait_parity(&vt_full[before], phase);
                values(before, 0, j < blocks - 2);              // of the block before, under the softmax of this one
                next_turn();
                wgmma_wait_group<1>();
                release(&k_empty[ring.slot]);
                if (j == 0) release(q_empty);
                masked(j);
#if PROMOTED
                earlier[0] = scales[0], earlier[1] = scales[1];
#endif
                softmax.block(s, scales, c);
                if (HELD) behind(softmax.sum[0]);
#if PROMOTED
                finish_values(before, earlier);
#else
                finish_values(before, scales);
                scale_rows(out, scales);
#endif
                scores_to_fragments_e4m3(p, s);
            }
            mbarrier_wait_parity(&vt_full[ring.slot], ring.phase);
            values(ring.slot, 0, blocks > 1);
            finish_values(ring.slot, scales);
            ring.advance();
#else
            for (int j = blocks - 1; j >= 0; j--, ring.advance()) {
                mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
                my_turn();
                scores(ring.slot);
                next_turn();
                wgmma_wait_group<0>();
                release(&k_empty[ring.slot]);
                if (j == 0) release(q_empty);                   // nobody multiplies with q any more
                masked(j);
                softmax.block(s, scales, c);
                scores_to_fragments_e4m3(p, s);
                if (!PROMOTED && j < blocks - 1) scale_rows(out, scales);
                mbarrier_wait_parity(&vt_full[ring.slot], ring.phase);
                values(ring.slot, 0, j < blocks - 1);
                finish_values(ring.slot, scales);
            }
#endif
        }
        float whole[2] = {softmax.total(0), softmax.total(1)}, inverse[2];
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            inverse[r] = whole[r] > 0 ? v_scale[kv_head] / whole[r] : 0;        // a query that sees no key: 0, and minus infinity
            if (lane % 4 == 0 && row + 8 * r < work.queries)                    // to the base e, and without the terms' factor
                lse[(size_t)work.head * tokens + work.q_start + row + 8 * r] =
                    whole[r] > 0 ? (softmax.most[r] * c - TERM_EXPONENT) * 0.693147181f + __logf(whole[r]) : MINUS_INFINITY;
        }
        #pragma unroll
        for (int i = 0; i < D / 2; i++) out[i] = blocks ? out[i] * inverse[i / 2 % 2] : 0;
        #pragma unroll
        for (int i = 0; i < D / 2; i += 2) {
            int y = row + 8 * (i / 2 % 2);
            __nv_bfloat16* place = o + ((size_t)(work.q_start + y) * heads + work.head) * D + 8 * (i / 4) + 2 * (lane % 4);
            if (y < work.queries) *reinterpret_cast<__nv_bfloat162*>(place) = __floats2bfloat162_rn(out[i], out[i + 1]);
        }
    }
    if (me == 0) my_turn();                                     // the last turn's word to the next, which nobody else takes
}
// SPDX-License-Identifier: Apache-2.0
