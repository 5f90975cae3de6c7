// How long one copy into shared memory takes, alone, from its issue until the thread has waited for it; in cycles, each copy by
// itself: out[pass * COPIES + i]. The first pass finds nothing in the L2 (if the caller flushed it), the second finds all.
//   tma_latency   HOW 0: a tensor copy of a box, 1: a plain bulk copy of as many contiguous bytes (no tensor map),
//                 2: ld.global of 4 bytes of the box by one thread, for comparison,
//                 4: a tensor copy after which the thread waits with cp.async.bulk.wait_group, which is for stores, until
//                 that returns (it waits for the data afterwards, so that nothing goes wrong)
//   tma_issue     HOW 0, 1: cycles that one thread spends to issue TILES copies of a box (expect_tx and copy), not waiting;
//                 3: cycles that 128 threads spend to issue the same bytes with cp.async, 16 bytes at a time
// Every box lies in rows of its own of a bf16 matrix with BOX_COLS columns, so that a box is contiguous and HOW changes nothing
// about the bytes.
//
// Macros: HOW (0 to 4), BOX_ROWS, BOX_COLS (a row at most 256 elements), COPIES, TILES. Launch: grid 1, block 128, dynamic
// shared memory TILES boxes (1 in tma_latency), multiples of 128 bytes. matrix: COPIES * BOX_ROWS rows. Measured in
// recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/cp_async.cuh>
#include <hopperlab/tma.cuh>

#ifndef HOW
#define HOW 0
#endif
#ifndef BOX_ROWS
#define BOX_ROWS 64
#endif
#ifndef BOX_COLS
#define BOX_COLS 64
#endif
#ifndef COPIES
#define COPIES 64
#endif
#ifndef TILES
#define TILES 4
#endif

constexpr int BOX_BYTES = BOX_ROWS * BOX_COLS * 2;

// Box number i, by TMA with or without a tensor map.
__device__ __forceinline__ void copy_box(unsigned char* to, const TensorMap* map, const unsigned short* matrix,
                                         mbarrier_t* barrier, int i) {
    mbarrier_arrive_expect_tx(barrier, BOX_BYTES);
    if (HOW != 1) cp_async_bulk_tensor_2d_load(to, map, barrier, 0, i * BOX_ROWS);
    else cp_async_bulk_load(to, matrix + (long long)i * BOX_ROWS * BOX_COLS, BOX_BYTES, barrier);
}

extern "C" __global__ void __launch_bounds__(128)
tma_latency(const __grid_constant__ TensorMap map, const unsigned short* matrix, long long* out) {
    extern __shared__ __align__(128) unsigned char box[];
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;
    mbarrier_init(&full, 1);
    unsigned sum = 0;
    for (int i = 0; i < 2 * COPIES; i++) {
        long long start = clock_cycles();
        if (HOW == 2) {
            const unsigned short* at = matrix + (long long)(i % COPIES) * BOX_ROWS * BOX_COLS;
            unsigned word;                                  // through the L2, not the L1
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
            sum += word;
            asm volatile("" :: "r"(sum) : "memory");        // the clock is read when the word is there
            if (sum == 0x12345678) out[0] = sum;
        } else {
            copy_box(box, &map, matrix, &full, i % COPIES);
            if (HOW == 4) {
                cp_async_bulk_commit_group();
                cp_async_bulk_wait_group<0>();
            } else {
                mbarrier_wait_parity(&full, i % 2);
            }
        }
        out[i] = clock_cycles() - start;
        if (HOW == 4) mbarrier_wait_parity(&full, i % 2);
    }
}

extern "C" __global__ void __launch_bounds__(128)
tma_issue(const __grid_constant__ TensorMap map, const unsigned short* matrix, long long* out) {
    extern __shared__ __align__(128) unsigned char boxes[];
    __shared__ mbarrier_t full[TILES];
    if (threadIdx.x == 0)
        for (int s = 0; s < TILES; s++) mbarrier_init(&full[s], 1);
    __syncthreads();
    for (int round = 0; round < COPIES / TILES; round++) {
        long long start = clock_cycles();
        if (HOW == 3) {
            #pragma unroll
            for (int s = 0; s < TILES; s++) {
                const unsigned short* from = matrix + (long long)(round * TILES + s) * BOX_ROWS * BOX_COLS;
                for (int at = threadIdx.x * 16; at < BOX_BYTES; at += 128 * 16)
                    cp_async_cg_16(boxes + s * BOX_BYTES + at, from + at / 2);
                cp_async_commit_group();
            }
        } else if (threadIdx.x == 0) {
            #pragma unroll
            for (int s = 0; s < TILES; s++) copy_box(boxes + s * BOX_BYTES, &map, matrix, &full[s], round * TILES + s);
        }
        long long issued = clock_cycles();
        if (HOW == 3) cp_async_wait_all();
        else
            for (int s = 0; s < TILES; s++) mbarrier_wait_parity(&full[s], round % 2);
        if (threadIdx.x == 0) out[round] = issued - start;
        __syncthreads();                                    // nobody overwrites what another has not waited for
    }
}
// SPDX-License-Identifier: Apache-2.0
