// Copies `bytes` contiguous bytes with cp.async.bulk: one thread a block issues everything, the data never meets a register,
// and no tensor map is needed. Loads complete on an mbarrier, stores in bulk groups. Measured in recordings/copy.json.
// Launch: any grid, block 32, dynamic shared memory STAGES * CHUNK_BYTES. `bytes` a multiple of 16, both pointers too.
#include <hopperlab/tma.cuh>

#ifndef STAGES
#define STAGES 4
#endif
#ifndef CHUNK_BYTES
#define CHUNK_BYTES 16384
#endif

extern "C" __global__ void __launch_bounds__(32)
bulk_copy(const unsigned char* source, unsigned char* target, long long bytes) {
    extern __shared__ __align__(128) unsigned char slots[];
    __shared__ mbarrier_t full[STAGES];
    if (threadIdx.x != 0) return;

    for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
    int chunks = (int)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
    int mine = (chunks - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    constexpr int AHEAD = STAGES / 2;                       // loads under way; the other slots are being stored
    static_assert(STAGES >= 2, "a ring needs two slots");
    for (int i = 0; i < mine + AHEAD; i++) {
        if (i < mine) {                                     // load chunk i
            int s = i % STAGES;
            long long at = ((long long)i * gridDim.x + blockIdx.x) * CHUNK_BYTES;
            unsigned size = bytes - at < CHUNK_BYTES ? (unsigned)(bytes - at) : CHUNK_BYTES;
            cp_async_bulk_wait_group_read<STAGES - 1 - AHEAD>();    // the store that last used this slot has read it
            mbarrier_arrive_expect_tx(&full[s], size);
            cp_async_bulk_load(slots + s * CHUNK_BYTES, source + at, size, &full[s]);
        }
        int j = i - AHEAD;
        if (j >= 0) {                                       // store chunk i - AHEAD
            int s = j % STAGES;
            long long at = ((long long)j * gridDim.x + blockIdx.x) * CHUNK_BYTES;
            unsigned size = bytes - at < CHUNK_BYTES ? (unsigned)(bytes - at) : CHUNK_BYTES;
            mbarrier_wait_parity(&full[s], j / STAGES % 2);
            cp_async_bulk_store(target + at, slots + s * CHUNK_BYTES, size);
            cp_async_bulk_commit_group();
        }
    }
    cp_async_bulk_wait_group<0>();
}
// SPDX-License-Identifier: Apache-2.0
