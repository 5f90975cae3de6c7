// Flags between devices. round_trip: two threads, one on each of two devices, answer each other `rounds` times; the first counts
// its clock. meet: every device waits for all others, so that what is launched behind it begins everywhere at about the same time.
// Launch: grid 1; round_trip block 1, meet block MOST_DEVICES. flags: 0 before the first launch. Measured in recordings/two_gpus.json.
#include <hopperlab/peers.cuh>

// mine: a word in this device's memory, which the other one writes; theirs: one in its memory; first: 1 on one of the two.
extern "C" __global__ void round_trip(unsigned* mine, unsigned* theirs, int first, int rounds, long long* cycles) {
    long long began = clock64();
    for (unsigned round = 1; round <= rounds; round++) {
        if (first) raise_flag(theirs, round);
        await_flag(mine, round);
        if (!first) raise_flag(theirs, round);
    }
    *cycles = clock64() - began;
}

// flags: a word a sender, on every device.
extern "C" __global__ void meet(const __grid_constant__ Peers flags, int rank, int devices, unsigned step) {
    int other = threadIdx.x;
    if (other >= devices || other == rank) return;
    raise_flag(flags.of<unsigned>(other) + rank, step);
    await_flag(flags.of<unsigned>(rank) + other, step);
}
// SPDX-License-Identifier: Apache-2.0
