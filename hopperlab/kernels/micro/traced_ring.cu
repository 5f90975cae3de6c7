// y[i] = factor * x[i], chunk by chunk through a ring of STAGES slots, with a mark at everything a warp does: the smallest
// kernel with a producer, consumers and both barriers, for timelines (hl.timeline). Warp 0 copies (one thread issues bulk
// loads), the other CONSUMERS warps multiply and store. Recorded in recordings/timeline.json.
//   full[s]   the chunk of slot s has landed   (1 arrival by the producer, and the bytes of the copy)
//   empty[s]  slot s has been read             (1 arrival by each consumer warp)
// Launch: any grid, block 32 * (1 + CONSUMERS), dynamic shared memory STAGES * CHUNK * 4. count: a multiple of CHUNK floats.
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/trace.cuh>

#ifndef STAGES
#define STAGES 3
#endif
#ifndef CHUNK
#define CHUNK 2048
#endif
#ifndef CONSUMERS
#define CONSUMERS 4
#endif

enum : unsigned { TRACE_SCALE = TRACE_USER };                   // our own event: the arithmetic

extern "C" __global__ void __launch_bounds__(32 * (1 + CONSUMERS))
traced_ring(const float* x, float* y, float factor, int count) {
    extern __shared__ __align__(128) float slots[];
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    Trace trace;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int chunks = count / CHUNK, mine = (chunks - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], CONSUMERS);
        }
    }
    __syncthreads();                                            // nobody touches a barrier before it is one

    for (int i = 0; i < mine; i++) {
        int s = i % STAGES, phase = i / STAGES % 2;
        size_t at = (size_t)(blockIdx.x + i * gridDim.x) * CHUNK;
        if (warp == 0) {
            if (lane != 0) break;
            trace.begin(TRACE_WAIT, i);
            mbarrier_wait_parity(&empty[s], phase ^ 1);         // the first pass finds every slot empty
            trace.end(TRACE_WAIT, i);
            mbarrier_arrive_expect_tx(&full[s], CHUNK * 4);
            cp_async_bulk_load(slots + s * CHUNK, x + at, CHUNK * 4, &full[s]);
            trace.mark(TRACE_ISSUE, i);
            continue;
        }
        trace.begin(TRACE_WAIT, i);
        mbarrier_wait_parity(&full[s], phase);
        trace.end(TRACE_WAIT, i);
        constexpr int EACH = CHUNK / 32 / CONSUMERS;            // floats a lane
        float value[EACH];
        trace.begin(TRACE_SCALE, i);
        #pragma unroll
        for (int j = 0; j < EACH; j++) value[j] = factor * slots[s * CHUNK + (j * CONSUMERS + warp - 1) * 32 + lane];
        fence_proxy_async_shared_cta(), __syncwarp();           // my reads come before the engine writes the slot again
        trace.end(TRACE_SCALE, i);
        if (lane == 0) mbarrier_arrive(&empty[s]);              // all lanes have read (the warp is in step)
        trace.begin(TRACE_STORE, i);
        #pragma unroll
        for (int j = 0; j < EACH; j++) y[at + (j * CONSUMERS + warp - 1) * 32 + lane] = value[j];
        trace.end(TRACE_STORE, i);
    }
}
// SPDX-License-Identifier: Apache-2.0
