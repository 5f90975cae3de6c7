// Puts together what decoding/decode.cu and decoding/latent.cu left of rows that were cut: every part is a softmax of its own keys, with the base-2
// logarithm of its sum of exponentials. A part's weight is 2^lse, divided by the sum of all of them; the largest lse is taken off first, since 2^lse itself may be
// more than a float holds. A dependent launch behind the kernel that wrote the parts.
//
// rows: (sequence, head of k and v, first slot, slots) of each row that was cut. Launch: grid (rows, GROUP), block DV / COLUMNS.
// Macros: DV (columns of o, a multiple of 64), COLUMNS (of a thread: 1, 4), GROUP. Measured in recordings/decoding.json.
#include <hopperlab/decoding.cuh>

#ifndef DV
#define DV 128
#endif
#ifndef COLUMNS
#define COLUMNS 1
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef BUG_NO_MAXIMUM              // weights are 2^lse as they stand: infinities, wrong values, no hazard
#define BUG_NO_MAXIMUM 0
#endif
#ifndef BUG_NO_GRID_WAIT            // parts are read while they are being written: read-before-arrival
#define BUG_NO_GRID_WAIT 0
#endif

extern "C" __global__ void __launch_bounds__(DV / COLUMNS)
combine(const float* partial, const float* partial_lse, __nv_bfloat16* o, const int4* rows, int kv_heads) {
    int4 row = rows[blockIdx.x];
    int head = row.y * GROUP + blockIdx.y, column = threadIdx.x * COLUMNS;
    if (!BUG_NO_GRID_WAIT) griddepcontrol_wait();
    const float* lse = partial_lse + (size_t)row.z * GROUP + blockIdx.y;
    float most = MINUS_INFINITY;
    for (int i = 0; i < row.w; i++) most = fmaxf(most, lse[i * GROUP]);
    if (BUG_NO_MAXIMUM) most = 0;
    float total = 0, sum[COLUMNS] = {};
    const float* part = partial + ((size_t)row.z * GROUP + blockIdx.y) * DV + column;
    #pragma unroll 4
    for (int i = 0; i < row.w; i++) {
        float weight = exp2f(lse[i * GROUP] - most);
        total += weight;
        for (int x = 0; x < COLUMNS; x++) sum[x] += weight * part[(size_t)i * GROUP * DV + x];
    }
    __nv_bfloat16* to = o + ((size_t)row.x * kv_heads * GROUP + head) * DV + column;
    for (int x = 0; x < COLUMNS; x++) to[x] = __float2bfloat16(sum[x] / total);
}
// SPDX-License-Identifier: Apache-2.0
