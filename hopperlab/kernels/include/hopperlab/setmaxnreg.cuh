// setmaxnreg: registers move between the warpgroups of a CTA. [PTX ISA 9.7.19.5]
// COUNT is 24..256, a multiple of 8. All four warps of a warpgroup execute it. The CTA's total must not exceed what it
// started with (registers at entry x warpgroups), or `inc` waits for ever.
#pragma once

// Gives registers back to the CTA's pool, down to COUNT a thread.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}

// Waits until the pool has enough, then owns COUNT registers per thread; the new ones hold no defined value.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}
// SPDX-License-Identifier: Apache-2.0
