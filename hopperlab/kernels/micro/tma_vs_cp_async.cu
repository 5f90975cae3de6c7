// One thread that issues TMA against 128 threads that issue cp.async: both bring the same boxes of a row-major bf16 matrix
// into a ring of STAGES slots in shared memory and use none of them, so that only loading is timed. Each writes the sum
// of its last box's 32-bit words as a receipt: out[blockIdx.x].
//
// Macros: BOX_ROWS, BOX_COLS (a multiple of 8; columns a multiple of BOX_COLS, rows of BOX_ROWS), STAGES.
// Launch: any grid not larger than the number of boxes, block 128, dynamic shared memory STAGES * BOX_BYTES
// (128-byte multiples). Measured in recordings/tma_vs_cp_async.json.
#include <hopperlab/cp_async.cuh>
#include <hopperlab/tma.cuh>

#ifndef BOX_ROWS
#define BOX_ROWS 64
#endif
#ifndef BOX_COLS
#define BOX_COLS 64
#endif
#ifndef STAGES
#define STAGES 4
#endif

constexpr int BOX_BYTES = BOX_ROWS * BOX_COLS * 2;
static_assert(BOX_BYTES % 128 == 0, "a slot starts on 128 bytes");

// out[blockIdx.x] = sum of the 32-bit words of `box`, by all 128 threads; out is zero before.
__device__ __forceinline__ void receipt(const unsigned char* box, unsigned* out) {
    unsigned sum = 0;
    for (int i = threadIdx.x; i < BOX_BYTES / 4; i += 128) sum += reinterpret_cast<const unsigned*>(box)[i];
    atomicAdd(out + blockIdx.x, sum);
}

extern "C" __global__ void __launch_bounds__(128)
tma_load(const __grid_constant__ TensorMap map, unsigned* out, int rows, int columns) {
    extern __shared__ __align__(1024) unsigned char slots[];
    __shared__ mbarrier_t full[STAGES];
    int across = columns / BOX_COLS, boxes = across * (rows / BOX_ROWS);
    int mine = (boxes - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < mine + STAGES - 1; i++) {
            if (i < mine) {                                         // load i goes where load i - STAGES landed
                int box = blockIdx.x + i * gridDim.x, s = i % STAGES;
                mbarrier_arrive_expect_tx(&full[s], BOX_BYTES);
                cp_async_bulk_tensor_2d_load(slots + s * BOX_BYTES, &map, &full[s],
                                             box % across * BOX_COLS, box / across * BOX_ROWS);
            }
            int j = i - (STAGES - 1);
            if (j >= 0) mbarrier_wait_parity(&full[j % STAGES], j / STAGES % 2);
        }
    }
    __syncthreads();                                                // passes on what thread 0 waited for
    receipt(slots + (mine - 1) % STAGES * BOX_BYTES, out);
}

extern "C" __global__ void __launch_bounds__(128)
cp_async_load(const unsigned short* matrix, unsigned* out, int rows, int columns) {
    extern __shared__ __align__(1024) unsigned char slots[];
    constexpr int CHUNKS = BOX_BYTES / 16, ROW_CHUNKS = BOX_COLS / 8;
    int across = columns / BOX_COLS, boxes = across * (rows / BOX_ROWS);
    int mine = (boxes - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    for (int i = 0; i < mine + STAGES - 1; i++) {
        if (i < mine) {
            int box = blockIdx.x + i * gridDim.x, s = i % STAGES;
            const unsigned short* corner = matrix + (long long)(box / across) * BOX_ROWS * columns + box % across * BOX_COLS;
            for (int chunk = threadIdx.x; chunk < CHUNKS; chunk += 128)
                cp_async_cg_16(slots + s * BOX_BYTES + chunk * 16,
                               corner + (long long)(chunk / ROW_CHUNKS) * columns + chunk % ROW_CHUNKS * 8);
        }
        cp_async_commit_group();
        cp_async_wait_group<STAGES - 1>();                          // a thread refills only what it copied itself
    }
    __syncthreads();                                                // everyone's last copies have landed
    receipt(slots + (mine - 1) % STAGES * BOX_BYTES, out);
}
// SPDX-License-Identifier: Apache-2.0
