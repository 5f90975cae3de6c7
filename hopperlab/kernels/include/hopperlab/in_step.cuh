// CTAs that drift apart read the same rows at different times, and the L2 fetches them again from memory: this keeps the producers
// of a persistent kernel together, for speed only.
#pragma once

// Waits until every CTA has come to `round` (or a while: nobody waits for ever). A producer counts each tile it begins; the last one
// of all sets the count back to zero, which also ends the waiting. ctas: of a cluster. steps: an int, zero before the first launch.
__device__ __forceinline__ void in_step(int* steps, int round, int clusters, int tiles, int ctas) {
    int seen = atomicAdd(steps, 1), wanted = min(tiles, (round + 1) * clusters) * ctas;
    if (seen == tiles * ctas - 1) atomicExch(steps, 0);
    else if (round > 0)
        for (int now = seen, tries = 0; now >= seen && now < wanted && tries < 1000; tries++) {
            __nanosleep(20);
            now = *reinterpret_cast<volatile int*>(steps);
        }
}
