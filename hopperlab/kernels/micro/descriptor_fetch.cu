// What it costs to use a tensor map for the first time: MAPS maps of the same tensor, whose data is in the L2 already (a map of
// its own brought it). Each is used twice: out[2 i] the first copy through map i, out[2 i + 1] the second, in cycles from issue
// until the box has landed.
//
// PLACE says where the maps lie: 0 in the kernel's parameters, 1 in constant memory, 2 in global memory. PREFETCH 1 issues
// prefetch.tensormap for each map and waits a while before its first use.
// A map in global memory that something else has written needs an acquire on the tensor map proxy, once, before its first use.
//
// Macros: PLACE, PREFETCH, MAPS (32 at most), PAUSE (cycles between prefetch and use), MAP_WORDS (PLACE 1: a map's sixteen
// words, for the initial value of the constants). Launch: grid 1, block 32, dynamic shared memory 8192 bytes. Maps: box 32 rows x
// 128 columns of bf16. Measured in recordings/micro.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/tma.cuh>

#ifndef PLACE
#define PLACE 0
#endif
#ifndef PREFETCH
#define PREFETCH 0
#endif
#ifndef MAPS
#define MAPS 8
#endif
#ifndef PAUSE
#define PAUSE 4000
#endif
#ifndef MAP_WORDS
#define MAP_WORDS 0
#endif

struct Maps { TensorMap map[MAPS]; };
constexpr int BOX_BYTES = 32 * 128 * 2;
static_assert(MAPS % 8 == 0 && MAPS <= 32);

#if PLACE == 1
#define TWO {{MAP_WORDS}}, {{MAP_WORDS}}
#define EIGHT TWO, TWO, TWO, TWO
__constant__ Maps constant_maps = {{EIGHT
#if MAPS > 8
    , EIGHT
#endif
#if MAPS > 16
    , EIGHT
#endif
#if MAPS > 24
    , EIGHT
#endif
}};
#endif

// Later uses of this map see what was written to its 128 bytes before. [PTX ISA 9.7.13.4]
__device__ __forceinline__ void fence_proxy_tensormap_acquire(const TensorMap* map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}

extern "C" __global__ void __launch_bounds__(32)
descriptor_fetch(const __grid_constant__ TensorMap first, const __grid_constant__ Maps parameter_maps, const Maps* global_maps,
                 long long* out) {
    extern __shared__ __align__(128) unsigned char box[];
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;
#if PLACE == 0
    const TensorMap* maps = parameter_maps.map;
#elif PLACE == 1
    const TensorMap* maps = constant_maps.map;
#else
    const TensorMap* maps = global_maps->map;
    for (int i = 0; i < MAPS; i++) fence_proxy_tensormap_acquire(&maps[i]);
#endif
    mbarrier_init(&full, 1);
    unsigned phase = 0;
    auto timed = [&](const TensorMap* map) {
        long long start = clock_cycles();
        mbarrier_arrive_expect_tx(&full, BOX_BYTES);
        cp_async_bulk_tensor_2d_load(box, map, &full, 0, 0);
        mbarrier_wait_parity(&full, phase);
        phase ^= 1;
        return clock_cycles() - start;
    };
    timed(&first);                                          // the data, and the instructions
    timed(&first);
    for (int i = 0; i < MAPS; i++) {
        if (PREFETCH) {
            prefetch_tensormap(&maps[i]);
            for (long long start = clock_cycles(); clock_cycles() - start < PAUSE;) {}
        }
        out[2 * i] = timed(&maps[i]);
        out[2 * i + 1] = timed(&maps[i]);
    }
}
// SPDX-License-Identifier: Apache-2.0
