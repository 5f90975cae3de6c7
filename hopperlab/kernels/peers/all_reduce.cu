// All-reduce of a small vector over the devices of one host: y = x0 + x1 + ... on every device, bf16 in and out, added in fp32 in the order of
// the devices, so that all get the same bits. A CTA is responsible for the same stripe on every device and needs no other CTA of its own.
//
//   one_shot     every device sends its vector to all; each adds. One flag per CTA and sender tells that the stripe has arrived. Its release waits
//                until the data are there: data, answer, flag, three ways over the link in line
//   one_words    the same, but each word of 8 bytes carries 4 bytes of the vector and the step: who reads the step has the data too. Twice the
//                bytes, one way over the link
//   two_shot     every device adds a part and sends the sum to all: two flags, but 2 / devices of the bytes that one_shot sends and adds
//
// Mail comes in two halves, of even and of odd steps: a device that begins step s has had the others' mail of step s - 1, so they have ended step
// s - 2, whose half it writes. Nobody waits for being read. (two_shot would do with one half: its second flag says that mail was read.)
//
// Launch: grid (blocks; the same on all devices, at most MOST_BLOCKS), block THREADS, no shared memory. n: elements, a multiple of 8
// (two_shot: of 8 * devices). mail: every device's, 2 x devices x n bf16 (one_words: x 2; two_shot: 2 x devices x n / devices); flags: every device's,
// 2 x MOST_DEVICES x MOST_BLOCKS words, 0 before step 1; ys: every device's y. Measured in recordings/two_gpus.json.
#include <cuda_bf16.h>
#include <hopperlab/peers.cuh>

#ifndef THREADS
#define THREADS 512
#endif
enum { MOST_BLOCKS = 64 };

struct Sum { float of[8]; };

__device__ __forceinline__ void add(Sum& sum, uint4 bits) {
    const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&bits);
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 pair = __bfloat1622float2(pairs[i]);
        sum.of[2 * i] += pair.x, sum.of[2 * i + 1] += pair.y;
    }
}

__device__ __forceinline__ uint4 rounded(const Sum& sum) {
    __nv_bfloat162 pairs[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) pairs[i] = __floats2bfloat162_rn(sum.of[2 * i], sum.of[2 * i + 1]);
    return *reinterpret_cast<uint4*>(pairs);
}

// Where device `from` leaves its mail of this step, of `vectors` times 16 bytes, on device `to`.
__device__ __forceinline__ uint4* box(const Peers& mail, int to, int from, int devices, int vectors, unsigned step) {
    return mail.of<uint4>(to) + ((size_t)(BUG_OVERWRITTEN ? 0 : step % 2) * devices + from) * vectors;
}

// All threads: this CTA has written its stripe everywhere and tells its partners; returns when they have told it. round: 0 or 1.
__device__ __forceinline__ void exchange_flags(const Peers& flags, int rank, int devices, int round, unsigned step) {
    auto flag = [&](int to, int from) { return flags.of<unsigned>(to) + (round * MOST_DEVICES + from) * MOST_BLOCKS + blockIdx.x; };
    int other = threadIdx.x;
    if (!BUG_FLAG_BEFORE_DATA) __syncthreads();                 // all have written: one thread's release tells of all
    if (other < devices && other != rank) {
        raise_flag(flag(other, rank), step);
        await_flag(flag(rank, other), step);
    }
    __syncthreads();                                            // what one thread has acquired, all know
}

extern "C" __global__ void __launch_bounds__(THREADS)
one_shot(const uint4* x, uint4* y, const __grid_constant__ Peers mail, const __grid_constant__ Peers flags, int n, int rank, int devices, unsigned step) {
    int vectors = n / 8, first = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    for (int v = first; v < vectors; v += stride) {
        uint4 own = x[v];
        for (int other = 1; other < devices; other++) box(mail, (rank + other) % devices, rank, devices, vectors, step)[v] = own;
    }
    exchange_flags(flags, rank, devices, 0, step);
    for (int v = first; v < vectors; v += stride) {
        Sum sum{};
        for (int from = 0; from < devices; from++) add(sum, from == rank ? x[v] : box(mail, rank, from, devices, vectors, step)[v]);
        y[v] = rounded(sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
one_words(const uint4* x, uint4* y, const __grid_constant__ Peers mail, const __grid_constant__ Peers, int n, int rank, int devices, unsigned step) {
    int vectors = n / 8, first = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    // Word i of vector v lies at i * vectors + v: a warp writes whole lines.
    auto words = [&](int to, int from) { return reinterpret_cast<unsigned long long*>(box(mail, to, from, devices, 2 * vectors, step)); };
    for (int v = first; v < vectors; v += stride) {
        uint4 own = x[v];
        unsigned parts[4] = {own.x, own.y, own.z, own.w};
        for (int other = 1; other < devices; other++)
            #pragma unroll
            for (int i = 0; i < 4; i++) st_relaxed_sys_u64(words((rank + other) % devices, rank) + i * vectors + v, (unsigned long long)step << 32 | parts[i]);
    }
    for (int v = first; v < vectors; v += stride) {
        Sum sum{};
        for (int from = 0; from < devices; from++) {
            if (from == rank) {
                add(sum, x[v]);
                continue;
            }
            unsigned parts[4];
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                unsigned long long word;
                do word = ld_relaxed_sys_u64(words(rank, from) + i * vectors + v);
                while (word >> 32 != step);
                parts[i] = (unsigned)word;
            }
            add(sum, make_uint4(parts[0], parts[1], parts[2], parts[3]));
        }
        y[v] = rounded(sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
two_shot(const uint4* x, const __grid_constant__ Peers ys, const __grid_constant__ Peers mail, const __grid_constant__ Peers flags, int n, int rank,
         int devices, unsigned step) {
    int part = n / 8 / devices, first = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    for (int v = first; v < part; v += stride)
        for (int other = 1; other < devices; other++) {
            int to = (rank + other) % devices;
            box(mail, to, rank, devices, part, step)[v] = x[to * part + v];
        }
    exchange_flags(flags, rank, devices, 0, step);
    for (int v = first; v < part; v += stride) {
        Sum sum{};
        for (int from = 0; from < devices; from++) add(sum, from == rank ? x[rank * part + v] : box(mail, rank, from, devices, part, step)[v]);
        for (int other = 0; other < devices; other++) ys.of<uint4>((rank + other) % devices)[rank * part + v] = rounded(sum);
    }
    exchange_flags(flags, rank, devices, 1, step);              // y is complete when the kernel ends
}
// SPDX-License-Identifier: Apache-2.0
