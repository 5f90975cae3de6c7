// More switches for the "break it" cells: those that one lesson alone plants. A kernel is correct when all are 0, which they are
// unless the compiler is told otherwise. (In a file of their own, since stored outputs depend on what a kernel includes.)
#pragma once
#include <hopperlab/bugs.cuh>

#ifndef BUG_TILE_AT_128             // a tile 128 bytes past a pattern's start, read as if it began there: wrong values, no hazard
#define BUG_TILE_AT_128 0
#endif
#ifndef BUG_TILE_AT_64              // a tile on 64 bytes, where no tensor copy may land: misaligned
#define BUG_TILE_AT_64 0
#endif
#ifndef BUG_DESCRIPTOR_SWIZZLE      // the wgmma descriptor names another swizzle than the tile has: layout-mismatch
#define BUG_DESCRIPTOR_SWIZZLE 0
#endif
#ifndef BUG_READ_BEFORE_WAIT        // the accumulator is read before wgmma.wait_group: register-in-flight
#define BUG_READ_BEFORE_WAIT 0
#endif
#ifndef BUG_MISSING_ARRIVE          // the consumers never hand a slot back: deadlock
#define BUG_MISSING_ARRIVE 0
#endif
#ifndef BUG_NO_TILE_BARRIER         // a tile is read without __syncthreads after it was written: race
#define BUG_NO_TILE_BARRIER 0
#endif
#ifndef BUG_NO_REUSE_BARRIER        // a tile is written without __syncthreads after it was read: race
#define BUG_NO_REUSE_BARRIER 0
#endif
#ifndef BUG_SWIZZLE_MISMATCH        // the reader undoes another swizzle than the writer did: wrong values, no hazard
#define BUG_SWIZZLE_MISMATCH 0
#endif
#ifndef BUG_WAIT_AFTER_LOOP         // stages are handed back in the loop, wgmma is waited for after it: overwrite-in-flight
#define BUG_WAIT_AFTER_LOOP 0
#endif
#ifndef BUG_PRODUCER_LEAVES         // the producer fills the ring once and returns: deadlock
#define BUG_PRODUCER_LEAVES 0
#endif
#ifndef BUG_ARRIVE_PER_THREAD       // every thread of a consumer arrives where one a warpgroup is counted: barrier-misuse
#define BUG_ARRIVE_PER_THREAD 0
#endif
#ifndef BUG_NO_LAUNCH_BOUNDS    // no launch bounds, so that ptxas ignores setmaxnreg (C7508): register-budget
#define BUG_NO_LAUNCH_BOUNDS 0
#endif
#ifndef BUG_LEAVES_EARLY        // the last CTA of a cluster leaves without the closing barrier: cluster-lifetime
#define BUG_LEAVES_EARLY 0
#endif
#ifndef BUG_COUNTS_ONE_CTA      // an empty barrier counts its own CTA's consumers only: overwrite-in-flight
#define BUG_COUNTS_ONE_CTA 0
#endif
#ifndef BUG_NO_FIRST_BARRIER    // no cluster barrier before the first multicast: cluster-lifetime
#define BUG_NO_FIRST_BARRIER 0
#endif
// SPDX-License-Identifier: Apache-2.0
