// Attention of one query a sequence over a long cache: o = softmax(scale * q k^T) v, bf16 in and out, fp32 in between. GROUP query heads
// share a head of k and v; the cache lies in pages of PAGE keys, and table[sequence][i] names the page that holds keys i * PAGE and on.
//
// Every byte of the cache is read once and meets GROUP queries: this is memory's game, and the kernel is a ring that must never run empty.
// - The work is dealt in advance: CTA b takes pieces starts[b] .. starts[b + 1] - 1, each some keys of one sequence and one KV head. The ring runs
//   on from piece to piece. What is not a whole row goes to `partial` with its logarithm, and decoding/combine.cu puts it together.
// - The GROUP queries are rows of one mma.sync m16n8k16: with 8 of them half the rows are zero; of wgmma's 64 seven eighths would be.
// - A warp takes sixteen keys of a tile of 64, and four warps per tile; GROUPS such groups take every GROUPS-th tile. Nobody waits for another warp before a
//   piece ends: then the warps' maxima, sums and outputs meet in shared memory.
// - GATHER 0: a page is a box of a 5-dimensional tensor map and its index a coordinate; a warp holds 32 indices and hands them on by shuffles, one thread
//   issues. GATHER 1: 128 threads look up every row and copy it by cp.async, 16 bytes each; then PAGE may be anything.
// Everything above griddepcontrol.wait runs beside the kernel in front, which appends to the cache and to the table.
//
// Macros: D (64, 128), GROUP (1 to 16), PAGE (16, 32, or a multiple of 64; any with GATHER), STAGES (a multiple of GROUPS), GROUPS (1, 2), GATHER.
// Launch: any grid; block 128 * GROUPS + (GATHER ? 128 : 32); dynamic shared memory STAGES * 256 * D + 16 * GROUPS * GROUP * (D + 4) + 512 * GROUPS + 16 * STAGES.
// Tensor maps over (pages, kv_heads, D / 64, PAGE, 64) bf16, swizzle 128B, box 1 x 1 x D / 64 x min(PAGE, 64) x 64. q, o: sequences x heads x D.
// Measured in recordings/decoding.json.
#include <hopperlab/cp_async.cuh>
#include <hopperlab/decoding.cuh>

#ifndef D
#define D 128
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef PAGE
#define PAGE 64
#endif
#ifndef STAGES
#define STAGES 6
#endif
#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef GATHER
#define GATHER 0
#endif
#ifndef BUG_TABLE_BEFORE_WAIT       // the page table is read before griddepcontrol.wait: read-before-arrival
#define BUG_TABLE_BEFORE_WAIT 0
#endif

constexpr int BN = 64, WARPS = 4 * GROUPS, CONSUMERS = 32 * WARPS, PRODUCERS = GATHER ? 128 : 32, PANELS = D / 64, ROWS = GROUP > 8 ? 2 : 1;
constexpr int BOX_ROWS = GATHER || PAGE > BN ? BN : PAGE, PANEL_BYTES = BOX_ROWS * 128, BOX_BYTES = PANELS * PANEL_BYTES, TILE_BYTES = BN * D * 2;
constexpr int PITCH = D + 4;                                    // floats between two rows of a warp's output, where warps meet
static_assert(D % 64 == 0 && GROUP <= 16 && STAGES % GROUPS == 0 && (GATHER || PAGE == 16 || PAGE == 32 || PAGE % BN == 0));

extern "C" __global__ void __launch_bounds__(CONSUMERS + PRODUCERS, 1)
decode(const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map, const __nv_bfloat16* k_pages, const __nv_bfloat16* v_pages,
       const __nv_bfloat16* q, __nv_bfloat16* o, float* partial, float* partial_lse, const int* table, const Piece* pieces, const int* starts,
       float scale, int kv_heads, int table_pitch) {
    extern __shared__ __align__(1024) unsigned char shared[];   // STAGES x (tile of k, tile of v), outputs and sums of the warps, barriers
    float* outputs = reinterpret_cast<float*>(shared + STAGES * 2 * TILE_BYTES);
    float2* sums = reinterpret_cast<float2*>(outputs + WARPS * GROUP * PITCH);      // maximum and sum of each warp's 16 rows
    mbarrier_t *full = reinterpret_cast<mbarrier_t*>(sums + 16 * WARPS), *empty = full + STAGES;
    require_aligned(shared, 1024);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, from = starts[blockIdx.x], to = starts[blockIdx.x + 1];
    Piece nearest = pieces[blockIdx.x];                         // asked for beside `starts`: where every CTA has one piece, this is it
    auto piece_of = [&](int number) { return number == (int)blockIdx.x ? nearest : pieces[number]; };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], GATHER ? PRODUCERS : 1), mbarrier_init(&empty[s], 4);     // a lane of each warp of a group
    }
    if (!GATHER && threadIdx.x == CONSUMERS) {
        prefetch_tensormap(&k_map);
        prefetch_tensormap(&v_map);
    }
    __syncthreads();
    if (!BUG_TABLE_BEFORE_WAIT) griddepcontrol_wait();          // the last key, its page and q come from the kernels in front
    if (BUG_TABLE_BEFORE_WAIT && warp < WARPS) griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    Ring<STAGES> ring;

    if (warp >= WARPS) {                                        // the producer
        int me = threadIdx.x - CONSUMERS;
        for (int number = from; number < to; number++) {
            Piece piece = piece_of(number);
            const int* pages = table + piece.sequence * table_pitch;
#if GATHER
            constexpr int CHUNKS = D / 8;                       // of a row; a thread stays in its column of them
            int chunk = me % CHUNKS;
            for (int key0 = piece.first; key0 < piece.end; key0 += BN, ring.advance()) {
                unsigned char* slot = shared + ring.slot * 2 * TILE_BYTES + chunk / 8 * PANEL_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                #pragma unroll
                for (int row = me / CHUNKS; row < BN; row += PRODUCERS / CHUNKS) {
                    int key = key0 + row, inside = key < piece.end ? 16 : 0, page = inside ? pages[key / PAGE] : 0;
                    size_t at = (((size_t)page * kv_heads + piece.head) * PAGE + key % PAGE) * D + chunk * 8;
                    unsigned char* place = slot + row * 128 + ((chunk % 8 ^ row % 8) * 16);
                    cp_async_cg_16_zfill(place, k_pages + at, inside);
                    cp_async_cg_16_zfill(place + TILE_BYTES, v_pages + at, inside);
                }
                cp_async_mbarrier_arrive_noinc(&full[ring.slot]);       // when this thread's copies have landed
            }
#else
            int last = (piece.end - 1) / PAGE, base = piece.first / PAGE;
            int held = pages[min(base + me, last)], ahead = pages[min(base + 32 + me, last)];     // a lane an index; the next 32 are on their way
            if (BUG_TABLE_BEFORE_WAIT && number == from) griddepcontrol_wait();
            for (int key0 = piece.first; key0 < piece.end; key0 += BN, ring.advance()) {
                if (key0 / PAGE - base == 32) {
                    base += 32, held = ahead;
                    ahead = pages[min(base + 32 + me, last)];
                }
                int boxes = min(BN / BOX_ROWS, (piece.end - key0 + BOX_ROWS - 1) / BOX_ROWS);     // no page past the end
                unsigned char* slot = shared + ring.slot * 2 * TILE_BYTES;
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                if (me == 0) mbarrier_arrive_expect_tx(&full[ring.slot], boxes * 2 * BOX_BYTES);
                for (int b = 0; b < boxes; b++) {
                    int page = __shfl_sync(0xffffffff, held, key0 / PAGE - base + b);
                    if (me == 0) {
                        cp_async_bulk_tensor_5d_load(slot + b * BOX_BYTES, &k_map, &full[ring.slot], 0, key0 % PAGE, 0, piece.head, page);
                        cp_async_bulk_tensor_5d_load(slot + TILE_BYTES + b * BOX_BYTES, &v_map, &full[ring.slot], 0, key0 % PAGE, 0, piece.head, page);
                    }
                }
            }
#endif
        }
        return;
    }

    float c = base_2(scale);
    int group = warp / 4, key = warp % 4 * 16;                  // of a tile: this warp's first key
    unsigned mine = shared_address(shared) + key / BOX_ROWS * BOX_BYTES + key % BOX_ROWS * 128;
    unsigned k_row = mine + (lane % 8 + lane / 16 * 8) * 128, v_row = mine + TILE_BYTES + lane % 16 * 128;
    for (int number = from; number < to; number++) {
        Piece piece = piece_of(number);
        size_t first_head = (size_t)piece.sequence * kv_heads * GROUP + piece.head * GROUP;
        unsigned queries[D / 16][4];
        #pragma unroll
        for (int step = 0; step < D / 16; step++) load_q_fragment<GROUP>(queries[step], q + first_head * D, D, 16 * step);
        float out[D / 8][4] = {};
        RunningSoftmax<ROWS> softmax;
        for (int key0 = piece.first; key0 < piece.end; key0 += BN, ring.advance()) {
            if (ring.slot % GROUPS != group) continue;          // the other group's
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            int keys = piece.end - key0 - key;                  // of this warp's sixteen, those that exist
            if (keys > 0) {
                unsigned offset = ring.slot * 2 * TILE_BYTES, p[4];
                float s[2][4] = {};
                #pragma unroll
                for (int step = 0; step < D / 16; step++) {
                    unsigned k[4];
                    ldmatrix_x4(k, k_row + offset + step / 4 * PANEL_BYTES + ((2 * (step % 4) + lane / 8 % 2) ^ lane % 8) * 16);
                    mma_m16n8k16_bf16(s[0], queries[step], k[0], k[1]);
                    mma_m16n8k16_bf16(s[1], queries[step], k[2], k[3]);
                }
                softmax.block(s, out, keys, c);
                p_fragment<ROWS>(p, s[0], s[1]);
                multiply_values<D>(out, p, v_row + offset, PANEL_BYTES, 0, keys);
            }
            __syncwarp();                                       // all lanes have read
            if (lane == 0) mbarrier_arrive(&empty[ring.slot]);
        }

        for (int r = 0; r < ROWS; r++) {                        // the warps meet
            float total = softmax.total(r);
            if (lane % 4 == 0) sums[16 * warp + 8 * r + lane / 4] = make_float2(softmax.most[r], total);
        }
        bar_sync(1, CONSUMERS);
        auto whole = [&](int row) {                             // maximum and sum over all warps
            float most = MINUS_INFINITY, sum = 0;
            for (int w = 0; w < WARPS; w++) most = fmaxf(most, sums[16 * w + row].x);
            for (int w = 0; w < WARPS; w++) sum += sums[16 * w + row].y * exp2_approx(c * (sums[16 * w + row].x - most));
            return make_float2(most, sum);
        };
        for (int r = 0; r < ROWS; r++) {
            int row = 8 * r + lane / 4;
            if (row >= GROUP) continue;
            float2 all = whole(row);
            float share = exp2_approx(c * (softmax.most[r] - all.x)) / all.y;
            float* to_row = outputs + (warp * GROUP + row) * PITCH + 2 * (lane % 4);
            #pragma unroll
            for (int x = 0; x < D / 8; x++) *reinterpret_cast<float2*>(to_row + 8 * x) = make_float2(out[x][2 * r] * share, out[x][2 * r + 1] * share);
        }
        if (piece.slot >= 0 && threadIdx.x < GROUP) {
            float2 all = whole(threadIdx.x);
            partial_lse[(size_t)piece.slot * GROUP + threadIdx.x] = c * all.x + log2f(all.y);
        }
        bar_sync(1, CONSUMERS);                                 // outputs are whole; and sums may be written again
        for (int i = threadIdx.x; i < GROUP * D / 4; i += CONSUMERS) {
            int row = i / (D / 4), column = i % (D / 4) * 4;
            float4 sum = make_float4(0, 0, 0, 0);
            for (int w = 0; w < WARPS; w++) {
                float4 more = *reinterpret_cast<float4*>(outputs + (w * GROUP + row) * PITCH + column);
                sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
            }
            if (piece.slot >= 0) *reinterpret_cast<float4*>(partial + ((size_t)piece.slot * GROUP + row) * D + column) = sum;
            else *reinterpret_cast<uint2*>(o + (first_head + row) * D + column) = make_uint2(pack_bf16x2(sum.x, sum.y), pack_bf16x2(sum.z, sum.w));
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
