// One thread that copies chunks from global memory to global memory, whichever devices they lie on, through a ring of slots in
// shared memory: bulk loads half a ring ahead of bulk stores.
#pragma once
#include <hopperlab/peers.cuh>
#include <hopperlab/tma.cuh>

// count: chunks; at(i, from, to): sets the two pointers of chunk i and gives its bytes (a multiple of 16, at most BYTES); ahead(i): called
// before chunk i is read; done(i): called when chunk i has been written and may be told of. full: SLOTS mbarriers, made here.
template <int SLOTS, int BYTES, class At, class Ahead, class Done>
__device__ __forceinline__ void copy_chunks(unsigned char* slots, mbarrier_t* full, int count, At at, Ahead ahead, Done done) {
    constexpr int AHEAD = SLOTS / 2, BEHIND = SLOTS - 1 - AHEAD;        // loads under way; stores under way
    static_assert(SLOTS >= 2 && BYTES % 128 == 0, "a ring needs two slots, in whole lines");
    #pragma unroll
    for (int s = 0; s < SLOTS; s++) mbarrier_init(&full[s], 1);
    const unsigned char* from;
    unsigned char* to;
    for (int i = 0; i < count + SLOTS - 1; i++) {
        if (i < count) {                                                // its slot was last stored by chunk i - SLOTS, which is done
            ahead(i);
            unsigned bytes = at(i, from, to);
            mbarrier_arrive_expect_tx(&full[i % SLOTS], bytes);
            cp_async_bulk_load(slots + i % SLOTS * BYTES, from, bytes, &full[i % SLOTS]);
        }
        int stored = i - AHEAD, written = i - (SLOTS - 1);
        if (stored >= 0 && stored < count) {
            unsigned bytes = at(stored, from, to);
            mbarrier_wait_parity(&full[stored % SLOTS], stored / SLOTS % 2);
            cp_async_bulk_store(to, slots + stored % SLOTS * BYTES, bytes);
            cp_async_bulk_commit_group();
            if (BUG_FLAG_BEFORE_DATA) done(stored);
        }
        if (written >= 0) {
            if (stored < count) cp_async_bulk_wait_group<BEHIND>();     // not .read: the data have to be there
            else cp_async_bulk_wait_group<0>();
            if (!BUG_FLAG_BEFORE_DATA) done(written);
        }
    }
}
// SPDX-License-Identifier: Apache-2.0
