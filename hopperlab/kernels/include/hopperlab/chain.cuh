// What lesson 13x's kernels share: the places where a kernel of the chain may wait for the one in front and let the next one
// begin, and one tile of a small product, 64 x 64, in a ring of STAGES slots (8 KiB of x and 8 KiB of w each).
#pragma once
#include <cuda_bf16.h>
#include <hopperlab/epilogue.cuh>
#include <hopperlab/griddepcontrol.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/trace.cuh>
#include <hopperlab/wgmma_tile.cuh>

// LAUNCH_AT, where griddepcontrol.launch_dependents stands, and WAIT_AT, where griddepcontrol.wait stands.
#define AT_NEVER 0                  // without launch_dependents, the end of a CTA counts; without wait, the kernel is wrong
#define LAUNCH_AT_START 1           // the kernel's first instruction
#define LAUNCH_AT_LOADED 2          // the last load has been issued
#define LAUNCH_AT_MULTIPLIED 3      // the last product is over, the result is still to be written
#define WAIT_AT_START 1             // the kernel's first instruction, by all threads
#define WAIT_AT_LOADS 2             // barriers are set up; before the first load, whatever it reads
#define WAIT_AT_X 3                 // the ring's slots have their weights; before the first load of what the kernel in front wrote
#ifndef LAUNCH_AT
#define LAUNCH_AT LAUNCH_AT_LOADED
#endif
#ifndef WAIT_AT
#define WAIT_AT WAIT_AT_X
#endif
#ifndef BUG_X_BEFORE_GRID_WAIT      // x is loaded before griddepcontrol.wait: read-before-arrival
#define BUG_X_BEFORE_GRID_WAIT 0
#endif
#ifndef BUG_FLAG_RESET_EARLY        // a flag of the persistent chain is reset by each CTA that has seen it: race
#define BUG_FLAG_RESET_EARLY 0
#endif
#ifndef STAGES
#define STAGES 4
#endif

#ifdef LAYER                        // a module of its own for each launch of a chain, so that each has its own timeline
extern "C" { __device__ int chain_layer = LAYER; }
#endif
#define TRACE_KERNEL TRACE_USER     // a warp's whole life, in a timeline (trace.cuh)

constexpr int TILE = 64, TILE_BYTES = TILE * TILE * 2, STAGE_BYTES = 2 * TILE_BYTES;

// griddepcontrol.wait, with a mark in a timeline.
__device__ __forceinline__ void wait_for_grid_in_front(Trace& trace) {
    trace.begin(TRACE_WAIT);
    griddepcontrol_wait();
    trace.end(TRACE_WAIT);
}

// The consumer's part of a tile, by 128 threads: k_tiles products from the ring into d; one thread hands each slot back.
__device__ __forceinline__ void multiply_tile(float (&d)[32], unsigned char* slots, mbarrier_t* full, mbarrier_t* empty,
                                              Ring<STAGES>& ring, int k_tiles) {
    for (int i = 0; i < k_tiles; i++, ring.advance()) {
        unsigned slot = shared_address(slots) + ring.slot * STAGE_BYTES;
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
        wgmma_fence();
        wgmma_k_block(d, slot, slot + TILE_BYTES, i > 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();                                  // the slot has been read
        if (threadIdx.x == 0) mbarrier_arrive(&empty[ring.slot]);
        __syncwarp();
    }
}
// SPDX-License-Identifier: Apache-2.0
