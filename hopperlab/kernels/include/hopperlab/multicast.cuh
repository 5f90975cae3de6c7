// One load for several CTAs of a cluster, and waiting for what other CTAs did. [PTX ISA 9.7.9.25.5.2, 9.7.13.15.16]
#pragma once
#include <hopperlab/cluster.cuh>
#include <hopperlab/tma.cuh>

// Loads a box once and writes it to every CTA whose bit is set in `mask`, at the offset that `shared` has in this CTA; the
// bytes count on the barrier at `barrier`'s offset in each of them. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_2d_load_multicast(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                                       unsigned short mask, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5}], [%2], %3;"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)), "h"(mask), "r"(c0), "r"(c1)
                 : "memory");
}

// Returns when the phase of this parity has completed; acquire at cluster scope, for barriers on which other CTAs of the
// cluster arrive. [9.7.13.15.16]
__device__ __forceinline__ void mbarrier_wait_parity_cluster(mbarrier_t* barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{\n"
                     ".reg .pred complete;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, complete;\n"
                     "}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!done);
}
// SPDX-License-Identifier: Apache-2.0
