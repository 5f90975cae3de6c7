// Reads `bytes` contiguous bytes and uses none: what the memory gives when nothing is written. One thread a block keeps STAGES
// bulk copies of CHUNK_BYTES in flight and refills a slot as soon as it has landed. As a receipt the block's warp adds up the
// 32-bit words of its last chunk, out[blockIdx.x] (a block without a chunk leaves it alone).
//
// Macros: STAGES, CHUNK_BYTES (a multiple of 128). Launch: any grid, block 32, dynamic shared memory STAGES * CHUNK_BYTES;
// `bytes` a multiple of 16. Consecutive blocks read consecutive chunks. Measured in recordings/copies.json.
#include <hopperlab/tma.cuh>

#ifndef STAGES
#define STAGES 4
#endif
#ifndef CHUNK_BYTES
#define CHUNK_BYTES 8192
#endif

extern "C" __global__ void __launch_bounds__(32)
bulk_read(const unsigned char* source, unsigned* out, long long bytes) {
    extern __shared__ __align__(128) unsigned char slots[];
    __shared__ mbarrier_t full[STAGES];
    long long chunks = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    int mine = (int)((chunks - blockIdx.x + gridDim.x - 1) / gridDim.x);    // 0 or less: nothing for this block
    if (mine <= 0) return;

    auto at = [&](int i) { return ((long long)i * gridDim.x + blockIdx.x) * CHUNK_BYTES; };
    auto size = [&](int i) { return (unsigned)min(bytes - at(i), (long long)CHUNK_BYTES); };
    auto load = [&](int i, int s) {
        mbarrier_arrive_expect_tx(&full[s], size(i));
        cp_async_bulk_load(slots + s * CHUNK_BYTES, source + at(i), size(i), &full[s]);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
        for (int s = 0; s < STAGES && s < mine; s++) load(s, s);
        int s = 0, phase = 0;
        for (int i = 0; i < mine; i++) {
            mbarrier_wait_parity(&full[s], phase);
            if (i + STAGES < mine) load(i + STAGES, s);
            if (++s == STAGES) s = 0, phase ^= 1;
        }
    }
    __syncwarp();                                           // passes on what lane 0 waited for
    const unsigned* words = reinterpret_cast<const unsigned*>(slots + (mine - 1) % STAGES * CHUNK_BYTES);
    unsigned sum = 0;
    for (int i = threadIdx.x; i < size(mine - 1) / 4; i += 32) sum += words[i];
    sum = __reduce_add_sync(0xffffffff, sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
// SPDX-License-Identifier: Apache-2.0
