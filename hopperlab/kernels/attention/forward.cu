// o = softmax(scale * q k^T) v for every head, bf16 in and out, fp32 in between; lse = the logarithm of each row's sum of
// exponentials. Sequences of any lengths lie packed one after the other (q_starts, k_starts: where each begins, and the end);
// several query heads may share a head of k and v. CAUSAL: query i of a sequence sees keys up to i + (keys - queries).
//
// A tile is CONSUMERS x 64 queries of one head; its keys come BN at a time, the last ones first (only there anything is masked).
// The softmax is computed block by block: a running maximum and sum a row, and o is scaled when the maximum changes. p never goes
// through shared memory: as an accumulator it already lies where the next product reads its A operand.
// The steps of the ladder, each a macro so that each can be measured alone:
// - CONSUMERS 1, OVERLAP 0, TURNS 0: a producer warp and one warpgroup: scores, softmax, values, one after the other;
// - CONSUMERS 2 (or 3): while one warpgroup computes exponentials, another one may multiply;
// - TURNS: they take turns by named barriers (ping-pong), so that it is not left to chance;
// - OVERLAP: the next block's scores are started before this block's softmax, inside each warpgroup, and the values of the
//   block before with them. (Waited for behind it; but ptxas moves that wait up, and held back it is mostly slower: recordings/README.md.)
// - a grid smaller than the number of tiles (persistent CTAs): the producer fetches the next tile's keys and queries while the
//   consumers still divide and store this tile's o. Tiles differ in length, so each CTA takes the next one when it has done its own:
//   the producer draws a number from `counter` and hands it to the consumers as it hands them data.
// The order of tiles: `group` heads at a time, and among them the longest rows of tiles first.
// A warpgroup takes part in a block of keys only where it sees one of them: its rows end 64 or 128 before its neighbour's, and a
// sequence's last tile may hold rows of one warpgroup alone. What it skips it hands back, and its turn with it.
// STAGED: o goes through the shared memory of q, as whole lines by TMA, and the next q waits for it; else straight from registers.
// CLUSTER 2: two CTAs take neighbouring tiles of a head, and each loads half of every block of keys and values for both.
// DEALT: tiles are dealt out in advance instead of drawn, which clusters need.
// Q_SLOTS 2: the next tile's q has a slot of its own and is there when this tile ends.
// CHAINS: into how many a row's maximum and sum are split.
// PER_SM: so many CTAs share an SM's registers. For short sequences: while one waits for its first keys or stores its o, another one multiplies, and
// a tile of 64 queries leaves fewer rows empty.
//
// Macros: D (64, 128, 256), BN (64, 80, 128, 176, 192), CONSUMERS, STAGES, Q_SLOTS (1, 2), CAUSAL, OVERLAP, TURNS, STAGED, CHAINS (1, 2, 4),
// DEALT, CLUSTER (1, 2; 2 with DEALT), PER_SM.
// Launch: grid at most CLUSTER * tiles * heads * sequences, tiles = ceil(longest / (64 * CONSUMERS * CLUSTER)); block 128 * (CONSUMERS + 1); dynamic
// shared memory (Q_SLOTS * 64 * CONSUMERS + 2 * STAGES * BN) * D * 2 + 256.
// Tensor maps over (tokens, heads, D) bf16, swizzle 128B: q box 64 * CONSUMERS x 1 x 64, k and v box BN / CLUSTER x 1 x 64, o box 64 x 1 x 64.
// counter: two ints, zero before the first launch.
// Marks for hl.timeline (one warp of each consumer): SCORES and VALUES from issue to the wait that found them done, SOFTMAX.
// Measured in recordings/attention.json.
#include <hopperlab/attention_halves.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/trace.cuh>

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
#ifndef Q_SLOTS
#define Q_SLOTS 1
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
#ifndef STAGED
#define STAGED 1
#endif
#ifndef DEALT
#define DEALT 0
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef CHAINS
#define CHAINS 1
#endif
#ifndef PER_SM
#define PER_SM 1
#endif

constexpr int BM = 64 * CONSUMERS, THREADS = 128 * (CONSUMERS + 1), PANELS = D / 64;
constexpr int Q_PANEL = BM * 128, KV_PANEL = BN * 128, Q_BYTES = PANELS * Q_PANEL, KV_BYTES = PANELS * KV_PANEL;
enum { SCORES = TRACE_USER, VALUES, SOFTMAX };
enum { TURN = 1, OWN = 1 + CONSUMERS };                         // named barriers: one a warpgroup for its turn, one for itself
constexpr int SHARE = BN / CLUSTER;                             // rows of k and v that one CTA loads for all of its cluster
// Registers of a thread: of one in each warpgroup together, of the producer (more where it has more addresses), and what is left for a consumer.
constexpr int STARTED = 65536 / (PER_SM * THREADS) / 8 * 8 * (CONSUMERS + 1);
constexpr int FEW = CONSUMERS == 3 ? 32 : D == 256 || Q_SLOTS == 2 ? 40 : 24, REST = (STARTED - FEW) / CONSUMERS / 8 * 8, MANY = REST < 240 ? REST : 240;
static_assert(D % 64 == 0 && BN % (8 * CLUSTER) == 0 && BN % 16 == 0 && CONSUMERS <= 3 && Q_SLOTS <= 2 && (CLUSTER == 1 || DEALT));

extern "C" __global__ void
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS, PER_SM)
attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          const __grid_constant__ TensorMap o_map, __nv_bfloat16* o, float* lse, const int* q_starts, const int* k_starts, int* counter,
          float scale, int tiles, int heads, int kv_heads, int sequences, int tokens, int group) {
    extern __shared__ __align__(1024) unsigned char shared[];   // Q_SLOTS x q, STAGES x k, STAGES x v, barriers
    unsigned char *ks = shared + Q_SLOTS * Q_BYTES, *vs = ks + STAGES * KV_BYTES;
    mbarrier_t* q_full = reinterpret_cast<mbarrier_t*>(vs + STAGES * KV_BYTES);
    mbarrier_t *q_empty = q_full + Q_SLOTS, *k_full = q_empty + Q_SLOTS, *k_empty = k_full + STAGES, *v_full = k_empty + STAGES, *v_empty = v_full + STAGES;
    mbarrier_t *work_full = v_empty + STAGES, *work_empty = work_full + 2;
    int* drawn = reinterpret_cast<int*>(work_empty + 2);        // the numbers of this tile and the next
    require_aligned(shared, 1024);
    int warpgroup = threadIdx.x / 128, all = tiles * heads * sequences;
    int up = CLUSTER > 1 ? cluster_ctarank() : 0, clusters = gridDim.x / CLUSTER, dealt = blockIdx.x / CLUSTER;
    auto work_at = [&](int index) {                             // blocks: of all CTAs of the cluster; first: of this one's queries
        Work work = work_of<CLUSTER * BM, BN, CAUSAL>(index, q_starts, k_starts, tiles, heads, sequences, group);
        work.first += up * BM;
        return work;
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < Q_SLOTS; s++) mbarrier_init(&q_full[s], 1), mbarrier_init(&q_empty[s], CONSUMERS);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&k_full[s], 1), mbarrier_init(&k_empty[s], CLUSTER * CONSUMERS);      // a thread of each consumer
            mbarrier_init(&v_full[s], 1), mbarrier_init(&v_empty[s], CLUSTER * CONSUMERS);
        }
        for (int s = 0; s < 2; s++) mbarrier_init(&work_full[s], 1), mbarrier_init(&work_empty[s], 4 * CONSUMERS);
        if (CLUSTER > 1) fence_mbarrier_init_release_cluster();
    }
    if (threadIdx.x == 32) {                                    // another warp fetches the maps
        prefetch_tensormap(&q);
        prefetch_tensormap(&k);
        prefetch_tensormap(&v);
        prefetch_tensormap(&o_map);
    }
    __syncthreads();
    if (CLUSTER > 1) {
        barrier_cluster_arrive_relaxed();                       // nobody, in any CTA, touches a barrier before it is one
        barrier_cluster_wait();
    }

    Ring<STAGES> ring;
    Ring<Q_SLOTS> queries;
    Ring<2> draws;
    if (warpgroup == 0) {
        setmaxnreg_dec<FEW>();
        if (threadIdx.x == 0) {
            auto load = [&](const TensorMap* map, unsigned char* slot, mbarrier_t* full, int kv_head, int token) {
                mbarrier_arrive_expect_tx(full, KV_BYTES);
                for (int p = 0; p < PANELS; p++) {
                    unsigned char* share = slot + p * KV_PANEL + up * SHARE * 128;
                    if (CLUSTER == 1) cp_async_bulk_tensor_3d_load(share, map, full, 64 * p, kv_head, token);
                    else cp_async_bulk_tensor_3d_load_multicast(share, map, full, (1 << CLUSTER) - 1, 64 * p, kv_head, token + up * SHARE);
                }
            };
            for (int index = dealt;; index = DEALT ? index + clusters : gridDim.x + atomicAdd(&counter[0], 1), draws.advance()) {
                if (!DEALT) {
                    mbarrier_wait_parity(&work_empty[draws.slot], draws.phase ^ 1);
                    drawn[draws.slot] = index;
                    mbarrier_arrive(&work_full[draws.slot]);
                }
                if (index >= all) break;                        // the consumers see it too
                Work work = work_at(index);
                int kv_head = work.head / (heads / kv_heads);
                for (int j = work.blocks - 1; j >= 0; j--, ring.advance()) {
                    int token = work.k_start + j * BN;
                    mbarrier_wait_parity(&k_empty[ring.slot], ring.phase ^ 1);
                    load(&k, ks + ring.slot * KV_BYTES, &k_full[ring.slot], kv_head, token);
                    if (j == work.blocks - 1) {                 // after the first keys, which have a slot of their own already
                        mbarrier_wait_parity(&q_empty[queries.slot], queries.phase ^ 1);
                        mbarrier_arrive_expect_tx(&q_full[queries.slot], Q_BYTES);
                        for (int p = 0; p < PANELS; p++)
                            cp_async_bulk_tensor_3d_load(shared + queries.slot * Q_BYTES + p * Q_PANEL, &q, &q_full[queries.slot], 64 * p, work.head, work.q_start + work.first);
                        queries.advance();
                    }
                    mbarrier_wait_parity(&v_empty[ring.slot], ring.phase ^ 1);
                    load(&v, vs + ring.slot * KV_BYTES, &v_full[ring.slot], kv_head, token);
                }
            }
            for (int s = 0; CLUSTER > 1 && s < STAGES; s++, ring.advance()) {       // all slots have come back: nobody reaches in here
                mbarrier_wait_parity(&k_empty[ring.slot], ring.phase ^ 1);
                mbarrier_wait_parity(&v_empty[ring.slot], ring.phase ^ 1);
            }
            if (!DEALT && atomicAdd(&counter[1], 1) == gridDim.x - 1) {   // everybody has drawn for the last time
                atomicExch(&counter[0], 0);
                atomicExch(&counter[1], 0);
            }
        }
        return;
    }
    setmaxnreg_inc<MANY>();
    int me = __shfl_sync(0xffffffff, warpgroup - 1, 0), thread = threadIdx.x % 128, lane = thread % 32;
    Trace trace(thread == 0);                                   // nothing, unless hl.timeline compiles its marks in
    unsigned q_tile = 0, q_tiles = shared_address(shared) + me * 64 * 128, k_tiles = shared_address(ks), v_tiles = shared_address(vs);
    float c = scale * 1.44269504f;                              // exponentials to the base 2
    float s[BN / 2], out[D / 2], scales[2];
    unsigned p[BN / 16][4];
    auto scores = [&](int slot) {
        wgmma_fence();
        wgmma_scores<D>(s, q_tile, Q_PANEL, k_tiles + slot * KV_BYTES, KV_PANEL);
        wgmma_commit_group();
    };
    auto values = [&](int slot, int accumulate) {
        wgmma_fence();
        wgmma_values_in<BN, (D * PER_SM > 256)>(out, p, v_tiles + slot * KV_BYTES, KV_PANEL, accumulate);
        wgmma_commit_group();
    };
    unsigned theirs = CLUSTER > 1 ? mapa_shared_cluster(k_empty, thread % CLUSTER) : 0;
    auto release = [&](mbarrier_t* barrier) { if (thread == 0) mbarrier_arrive(barrier); };
    auto hand_back = [&](mbarrier_t* empty) {                   // a slot of keys or values, to every CTA that writes into it
        if (CLUSTER == 1) release(empty);
        else if (thread < CLUSTER) mbarrier_arrive_remote_slot(theirs + 8 * (empty - k_empty));
    };
    auto my_turn = [&] { if (TURNS && CONSUMERS > 1) bar_sync(TURN + me, 256); };
    auto next_turn = [&] { if (TURNS && CONSUMERS > 1) bar_arrive(TURN + (me + 1) % CONSUMERS, 256); };
    bool owed = false;                                          // o is still leaving from the slot of q that is the next one to fill
    auto settle = [&] {
        if (STAGED && owed && thread == 0) {
            cp_async_bulk_wait_group_read<0>();
            mbarrier_arrive(&q_empty[queries.slot]);
        }
        owed = false;
    };
    auto slot_of_q = [&] { return Q_SLOTS - 1 - queries.slot; };        // of this tile, once `queries` points at the next
    auto skip = [&](int from, int to) {                         // blocks in which this warpgroup sees nothing
        for (int j = from; j > to; j--, ring.advance()) {
            mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
            my_turn();
            next_turn();
            mbarrier_wait_parity(&v_full[ring.slot], ring.phase);
            bar_sync(OWN + me, 128);                            // everybody has looked; where there is work, wgmma sees to that
            hand_back(&k_empty[ring.slot]);
            hand_back(&v_empty[ring.slot]);
        }
    };
    if (me == CONSUMERS - 1) next_turn();                       // the first one begins

    auto next = [&](int before) {                               // the number of the tile after `before`
        if (DEALT) return before + clusters;
        mbarrier_wait_parity(&work_full[draws.slot], draws.phase);
        int index = drawn[draws.slot];
        __syncwarp();
        if (lane == 0) mbarrier_arrive(&work_empty[draws.slot]);
        draws.advance();
        return index;
    };
    for (int index = next(dealt - clusters); index < all; index = next(index)) {
        Work work = work_at(index);
        if (!work.blocks && work.first >= work.queries) continue;       // a shorter sequence has fewer tiles
        int row = work.first + me * 64 + thread / 32 * 16 + lane / 4, offset = work.keys - work.queries;
        Softmax softmax;
        auto masked = [&](int j) {                              // the same in all threads of a warpgroup
            int end = (j + 1) * BN;
            if (end > work.keys || (CAUSAL && end - 1 > work.first + me * 64 + offset)) mask<CAUSAL>(s, row, j * BN + 2 * (lane % 4), work.keys, offset);
        };
        int blocks = blocks_of<BN, CAUSAL>(work, work.first + me * 64, 64);     // that this warpgroup sees
        if (work.blocks) {
            mbarrier_wait_parity(&q_full[queries.slot], queries.phase);
            q_tile = q_tiles + queries.slot * Q_BYTES;
            queries.advance();
            skip(work.blocks, blocks);
            if (!blocks) settle();
            if (!STAGED && !blocks) release(&q_empty[slot_of_q()]);
        }
        if (blocks) {
#if OVERLAP
            mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
            my_turn();
            trace.begin(SCORES, blocks - 1);
            scores(ring.slot);
            next_turn();
            settle();
            wgmma_wait_group<0>();
            trace.end(SCORES, blocks - 1);
            hand_back(&k_empty[ring.slot]);
            if (!STAGED && blocks == 1) release(&q_empty[slot_of_q()]);   // nobody multiplies with q any more
            trace.begin(SOFTMAX, blocks - 1);
            masked(blocks - 1);
            softmax.block<CHAINS>(s, scales, c);
            scores_to_fragments(p, s);
            trace.end(SOFTMAX, blocks - 1);
            for (int j = blocks - 2; j >= 0; j--) {
                int before = ring.slot;
                unsigned phase = ring.phase;
                ring.advance();
                mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
                my_turn();
                trace.begin(SCORES, j);
                scores(ring.slot);
                mbarrier_wait_parity(&v_full[before], phase);
                trace.begin(VALUES, j + 1);
                values(before, j < blocks - 2);                 // of the block before, under the softmax of this one
                next_turn();
                wgmma_wait_group<1>();
                trace.end(SCORES, j);
                hand_back(&k_empty[ring.slot]);
                if (!STAGED && j == 0) release(&q_empty[slot_of_q()]);
                trace.begin(SOFTMAX, j);
                masked(j);
                softmax.block<CHAINS>(s, scales, c);
                trace.end(SOFTMAX, j);
                wgmma_wait_group<0>();
                trace.end(VALUES, j + 1);
                hand_back(&v_empty[before]);
                scale_rows(out, scales);
                scores_to_fragments(p, s);
            }
            mbarrier_wait_parity(&v_full[ring.slot], ring.phase);
            trace.begin(VALUES, 0);
            values(ring.slot, blocks > 1);
            wgmma_wait_group<0>();
            trace.end(VALUES, 0);
            hand_back(&v_empty[ring.slot]);
            ring.advance();
#else
            for (int j = blocks - 1; j >= 0; j--, ring.advance()) {
                mbarrier_wait_parity(&k_full[ring.slot], ring.phase);
                my_turn();
                trace.begin(SCORES, j);
                scores(ring.slot);
                next_turn();
                settle();
                wgmma_wait_group<0>();
                trace.end(SCORES, j);
                hand_back(&k_empty[ring.slot]);
                if (!STAGED && j == 0) release(&q_empty[slot_of_q()]);   // nobody multiplies with q any more
                trace.begin(SOFTMAX, j);
                masked(j);
                softmax.block<CHAINS>(s, scales, c);
                if (j < blocks - 1) scale_rows(out, scales);
                scores_to_fragments(p, s);
                trace.end(SOFTMAX, j);
                mbarrier_wait_parity(&v_full[ring.slot], ring.phase);
                trace.begin(VALUES, j);
                values(ring.slot, j < blocks - 1);
                wgmma_wait_group<0>();
                trace.end(VALUES, j);
                hand_back(&v_empty[ring.slot]);
            }
#endif
        }
        float whole[2] = {softmax.total(0), softmax.total(1)}, inverse[2];
        #pragma unroll
        for (int r = 0; r < 2; r++) {
            inverse[r] = whole[r] > 0 ? 1 / whole[r] : 0;       // a query that sees no key: 0, and minus infinity
            if (lane % 4 == 0 && row + 8 * r < work.queries)
                lse[(size_t)work.head * tokens + work.q_start + row + 8 * r] = whole[r] > 0 ? softmax.most[r] * scale + __logf(whole[r]) : MINUS_INFINITY;
        }
        #pragma unroll
        for (int i = 0; i < D / 2; i++) out[i] = blocks ? out[i] * inverse[i / 2 % 2] : 0;
        if (STAGED && work.blocks && work.first + me * 64 + 64 <= work.queries) {   // whole: through this warpgroup's rows of q
            #pragma unroll
            for (int panel = 0; panel < PANELS; panel++) stage_chunk(q_tile + panel * Q_PANEL, out, panel);
            fence_proxy_async_shared_cta();
            bar_sync(OWN + me, 128);
            if (thread == 0) {
                for (int panel = 0; panel < PANELS; panel++)
                    cp_async_bulk_tensor_3d_store(&o_map, shared + slot_of_q() * Q_BYTES + me * 64 * 128 + panel * Q_PANEL, 64 * panel, work.head, work.q_start + work.first + me * 64);
                cp_async_bulk_commit_group();
            }
        } else {                                                // at a sequence's end, where another one's rows follow; or q is not ours
            #pragma unroll
            for (int i = 0; i < D / 2; i += 2) {
                int y = row + 8 * (i / 2 % 2);
                __nv_bfloat16* place = o + ((size_t)(work.q_start + y) * heads + work.head) * D + 8 * (i / 4) + 2 * (lane % 4);
                if (y < work.queries) *reinterpret_cast<__nv_bfloat162*>(place) = __floats2bfloat162_rn(out[i], out[i + 1]);
            }
        }
        owed = owed || work.blocks;
        if (Q_SLOTS == 1) settle();                             // else under the next tile's first scores
    }
    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers
    if (me == 0) my_turn();                                     // the last turn's word to the next, which nobody else takes
}
// SPDX-License-Identifier: Apache-2.0
