// Switches for the "break it" cells. A kernel is correct when all are 0, which they are unless the compiler is told
// otherwise (-DBUG_NO_FULL_WAIT). Each takes one step of synchronisation away; the kernels say which.
#pragma once

#ifndef BUG_WAIT_TOO_SHALLOW        // cp.async.wait_group leaves one group too many in flight: read-before-arrival
#define BUG_WAIT_TOO_SHALLOW 0
#endif
#ifndef BUG_NO_BARRIER_AFTER_WAIT   // others' copies are read without a barrier: read-before-arrival
#define BUG_NO_BARRIER_AFTER_WAIT 0
#endif
#ifndef BUG_FORGOTTEN_EXPECT_TX     // the producer never arrives: deadlock
#define BUG_FORGOTTEN_EXPECT_TX 0
#endif
#ifndef BUG_WRONG_BYTES             // the barrier waits for more bytes than are copied: deadlock
#define BUG_WRONG_BYTES 0
#endif
#ifndef BUG_NO_FULL_WAIT            // the consumer does not wait for the load: read-before-arrival
#define BUG_NO_FULL_WAIT 0
#endif
#ifndef BUG_EARLY_RELEASE           // a stage is handed back while wgmma still reads it: overwrite-in-flight
#define BUG_EARLY_RELEASE 0
#endif
#ifndef BUG_WRONG_PARITY            // the consumer waits for the phase before: read-before-arrival
#define BUG_WRONG_PARITY 0
#endif
#ifndef BUG_PRODUCER_PARITY         // the producer waits for a release nobody has made yet: deadlock
#define BUG_PRODUCER_PARITY 0
#endif
#ifndef BUG_NO_PROXY_FENCE          // ordinary stores, then a bulk store of them, no fence between: missing-proxy-fence
#define BUG_NO_PROXY_FENCE 0
#endif
#ifndef BUG_REUSE_BEFORE_READ       // the source of a bulk store is written before it was read: overwrite-in-flight
#define BUG_REUSE_BEFORE_READ 0
#endif
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
