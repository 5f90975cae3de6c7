// When does a barrier open that was told of fewer bytes than the box has? One thread announces `announced` bytes, asks for a box, and
// waits at most `patience` cycles. Then it counts the 128-byte lines of the box that are there, waits for the others, and begins again
// with other rows: out[2 t] of trial t is the number of lines that had landed when the barrier opened, or -1 where it did not open;
// out[2 t + 1] the cycles until it opened (or patience ended).
// A line counts when its last word is not zero; the thread writes zeros there before, and the matrix has none.
// With `announced` equal to the box's bytes the kernel is right. With less it reads what nobody has waited for: that is the experiment.
//
// Macros: BOX_ROWS, BOX_COLS (bf16; rows of 16 bytes at least). Launch: grid 1, block 32, dynamic shared memory the box's bytes, a
// multiple of 128. matrix: trials * BOX_ROWS rows. Measured in recordings/engine.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier_hint.cuh>
#include <hopperlab/tma.cuh>

#ifndef BOX_ROWS
#define BOX_ROWS 64
#endif
#ifndef BOX_COLS
#define BOX_COLS 64
#endif

constexpr int BOX_BYTES = BOX_ROWS * BOX_COLS * 2, LINES = BOX_BYTES / 128;
static_assert(BOX_BYTES % 128 == 0);

extern "C" __global__ void __launch_bounds__(32)
early_opening(const __grid_constant__ TensorMap map, int announced, int trials, int patience, long long* out) {
    extern __shared__ __align__(128) unsigned char box[];
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;
    volatile unsigned* last = reinterpret_cast<volatile unsigned*>(box) + 31;      // the last word of line 0; 32 words to the next
    auto landed = [&]() {
        int lines = 0;
        for (int i = 0; i < LINES; i++) lines += last[32 * i] != 0;
        return lines;
    };
    for (int t = 0; t < trials; t++) {
        for (int i = 0; i < LINES; i++) last[32 * i] = 0;
        mbarrier_init(&full, 1);
        fence_proxy_async_shared_cta();                     // the engine writes after these zeros
        long long start = clock_cycles();
        mbarrier_arrive_expect_tx(&full, announced);
        cp_async_bulk_tensor_2d_load(box, &map, &full, 0, t * BOX_ROWS);
        bool open = false;
        while (!open && clock_cycles() - start < patience) open = mbarrier_try_wait_parity_hint(&full, 0, 500);
        long long waited = clock_cycles() - start;
        out[2 * t] = open ? landed() : -1;
        out[2 * t + 1] = waited;
        while (landed() < LINES) {}
        for (start = clock_cycles(); clock_cycles() - start < patience;) {}        // and its last complete_tx has come, too
        mbarrier_inval(&full);
    }
}
// SPDX-License-Identifier: Apache-2.0
