// Where SHARES CTAs of a cluster each multiplied a share of k for the same tile: they exchange their sums through distributed shared
// memory. The first FINISHERS of them finish as many columns of the tile each. Every thread stores what it has of another's columns into
// that one's shared memory, where the ring was, and adds what it received. The same thread of every CTA holds the same places of the
// tile, so it is a private mailbox: 16 bytes per thread side by side, no bank conflicts.
#pragma once
#include <hopperlab/cluster.cuh>
#include <hopperlab/dsmem.cuh>

template <int SHARES, int FINISHERS, int BLOCKS, int COUNT>
struct SplitExchange {                                          // COUNT: sums a thread has of each of BLOCKS x 64 rows
    static constexpr int OWN = COUNT / FINISHERS;               // of them it finishes
    static constexpr int MAIL_BYTES = BLOCKS * OWN * 4 * 128;   // from one warpgroup to its twin in another CTA
    static constexpr int BYTES = (SHARES - 1) * MAIL_BYTES;      // that a warpgroup receives

    // own = what this CTA finishes; the others' columns go to their `mail` (each one's at the same offset). distance: from the rank of one
    // part to that of the next. Between two cluster barriers: all rings idle before, all mail arrived after.
    static __device__ __forceinline__ void send(const float (&d)[BLOCKS][COUNT], float (&own)[BLOCKS][OWN], const unsigned char* mail,
                                                int part, int rank, int distance) {
        int thread = threadIdx.x % 128;
        #pragma unroll
        for (int to = 0; to < FINISHERS; to++) {
            // My place in the mail of part `to`: 0 for the part after it, and so on.
            unsigned box = mapa_shared_cluster(mail + (part - to - 1 + SHARES) % SHARES * MAIL_BYTES + thread * 16, rank + (to - part) * distance);
            #pragma unroll
            for (int i = 0; i < BLOCKS * OWN; i += 4) {
                const float* e = d[i / OWN] + to * OWN + i % OWN;
                if (to == part) {
                    #pragma unroll
                    for (int j = 0; j < 4; j++) own[i / OWN][i % OWN + j] = e[j];
                } else {
                    st_shared_cluster_v4(box + i / 4 * 2048, make_uint4(__float_as_uint(e[0]), __float_as_uint(e[1]),
                                                                        __float_as_uint(e[2]), __float_as_uint(e[3])));
                }
            }
        }
    }

    static __device__ __forceinline__ void add(float (&own)[BLOCKS][OWN], const unsigned char* mail) {
        int thread = threadIdx.x % 128;
        #pragma unroll
        for (int from = 0; from < SHARES - 1; from++) {
            #pragma unroll
            for (int i = 0; i < BLOCKS * OWN; i += 4) {
                float* e = own[i / OWN] + i % OWN;
                float4 more = *reinterpret_cast<const float4*>(mail + from * MAIL_BYTES + thread * 16 + i / 4 * 2048);
                e[0] += more.x, e[1] += more.y, e[2] += more.z, e[3] += more.w;
            }
        }
    }
};
// SPDX-License-Identifier: Apache-2.0
