// setmaxnreg that can never be satisfied, goes the wrong way, or does nothing.
//! case nobody_gives
//! launch block=384
//! args i32[384]
//! also deadlock
extern "C" __global__ void __launch_bounds__(384, 1) k(int* y) {
    if (threadIdx.x < 128) { if (!BUG) setmaxnreg_dec<40>(); }
    else setmaxnreg_inc<176>();                                 // HAZARD
    y[threadIdx.x] = 1;
}
//! case dec_to_more
//! launch block=384
//! args i32[384]
extern "C" __global__ void __launch_bounds__(384, 1) k(int* y) {
    setmaxnreg_dec<40>();                                       // OTHER
    if (threadIdx.x < 128 && BUG) setmaxnreg_dec<64>();         // HAZARD
    y[threadIdx.x] = 1;
}
//! case inc_to_less_than_at_entry
//! launch block=384
//! args i32[384]
extern "C" __global__ void __launch_bounds__(384, 1) k(int* y) {
    if (threadIdx.x < 128) setmaxnreg_dec<40>();
    else if (threadIdx.x < 256 && BUG) setmaxnreg_inc<120>();   // HAZARD
    else setmaxnreg_inc<232>();
    y[threadIdx.x] = 1;
}
//! case dec_to_more_than_at_entry
//! launch block=512
//! args i32[512]
extern "C" __global__ void __launch_bounds__(512, 1) k(int* y) {
    if (threadIdx.x < 128) setmaxnreg_dec<24>();
    else if (threadIdx.x < 256) setmaxnreg_inc<208>();
    else setmaxnreg_dec<BUG ? 136 : 88>();                      // HAZARD
    y[threadIdx.x] = 1;
}
//! case inc_to_what_the_kernel_has_at_entry
//! clean
//! launch block=256
//! args i32[256]
extern "C" __global__ void __launch_bounds__(256, 1) k(int* y) {    // ptxas gives it 168, the most that any setmaxnreg names, not 255
    if (threadIdx.x < 128) setmaxnreg_dec<24>();
    else setmaxnreg_inc<168>();
    y[threadIdx.x] = 1;
}
//! case ignored_by_the_compiler
//! launch block=128
//! args i32[128]
#if BUG
extern "C" __global__ void k(int* y) {                          // no launch bounds: ptxas says C7508
#else
extern "C" __global__ void __launch_bounds__(128, 1) k(int* y) {
#endif
    setmaxnreg_dec<40>();                                       // HAZARD
    y[threadIdx.x] = 1;
}
//! case another_one_before_the_warpgroup_has_met
//! launch block=128
//! args i32[128]
//! ptx fewer bar.sync
extern "C" __global__ void __launch_bounds__(128, 1) k(int* y) {
    setmaxnreg_dec<64>();                                       // OTHER
#if !BUG
    bar_sync(1, 128);
#endif
    setmaxnreg_dec<40>();                                       // HAZARD
    y[threadIdx.x] = 1;
}
// SPDX-License-Identifier: Apache-2.0
