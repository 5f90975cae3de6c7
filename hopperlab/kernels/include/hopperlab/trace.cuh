// Timelines from inside a kernel: each warp notes when it issued, waited, multiplied or stored, and hl.timeline reads it back.
//
//     Trace trace;                                   // at the top, by every thread; lane 0 of each warp writes
//     trace.begin(TRACE_WAIT, i); mbarrier_wait_parity(&full[s], phase); trace.end(TRACE_WAIT, i);
//     trace.mark(TRACE_ISSUE, i);                    // a moment instead of a span
//
// Compiled in by -DHOPPERLAB_TRACE only, which hl.timeline adds; without it Trace is empty and the machine code is the same as
// without the marks. A mark costs a clock read and a 16-byte store by one lane. Times are the SM's own clock (%clock64, fine
// but different on every SM); each warp also notes %globaltimer (one for all SMs, but coarse) at its start and end, from
// which the host puts all SMs on one axis. In the emulator both are its virtual time.
#pragma once

enum TraceEvent : unsigned { TRACE_ISSUE, TRACE_WAIT, TRACE_MMA, TRACE_STORE, TRACE_USER = 16 };    // TRACE_USER + 0 … 4079: yours

#ifdef HOPPERLAB_TRACE

// What the host writes before a launch: a region of (8 + 2 * marks) words for each warp of the first `blocks` blocks.
struct TraceTarget {
    unsigned long long* words;
    unsigned blocks, marks;
};
extern "C" {
__device__ TraceTarget hopperlab_trace;
}

// This SM's cycles since some moment. [PTX ISA 10.24]
__device__ __forceinline__ unsigned long long trace_clock() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %clock64;" : "=l"(now) :: "memory");
    return now;
}

// Nanoseconds since some moment, the same on all SMs, in coarse steps. [PTX ISA 10.28]
__device__ __forceinline__ unsigned long long trace_globaltimer() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now) :: "memory");
    return now;
}

// A warp's region: words 0 to 7 are globaltimer and clock at its start, the same at its end, the SM (%smid [PTX ISA 10.8]),
// marks written, marks wished for, and 1; then two words a mark: the clock, and id << 16 | event << 2 | kind (0 moment,
// 1 begin, 2 end). Nobody else touches the region, so that marks need no synchronisation.
class Trace {
    unsigned long long* region = nullptr;                       // stays null in lanes and blocks that write nothing
    unsigned wished = 0, room = 0;

    __device__ __forceinline__ void put(unsigned event, unsigned kind, unsigned id) {
        if (region == nullptr) return;
        if (wished < room)                                      // regions start on 16 bytes: one store
            reinterpret_cast<ulonglong2*>(region + 8)[wished] =
                make_ulonglong2(trace_clock(), (unsigned long long)id << 16 | event << 2 | kind);
        wished++;
    }

public:
    // writes: which lane of a warp notes its marks, exactly one of those that reach them.
    __device__ __forceinline__ explicit Trace(bool writes) {
        unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        unsigned warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
        if (!writes || block >= hopperlab_trace.blocks) return;
        room = hopperlab_trace.marks;
        region = hopperlab_trace.words + (size_t)(block * warps + thread / 32) * (8 + 2 * room);
        unsigned sm;
        asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
        region[0] = trace_globaltimer();
        region[1] = trace_clock();
        region[4] = sm;
    }
    __device__ __forceinline__ Trace() : Trace((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32 == 0) {}
    __device__ __forceinline__ ~Trace() {
        if (region == nullptr) return;
        region[2] = trace_globaltimer();
        region[3] = trace_clock();
        region[5] = wished < room ? wished : room;
        region[6] = wished;
        region[7] = 1;                                          // this warp came to its end
    }
    Trace(const Trace&) = delete;
    __device__ __forceinline__ void mark(unsigned event, unsigned id = 0) { put(event, 0, id); }
    __device__ __forceinline__ void begin(unsigned event, unsigned id = 0) { put(event, 1, id); }
    __device__ __forceinline__ void end(unsigned event, unsigned id = 0) { put(event, 2, id); }
};

#else

struct Trace {
    __device__ __forceinline__ Trace(bool = true) {}
    __device__ __forceinline__ void mark(unsigned, unsigned = 0) const {}
    __device__ __forceinline__ void begin(unsigned, unsigned = 0) const {}
    __device__ __forceinline__ void end(unsigned, unsigned = 0) const {}
};

#endif
// SPDX-License-Identifier: Apache-2.0
