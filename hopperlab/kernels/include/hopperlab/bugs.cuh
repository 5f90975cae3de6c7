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
// SPDX-License-Identifier: Apache-2.0
