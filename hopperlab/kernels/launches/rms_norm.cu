// out[r,:] = x[r,:] * gain[:] / sqrt(mean(x[r,:]^2) + epsilon), bf16, sums in fp32: the norm at the end of lesson 13x's chain.
//
// One row a block. Every thread reads what the kernel in front wrote, so every thread waits; its part of the gains, which nobody
// in front writes, is in its registers by then.
//
// Macros: LAUNCH_AT, WAIT_AT (chain.cuh), VECTORS (16-byte pieces of a row a thread: n <= 1024 * VECTORS). Launch: grid (rows),
// block 128. n a multiple of 8. Measured in recordings/launches.json.
#include <hopperlab/chain.cuh>
#include <hopperlab/rms_norm.cuh>

#ifndef VECTORS
#define VECTORS 1
#endif

extern "C" __global__ void __launch_bounds__(128)
rms_norm(const __nv_bfloat16* x, const __nv_bfloat16* gain, __nv_bfloat16* out, int n, float epsilon) {
    Trace trace;
    trace.begin(TRACE_KERNEL);
    if (WAIT_AT == WAIT_AT_START || WAIT_AT == WAIT_AT_LOADS) wait_for_grid_in_front(trace);
    if (LAUNCH_AT == LAUNCH_AT_START) griddepcontrol_launch_dependents();
    __shared__ float partial[4];
    uint4 row[VECTORS], gains[VECTORS];
    load_row(gains, gain, n);
    if (WAIT_AT == WAIT_AT_X && !BUG_X_BEFORE_GRID_WAIT) wait_for_grid_in_front(trace);
    load_row(row, x + (size_t)blockIdx.x * n, n);
    if (BUG_X_BEFORE_GRID_WAIT) wait_for_grid_in_front(trace);
    if (LAUNCH_AT == LAUNCH_AT_LOADED) griddepcontrol_launch_dependents();
    rms_norm_row(out + (size_t)blockIdx.x * n, row, gains, n, epsilon, partial, 1);
    if (LAUNCH_AT == LAUNCH_AT_MULTIPLIED) griddepcontrol_launch_dependents();
}
// SPDX-License-Identifier: Apache-2.0
