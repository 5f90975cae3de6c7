// Kernels that do nothing, for measuring what a start costs and how many blocks find a place; and one that lasts.
//
//   start   waits for the grid in front and ends: in a row of such launches only starts and ends are left
//   spin    one thread that lasts `cycles` of its SM's clock: keeps a stream busy while the host puts launches behind it
//
// Macros: LAUNCH_AT (0: no launch_dependents). Launch: start: any grid and block; spin: grid 1, block 1. Measured in recordings/launches.json.
#include <hopperlab/clock.cuh>
#include <hopperlab/griddepcontrol.cuh>

#ifndef LAUNCH_AT
#define LAUNCH_AT 1
#endif

extern "C" __global__ void start() {
    if (LAUNCH_AT) griddepcontrol_launch_dependents();
    griddepcontrol_wait();
}

extern "C" __global__ void spin(long long cycles) {
    long long begun = clock_cycles();
    while (clock_cycles() - begun < cycles) {}
}
// SPDX-License-Identifier: Apache-2.0
