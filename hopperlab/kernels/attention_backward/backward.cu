// dq, dk, dv of o = softmax(scale * q k^T) v for every head, bf16 in and out, fp32 in between. Sequences of one length, as many keys as queries.
// s and p = exp(s - lse) are computed once more, from the log-sum-exp that the forward pass left; p and ds = p * (dp - delta) never reach global memory.
//
// A CTA keeps BN keys and values, and the sums dk and dv of these keys in registers; the blocks of BM queries that see them come by, q, do, lse and delta
// in a ring. Five products per block, everything of keys times queries transposed, so that p and ds are the A operands of the sums that stay:
//     s^T = k q^T   dp^T = v do^T   dv += p^T do   dk += ds^T q   dq = ds k
// A consumer warpgroup has 64 keys. Only dq sums over all of them: ds goes through shared memory, and each warpgroup makes 64 x 64 of dq out of it.
// dq is the sum over all CTAs of a head. It grows in fp32 in `sums`, in the order of an accumulator's registers: 64 x 64 numbers of a warpgroup, of which
// thread t has 16 bytes at (j * 128 + t) * 16. end.cu makes bf16 rows of it, begin.cu made delta and zeros. DQ says how it grows:
// - 0: each thread adds its registers to global memory (red.v4.f32);
// - 1: through shared memory; a warp of the producer's warpgroup adds 16 KiB at a time by a bulk copy (cp.reduce.async.bulk), and the consumers go on;
// - 2: as 1, but in order: a counter for each block of queries says how many CTAs have added, and each waits for its turn. The first stores instead of
//   adding, so nothing has to be zero. The result is the same to the bit in every run. Numbers are drawn, so that whoever is waited for runs already.
// OVERLAP: the exponentials run under dp, ds under dv, and dq goes out under dk. Without it a warpgroup waits for every product it started.
// AHEAD (with OVERLAP): the next block's s is started behind dk, so that the next exponentials find it done.
//
// Registers limit everything. A thread holds dk and dv (D / 2 each), s and dp (BM / 2 each), p and ds as bf16 (BM / 4 each), dq (32), not all at a time;
// two warpgroups may have 240. PRECISE: ds is made of p in fp32; else of p as it was rounded for dv, and s is free by then.
//
// Macros: D (64, 128), CONSUMERS (2; 1 with D 64), from which BM and BN follow: dq of a block is 64 x 64 a warpgroup; STAGES; CAUSAL; OVERLAP; AHEAD; DQ; ROTATED; PRECISE.
// Launch: grid ceil(length / BN) * heads * batch; block 128 * (CONSUMERS + 1); dynamic shared memory as Backward.shared_bytes says.
// Tensor maps over (batch, length, heads, D) bf16, swizzle 128B: q, d_o box 1 x BM x 1 x 64, k, v box 1 x BN x 1 x 64, dk, dv box 1 x 64 x 1 x 64.
// lse (times log2 e; infinite behind the end), delta: units x tiles * BM floats. sums: units x tiles x BM * D floats. done: units x tiles counters and one more,
// the numbers drawn; zero before the launch.
// Measured in recordings/backward.json.
#include <hopperlab/attention_backward.cuh>
#include <hopperlab/grid_flag.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>

#ifndef D
#define D 128
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
#ifndef DQ
#define DQ 1
#endif
#ifndef ROTATED
#define ROTATED 1
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#ifndef PRECISE
#define PRECISE (D == 128 && !AHEAD)
#endif
#define ATOMICS 0
#define BULK 1
#define ORDERED 2

constexpr int BM = 4096 * CONSUMERS / D, BN = 64 * CONSUMERS, THREADS = 128 * (CONSUMERS + 1), PANELS = D / 64, ALL = 128 * CONSUMERS;
constexpr int Q_PANEL = BM * 128, KV_PANEL = BN * 128, Q_BYTES = PANELS * Q_PANEL, KV_BYTES = PANELS * KV_PANEL, DS_BYTES = BM * BN * 2;
constexpr int PART = 64 * 64 * 4, SUMS = DQ == ATOMICS ? 0 : CONSUMERS * PART;         // dq of a warpgroup in fp32, and of all
enum { DS_READY = 1, END, FULL, EMPTY = FULL + CONSUMERS, OWN = EMPTY + CONSUMERS };     // named barriers; the last three: one a warpgroup
static_assert(D == 64 && CONSUMERS <= 2 || D == 128 && CONSUMERS == 2);

extern "C" __global__ void __launch_bounds__(THREADS, 1)
attention_backward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
                   const __grid_constant__ TensorMap d_o, const __grid_constant__ TensorMap dk_map, const __grid_constant__ TensorMap dv_map,
                   const float* lse, const float* delta, float* sums, unsigned* done, float scale, int length, int heads, int units, int group) {
    extern __shared__ __align__(1024) unsigned char shared[];   // k, v, STAGES x q, STAGES x do, 2 x ds, dq, STAGES x (lse, delta), barriers
    unsigned char *vs = shared + KV_BYTES, *qs = vs + KV_BYTES, *dos = qs + STAGES * Q_BYTES, *dss = dos + STAGES * Q_BYTES, *dqs = dss + 2 * DS_BYTES;
    float *lses = reinterpret_cast<float*>(dqs + SUMS), *deltas = lses + STAGES * BM;
    mbarrier_t *k_full = reinterpret_cast<mbarrier_t*>(deltas + STAGES * BM), *v_full = k_full + 1;
    mbarrier_t *q_full = v_full + 1, *q_empty = q_full + STAGES, *do_full = q_empty + STAGES, *do_empty = do_full + STAGES;
    unsigned* drawn = reinterpret_cast<unsigned*>(do_empty + STAGES);
    require_aligned(shared, 1024);
    int warpgroup = threadIdx.x / 128, blocks = (length + BN - 1) / BN, tiles = (length + BM - 1) / BM;
    if (threadIdx.x == 0) {
        mbarrier_init(k_full, 1), mbarrier_init(v_full, 1);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&q_full[s], 1), mbarrier_init(&q_empty[s], CONSUMERS);        // a thread of each consumer
            mbarrier_init(&do_full[s], 1), mbarrier_init(&do_empty[s], CONSUMERS);
        }
        if (DQ == ORDERED) *drawn = atomicAdd(&done[units * tiles], 1);
    }
    if (threadIdx.x == 32) {
        prefetch_tensormap(&q);
        prefetch_tensormap(&k);
        prefetch_tensormap(&v);
        prefetch_tensormap(&d_o);
    }
    __syncthreads();
    KeyBlock work = key_block<BM, BN, CAUSAL, DQ == ORDERED, ROTATED>(DQ == ORDERED ? *drawn : blockIdx.x, blocks, tiles, units, group);
    int head = work.unit % heads, batch = work.unit / heads;

    Ring<STAGES> ring;
    if (warpgroup == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0) {
            auto load = [&](const TensorMap* map, unsigned char* slot, mbarrier_t* full, int panel, int row) {
                for (int p = 0; p < PANELS; p++) cp_async_bulk_tensor_4d_load(slot + p * panel, map, full, 64 * p, head, row, batch);
            };
            auto load_block = [&](const TensorMap* map, unsigned char* slots, float* row_slots, const float* rows, mbarrier_t* full, mbarrier_t* empty, int i) {
                int m = work.queries(i);                        // of block i: its rows of q (or do), and lse (or delta) of each
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], Q_BYTES + BM * 4);
                load(map, slots + ring.slot * Q_BYTES, &full[ring.slot], Q_PANEL, m * BM);
                cp_async_bulk_load(row_slots + ring.slot * BM, rows + ((size_t)work.unit * tiles + m) * BM, BM * 4, &full[ring.slot]);
            };
            auto load_q = [&](int i) { load_block(&q, qs, lses, lse, q_full, q_empty, i); };
            auto load_do = [&](int i) { load_block(&d_o, dos, deltas, delta, do_full, do_empty, i); };
            mbarrier_arrive_expect_tx(k_full, KV_BYTES);
            load(&k, shared, k_full, KV_PANEL, work.number * BN);
            load_q(0);                                          // what the first product reads comes first
            mbarrier_arrive_expect_tx(v_full, KV_BYTES);
            load(&v, vs, v_full, KV_PANEL, work.number * BN);
            load_do(0);
            for (int i = 1; i < work.steps; i++) {
                ring.advance();
                load_do(i);                                     // its slot is free first
                load_q(i);
            }
        } else if (DQ != ATOMICS && threadIdx.x / 32 == 1) {    // the warp that adds dq
            int lane = threadIdx.x % 32;
            for (int i = 0; i < work.steps; i++) {
                int m = work.queries(i), before = adds_before<BM, BN, CAUSAL>(m, work.number, blocks);
                size_t tile = (size_t)work.unit * tiles + m;
                for (int w = 0; w < CONSUMERS; w++) {
                    bar_sync(FULL + w, 160);
                    if (lane == 0) {
                        float* target = sums + tile * BM * D + w * PART / 4;
                        if (DQ == ORDERED && w == 0) {
                            wait_for_count(&done[tile], before);
                            fence_proxy_async();                // what the others added comes before what this copy adds
                        }
                        if (DQ == ORDERED && before == 0) cp_async_bulk_store(target, dqs + w * PART, PART);
                        else cp_reduce_async_bulk_add_f32(target, dqs + w * PART, PART);
                        cp_async_bulk_commit_group();
                    }
                    __syncwarp();
                }
                for (int w = 0; w < CONSUMERS; w++) {           // groups complete in their order
                    if (lane == 0 && w < CONSUMERS - 1) cp_async_bulk_wait_group_read<CONSUMERS - 1>();
                    else if (lane == 0) cp_async_bulk_wait_group_read<0>();
                    __syncwarp();
                    if (i + 1 < work.steps) bar_arrive(EMPTY + w, 160);
                }
                if (DQ == ORDERED && lane == 0) {
                    cp_async_bulk_wait_group<0>();              // not only read: added
                    fence_proxy_async();
                    red_release_gpu_add_one(&done[tile]);
                }
            }
        }
        return;
    }
    setmaxnreg_inc<240>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, lane = thread % 32;
    unsigned k_tile = shared_address(shared), v_tile = shared_address(vs), q_tiles = shared_address(qs), do_tiles = shared_address(dos), ds_tiles = shared_address(dss);
    float c = scale * 1.44269504f;                              // exponentials to the base 2
    int key = work.number * BN + me * 64;                       // the first of this warpgroup
    float dk[D / 2], dv[D / 2], s[BM / 2];
    auto release = [&](mbarrier_t* barrier) { if (thread == 0) mbarrier_arrive(barrier); };
    auto scores = [&](unsigned q_tile) {
        wgmma_fence();
        wgmma_scores<D>(s, k_tile + me * 8192, KV_PANEL, q_tile, Q_PANEL);
        wgmma_commit_group();
    };
    mbarrier_wait_parity(k_full, 0);
    if (AHEAD) {
        mbarrier_wait_parity(&q_full[0], 0);
        scores(q_tiles);
        wgmma_wait_group<0>();
    }
    for (int i = 0; i < work.steps; i++, ring.advance()) {
        int slot = ring.slot, m = work.queries(i);
        unsigned ds_tile = ds_tiles + i % 2 * DS_BYTES, q_tile = q_tiles + slot * Q_BYTES, do_tile = do_tiles + slot * Q_BYTES;
        float dp[BM / 2], dq[32];
        unsigned p[BM / 16][4], ds[BM / 16][4];
        if (!AHEAD) mbarrier_wait_parity(&q_full[slot], ring.phase);
        if (!AHEAD) scores(q_tile);
        if (i == 0) mbarrier_wait_parity(v_full, 0);
        mbarrier_wait_parity(&do_full[slot], ring.phase);
        wgmma_fence();
        wgmma_scores<D>(dp, v_tile + me * 8192, KV_PANEL, do_tile, Q_PANEL);
        wgmma_commit_group();
        if (!AHEAD) wgmma_wait_group<OVERLAP>();                // s is there
        if (key + 64 > length || (CAUSAL && key + 63 > m * BM)) mask_keys<CAUSAL>(s, key + thread / 32 * 16 + lane / 4, m * BM + 2 * (lane % 4), length);
        probabilities(s, lses + slot * BM, c);
        scores_to_fragments(p, s);
        wgmma_fence();
        wgmma_values<BM>(dv, p, do_tile, Q_PANEL, i > 0);
        wgmma_commit_group();
        wgmma_wait_group<OVERLAP>();                            // dp is there
        if constexpr (PRECISE) score_gradients(ds, s, dp, deltas + slot * BM);
        else score_gradients(ds, p, dp, deltas + slot * BM);
        #pragma unroll
        for (int panel = 0; panel < BM / 64; panel++) store_fragments(ds_tile + panel * KV_PANEL + me * 8192, ds, panel);
        if (AHEAD) wgmma_wait_group<0>();                       // dv is there: the registers of p are those of the next s
        fence_proxy_async_shared_cta();
        bar_sync(DS_READY, ALL);                                // ds of all keys; and everybody has done with what lay here two blocks ago
        wgmma_fence();
        wgmma_dq<BN>(dq, ds_tile + (D == 64 ? me * KV_PANEL : 0), k_tile + (D == 64 ? 0 : me * KV_PANEL));
        wgmma_commit_group();
        wgmma_values<BM>(dk, ds, q_tile, Q_PANEL, i > 0);
        wgmma_commit_group();
        if (AHEAD) {
            Ring<STAGES> next = ring;
            next.advance();
            bool more = i + 1 < work.steps;
            if (more) mbarrier_wait_parity(&q_full[next.slot], next.phase);
            scores(more ? q_tiles + next.slot * Q_BYTES : q_tile);          // the last block's is for nothing: a product that may not be would serialise all
        }
        wgmma_wait_group<AHEAD ? 2 : OVERLAP>();                // dv and dq are there
        release(&do_empty[slot]);
        size_t tile = (size_t)work.unit * tiles + m;
        if (DQ == ATOMICS) {
            float* target = sums + tile * BM * D + me * PART / 4 + 4 * thread;
            #pragma unroll
            for (int j = 0; j < 8; j++) red_global_add_v4_f32(target + 512 * j, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
        } else {
            float4* target = reinterpret_cast<float4*>(dqs + me * PART) + thread;
            if (i > 0) bar_sync(EMPTY + me, 160);               // the last block's has been read
            #pragma unroll
            for (int j = 0; j < 8; j++) target[128 * j] = make_float4(dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
            fence_proxy_async_shared_cta();
            bar_arrive(FULL + me, 160);
        }
        wgmma_wait_group<0>();
        release(&q_empty[slot]);
    }
    #pragma unroll
    for (int i = 0; i < D / 2; i++) dk[i] *= scale;
    bar_sync(END, ALL);                                         // nobody reads k any more; the rows of v are this warpgroup's own
    #pragma unroll
    for (int panel = 0; panel < PANELS; panel++) {
        stage_chunk(k_tile + panel * KV_PANEL + me * 8192, dk, panel);
        stage_chunk(v_tile + panel * KV_PANEL + me * 8192, dv, panel);
    }
    fence_proxy_async_shared_cta();
    bar_sync(OWN + me, 128);
    if (thread == 0 && key < length) {
        for (int panel = 0; panel < PANELS; panel++) {
            cp_async_bulk_tensor_4d_store(&dk_map, shared + panel * KV_PANEL + me * 8192, 64 * panel, head, key, batch);
            cp_async_bulk_tensor_4d_store(&dv_map, vs + panel * KV_PANEL + me * 8192, 64 * panel, head, key, batch);
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();                     // shared memory outlives its readers
    }
}
// SPDX-License-Identifier: Apache-2.0
