// A place in a ring of SLOTS slots, and the parity of the pass it is on. Producer and consumers each walk a ring of their
// own over the same slots: the consumer's full[slot] completes with `phase`, the producer's empty[slot] with `phase ^ 1`
// (a fresh barrier passes parity 1: the first pass finds every slot empty).
#pragma once

template <int SLOTS>
struct Ring {
    int slot = 0;
    unsigned phase = 0;

    __device__ __forceinline__ void advance() {
        if (++slot == SLOTS) slot = 0, phase ^= 1;
    }
    // `steps` slots further at once, for whoever leaves that many to another.
    __device__ __forceinline__ void skip(int steps) {
        slot += steps;
        phase ^= slot / SLOTS & 1;
        slot %= SLOTS;
    }
};
// SPDX-License-Identifier: Apache-2.0
