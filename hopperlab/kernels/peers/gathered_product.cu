// All-gather under a product: C = A * B^T, where every device has its own B and C, and of A (m x k) only the m / devices rows of its shard
// when the kernel begins. The others are pulled, piece by piece, while tiles whose rows are there already are multiplied.
//
// Who waits for whom:
//   READY     device d tells the others that its shard is complete; a copying thread waits for that before it reads a shard
//   pieces    a copying thread tells its own device how many chunks of a piece it has written (TELL_EACH: one by one); a producer
//             waits until all chunks of its tile's piece are. Nobody waits for pieces of the own shard
//   READ      a device that has all pieces of shard d tells device d, whose kernel does not end before that: what comes after it
//             may write the shard again
// All three count steps, so that nothing is ever set back: `step` is 1 at the first launch on these flags, 2 at the next.
//
// The copying thread is one of the producer's warpgroup, which has three idle warps: it takes no SM and no register from the product,
// 16 KiB of shared memory. With DEDICATED the last `copiers` CTAs of the grid do nothing else instead, their whole ring full of chunks.
// The order of tiles begins at row `start`: the own shard's, and nobody waits as long as the link is faster than the product.
//
// Macros: those of wide_product.cuh, COPY_SLOTS, COPY_BYTES, DEDICATED, TELL_EACH. Launch: grid a multiple of CLUSTER_M, all of it on the GPU at once (at
// most the SMs), block 384, dynamic shared memory RING_BYTES + C_BYTES + COPY_SLOTS * (COPY_BYTES + 8) + 16 * STAGES. Tensor maps: left of this
// device's gathered A, box BM x 64; right of B, box BN / CLUSTER_M x 64; C box 64 x 64; swizzle 128B. gathered: every device's A, m x k.
// flags: every device's, 2 * MOST_DEVICES words; pieces: this device's, m / piece_rows. All 0 before step 1. copiers: at least 1, with DEDICATED a
// multiple of CLUSTER_M. m / devices a multiple of piece_rows, piece_rows of BM * CLUSTER_M. Measured in recordings/two_gpus.json.
#include <hopperlab/grid_flag.cuh>
#include <hopperlab/peer_copy.cuh>
#include <hopperlab/wide_product.cuh>

#ifndef COPY_SLOTS
#define COPY_SLOTS 4
#endif
#ifndef COPY_BYTES
#define COPY_BYTES 4096
#endif
#ifndef TELL_EACH
#define TELL_EACH 0
#endif
#ifndef DEDICATED
#define DEDICATED 0
#endif

enum { READY = 0, READ = MOST_DEVICES };                        // where the flags of device d begin: [READY + d], [READ + d]
constexpr int RING_CHUNKS = RING_BYTES / COPY_BYTES;
constexpr int CHUNK_SLOTS = !DEDICATED ? COPY_SLOTS : RING_CHUNKS < 24 ? RING_CHUNKS : 24;
static_assert(RING_BYTES % COPY_BYTES == 0);

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(THREADS, 1)
gathered_product(const __grid_constant__ TensorMap left, const __grid_constant__ TensorMap right, const __grid_constant__ TensorMap c_map,
                 const __grid_constant__ Peers gathered, const __grid_constant__ Peers flags, unsigned* pieces,
                 int rank, int devices, int m, int n, int k, int piece_rows, int copiers, int start, unsigned step) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ mbarrier_t chunk_full[CHUNK_SLOTS];
    require_aligned(shared, 1024);
    int k_blocks = (k + BK - 1) / BK, down = m / (CLUSTER_M * BM), right_of = (n + BN - 1) / BN, tiles = down * right_of;
    int computing = gridDim.x - (DEDICATED ? copiers : 0), clusters = computing / CLUSTER_M, me = blockIdx.x, warpgroup = threadIdx.x / 128;
    int first = DEDICATED && me >= computing ? tiles : me / CLUSTER_M, copier = DEDICATED ? me - computing : me;
    int shard_pieces = m / devices / piece_rows, piece_chunks = (piece_rows * k * 2 + COPY_BYTES - 1) / COPY_BYTES;
    WideProduct product; product.begin(shared);
    Ring<STAGES> ring;

    if (warpgroup == 0) {
        if (SHIFT) setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {                                 // the producer
            for (int index = first; index < tiles; index += clusters) {
                Tile tile = rotated_tile(index, down, right_of, start);
                int row0 = (tile.row * CLUSTER_M + product.up) * BM, piece = row0 / piece_rows;
                if (piece / shard_pieces != rank) {
                    wait_for_count(&pieces[piece], step * piece_chunks);
                    fence_proxy_async();                        // what other threads' flags tell of, for TMA
                }
                product.load(ring, left, right, row0, tile.col * BN, k_blocks);
            }
            product.drain(ring);
        } else if (threadIdx.x == 32 && copier >= 0 && copier < copiers) {
            int shard_chunks = shard_pieces * piece_chunks, all = (devices - 1) * shard_chunks;
            auto shard_of = [&](int chunk) { return (rank + 1 + chunk / shard_chunks) % devices; };
            auto piece_of = [&](int chunk) { return shard_of(chunk) * shard_pieces + chunk % shard_chunks / piece_chunks; };
            auto at = [&](int i, const unsigned char*& from, unsigned char*& to) -> unsigned {
                int chunk = i * copiers + copier, inside = chunk % piece_chunks * COPY_BYTES, bytes = piece_rows * k * 2;
                long long offset = (long long)piece_of(chunk) * bytes + inside;
                from = gathered.of<unsigned char>(shard_of(chunk)) + offset;
                to = gathered.of<unsigned char>(rank) + offset;
                return min(COPY_BYTES, bytes - inside);
            };
            int known = rank;                                   // the last shard that is known to be complete
            auto ahead = [&](int i) {
                int shard = shard_of(i * copiers + copier);
                if (shard == known) return;
                known = shard;
                await_flag(flags.of<unsigned>(rank) + READY + shard, step);
                fence_proxy_async();
            };
            int count = (all - copier + copiers - 1) / copiers, written = 0;                // chunks of this thread; those not told of
            auto done = [&](int i) {                            // tells once for all of its chunks of a piece
                int chunk = i * copiers + copier, piece = piece_of(chunk);
                written++;
                if (!TELL_EACH && i + 1 < count && piece_of(chunk + copiers) == piece) return;
                red_release_gpu_add(&pieces[piece], written);
                written = 0;
            };
            unsigned char* slots = shared + (DEDICATED ? 0 : RING_BYTES + C_BYTES + 16 * STAGES);
            copy_chunks<CHUNK_SLOTS, COPY_BYTES>(slots, chunk_full, count, at, ahead, done);
        } else if (threadIdx.x == 64 && me == 0) {              // who speaks for this device
            for (int other = 1; other < devices; other++) raise_flag(flags.of<unsigned>((rank + other) % devices) + READY + rank, step);
            for (int other = 1; other < devices; other++) {
                int shard = (rank + other) % devices;
                for (int i = 0; i < shard_pieces; i++) wait_for_count(&pieces[shard * shard_pieces + i], step * piece_chunks);
                raise_flag(flags.of<unsigned>(shard) + READ + rank, step);
            }
            for (int other = 1; other < devices && !BUG_OVERWRITTEN; other++)
                await_flag(flags.of<unsigned>(rank) + READ + (rank + other) % devices, step);
        }
    } else {
        if (SHIFT) setmaxnreg_inc<232>();
        float d[BLOCKS][BN / 2];
        int consumer = __shfl_sync(0xffffffff, warpgroup - 1, 0);
        unsigned char* slots = shared + RING_BYTES + consumer * C_SLOTS * Store::SLOT_BYTES;
        bool late = consumer == 0;
        if (consumer == 1 && first < tiles) bar_sync(SECOND, 256);
        for (int index = first; index < tiles; index += clusters) {
            Tile tile = rotated_tile(index, down, right_of, start);
            product.multiply(ring, d, consumer, late, k_blocks);
            int row0 = (tile.row * CLUSTER_M + product.up) * BM + consumer * WM;
            Store::store<C_SLOTS>(&c_map, nullptr, d, slots, 1 + consumer, row0, tile.col * BN, m, n);
        }
        if (threadIdx.x % 128 == 0) cp_async_bulk_wait_group_read<0>();         // shared memory outlives its readers
    }
}
// SPDX-License-Identifier: Apache-2.0
