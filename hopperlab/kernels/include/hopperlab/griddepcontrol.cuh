// Programmatic dependent launch: a grid that begins before the grid in front of it in its stream has ended. Both instructions
// do nothing in a grid that was launched in the ordinary way. [PTX ISA 9.7.13.13]
#pragma once

// The grids that depend on this one may begin once every CTA of this grid has run this, or has ended; one thread says it for its
// CTA. It is a hint about time: it makes nothing visible, and the grid behind has to wait all the same.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Waits until the grid in front has ended, with all its writes visible to this thread (and to whom it synchronises with later).
__device__ __forceinline__ void griddepcontrol_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
// SPDX-License-Identifier: Apache-2.0
