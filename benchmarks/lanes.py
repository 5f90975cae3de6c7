# SPDX-License-Identifier: Apache-2.0
"""What lanes' own loads, stores and atomics take: how the estimated clock's constants of kernels without `wgmma` were found (estimates/boards.py: lane_…).
Needs a Hopper GPU with CuPy, two minutes.

    python -m benchmarks.lanes [--json FILE]

Five groups: CTAs that do nothing; loads that hit the L1, by lines and sectors that a warp asks for; single sectors from all over an array; atomics in shared and global
memory; and streams from memory and from the L2, by bytes under way.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hopperlab.measure.machine import command

SMS, ROUNDS = 132, 9
STREAM = r"""
template <class T> __device__ float sum(T v);
template <> __device__ float sum(unsigned char v) { return v; }
template <> __device__ float sum(float v) { return v; }
template <> __device__ float sum(float2 v) { return v.x + v.y; }
template <> __device__ float sum(float4 v) { return v.x + v.y + v.z + v.w; }
extern "C" __global__ void __launch_bounds__(256) stream(const TYPE* __restrict__ a, const TYPE* __restrict__ b, TYPE* __restrict__ y, float* out, long long n) {
    float s = 0;
    for (long long at = blockIdx.x * 256LL * UNROLL + threadIdx.x; at < n; at += LOOP ? gridDim.x * 256LL * UNROLL : n) {
        TYPE v[UNROLL], w[UNROLL];
        for (int u = 0; u < UNROLL; u++) { v[u] = a[at + u * 256]; if (READS > 1) w[u] = b[at + u * 256]; }
        for (int u = 0; u < UNROLL; u++) {
            if (WRITES) y[at + u * 256] = READS > 1 && sum(w[u]) == 12345.5f ? w[u] : v[u];
            else s += sum(v[u]) + (READS > 1 ? sum(w[u]) : 0);
        }
    }
    if (!WRITES && s == 1e30f) out[0] = s;
}"""
HITS = r"""
extern "C" __global__ void __launch_bounds__(THREADS) hits(const char* __restrict__ a, float* out, long long* cycles) {
    const char* mine = a + blockIdx.x * BYTES;
    float s = 0;
    for (int at = 0; at < BYTES; at += 128) s += *(const float*)(mine + at);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = (lane * STRIDE + warp * 64) % BYTES;
    long long begin = clock64();
    for (int i = 0; i < 64; i++) {
        #pragma unroll
        for (int u = 0; u < 8; u++) {
            TYPE v = *(const TYPE*)(mine + at);
            s += v.x;
            at = (at + STEP) & (BYTES - 1);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
    if (s == 1e30f) out[0] = s;
}"""
SECTORS = r"""
extern "C" __global__ void __launch_bounds__(256) sectors(const float* __restrict__ a, float* out, unsigned mask) {
    unsigned lane = threadIdx.x % 32, x = (blockIdx.x * 8 + threadIdx.x / 32) * 40503u + lane / TOGETHER * 7919u + 12345u;
    float s = 0;
    #pragma unroll 1
    for (int i = 0; i < TURNS; i++) {
        #pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            x = x * 1664525u + 1013904223u;
            s += a[((x >> 4) * 8u + lane % TOGETHER) & mask];
        }
    }
    if (s == 1e30f) out[0] = s;
}"""
ATOMICS = r"""
extern "C" __global__ void __launch_bounds__(1024) atomics(unsigned* g, float* out, long long* cycles) {
    __shared__ unsigned bins[1024];
    bins[threadIdx.x % 1024] = 0;
    __syncthreads();
    unsigned x = (blockIdx.x * blockDim.x + threadIdx.x) * 40503u + 12345u, got = 0;
    long long begin = clock64();
    #pragma unroll 8
    for (int i = 0; i < TURNS; i++) {
        x = x * 1664525u + 1013904223u;
        unsigned at = WHERE;
        OPERATION;
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin;
    if (got == 0x12345678u || (bins[x % 1024] == 0x12345678u && x == 77)) out[0] = got;
}"""
EMPTY = r"""
extern "C" __global__ void empty(float* out, int n) {
    if (n == -1) out[threadIdx.x] = 1;
}"""


def kernel(code: str, name: str, **words: Any) -> Any:
    """One with these macros."""
    import cupy

    return cupy.RawModule(code=code, options=("-std=c++17", *(f"-D{word}={value}" for word, value in words.items()))).get_function(name)


def timed(go: Callable[[], object], clear: Callable[[], object] | None = None) -> float:
    """Microseconds of a launch, the middle one."""
    import cupy

    times = []
    for _ in range(ROUNDS + 2):
        if clear is not None:
            clear()
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        go()
        end.record()
        end.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end))
    return median(times[2:])


def streams() -> Iterator[dict[str, Any]]:
    """Microseconds, by what a thread has under way and how many CTAs share an SM."""
    import cupy

    nbytes = 96 << 20
    a, b, y = (cupy.random.random(nbytes // 4, dtype=cupy.float32) for _ in range(3))
    out, flush = cupy.zeros(1, cupy.float32), cupy.zeros(1 << 27, cupy.uint32)
    for kind, size in (("byte", 1), ("float", 4), ("float2", 8), ("float4", 16)):
        for reads, writes in ((1, 0), (1, 1), (2, 1)):
            for unroll, loop, at_once in ((1, 0, 8), (1, 0, 4), (1, 0, 2), (2, 0, 8), (4, 0, 8), (4, 0, 2), (1, 1, 8), (1, 1, 4), (4, 1, 4), (4, 1, 2)):
                if size == 1 and (reads, writes) == (2, 1):
                    continue
                for where in ("memory", "L2") if (reads, writes) == (1, 0) else ("memory",):
                    n = nbytes // size // (1 if size > 1 else 4)
                    n = n if where == "memory" else n // 6
                    f = kernel("typedef unsigned char byte;\n" + STREAM, "stream", TYPE=kind, UNROLL=unroll, LOOP=loop, READS=reads, WRITES=writes)
                    shared = 0 if at_once == 8 else (220 << 10) // at_once - 1024
                    f.max_dynamic_shared_size_bytes = shared
                    grid = SMS * at_once if loop else n // (256 * unroll)
                    n = n // (256 * unroll) * 256 * unroll

                    def go(f: Any = f, grid: int = grid, n: int = n, shared: int = shared) -> None:
                        f((grid,), (256,), (a, b, y, out, np.int64(n)), shared_mem=shared)
                    us = timed(go, (lambda: flush.fill(1)) if where == "memory" else None)
                    yield dict(group="stream", size=size, reads=reads, writes=writes, unroll=unroll, loop=loop, at_once=at_once, where=where, n=n, grid=grid, us=us)


def hits() -> Iterator[dict[str, Any]]:
    """Cycles of an SM for a warp's load that hits the L1."""
    import cupy

    a, out, cycles = cupy.zeros(SMS << 15, cupy.uint8), cupy.zeros(1, cupy.float32), cupy.zeros(SMS, cupy.int64)
    for kind, size in (("float1", 4), ("float2", 8), ("float4", 16)):
        for stride in (0, size, 2 * size, 4 * size, 8 * size, 32, 64, 128, 136, 160, 256, 512):
            for threads in (1024, 256):
                f = kernel(HITS, "hits", TYPE=kind, STRIDE=stride, STEP=128 + 16, BYTES=32768, THREADS=threads)
                f((SMS,), (threads,), (a, out, cycles))
                f((SMS,), (threads,), (a, out, cycles))
                yield dict(group="hits", size=size, stride=stride, threads=threads, cycles=float(cycles.mean()) / (64 * 8 * threads / 32))


def sectors() -> Iterator[dict[str, Any]]:
    """Microseconds of loads from all over an array."""
    import cupy

    out, flush = cupy.zeros(1, cupy.float32), cupy.zeros(1 << 27, cupy.uint32)
    for log, cold in ((22, False), (26, True), (28, True)):
        a = cupy.zeros(1 << log, cupy.float32)
        for together in (1, 8, 32):
            for unroll, turns, shared in ((1, 8, 0), (8, 1, 0), (1, 1, 0), (1, 1, 100 << 10)):
                f = kernel(SECTORS, "sectors", TOGETHER=together, UNROLL=unroll, TURNS=turns)
                f.max_dynamic_shared_size_bytes = shared
                grid = SMS * 8 * (16 if unroll * turns > 1 else 128)
                mask = np.uint32((1 << log) - 1)
                us = timed(lambda f=f, grid=grid, mask=mask, shared=shared, a=a: f((grid,), (256,), (a, out, mask), shared_mem=shared),  # type: ignore[misc]
                           (lambda: flush.fill(1)) if cold else None)
                yield dict(group="sectors", log=log, together=together, unroll=unroll, turns=turns, shared=shared, grid=grid, us=us)


def launches() -> Iterator[dict[str, Any]]:
    """Cycles of an SM for a CTA that does nothing."""
    import cupy

    out, f = cupy.zeros(1, cupy.float32), kernel(EMPTY, "empty")
    for threads in (32, 64, 128, 256, 512, 1024):
        for shared in (0, 100 << 10):
            f.max_dynamic_shared_size_bytes = shared
            few, many = (timed(lambda threads=threads, shared=shared, grid=grid: f((grid,), (threads,), (out, np.int32(0)), shared_mem=shared))  # type: ignore[misc]
                         for grid in (SMS * 100, SMS * 500))
            yield dict(group="launches", threads=threads, shared=shared, us=(many - few) / 400, few=few)


def atomics() -> Iterator[dict[str, Any]]:
    """Cycles of an SM for a warp's atomic."""
    import cupy

    g, out, cycles = cupy.zeros(1 << 24, cupy.uint32), cupy.zeros(1, cupy.float32), cupy.zeros(SMS * 8, cupy.int64)
    places = {"one": "0", "each lane's": "threadIdx.x % 32", "pairs": "threadIdx.x / 2 % 16", "eights": "threadIdx.x / 8 % 4", "one bank": "threadIdx.x % 32 * 32 % 1024",
              "256 at random": "(x >> 8) % 256", "1024 at random": "(x >> 8) % 1024"}
    works = {"red": "atomicAdd(bins + at, 1u)", "atom": "got += atomicAdd(bins + at, 1u)", "max": "atomicMax(bins + at, x)",
             "float": "atomicAdd((float*)bins + at, 1.0f)", "cas": "got += atomicCAS(bins + at, x, got)"}
    for work, text in works.items():
        for where, place in places.items():
            f = kernel(ATOMICS, "atomics", WHERE=place, OPERATION=text, TURNS=512)
            f((SMS,), (1024,), (g, out, cycles))
            f((SMS,), (1024,), (g, out, cycles))
            yield dict(group="shared atomics", work=work, where=where, cycles=float(cycles[:SMS].mean()) / (512 * 32))
    far = {"one": "0", "a warp's": "(blockIdx.x * 8 + threadIdx.x / 32) * 32 + threadIdx.x % 32", "4 KiB at random": "(x >> 8) % 1024",
           "4 MiB at random": "(x >> 8) % (1 << 20)", "64 MiB at random": "x >> 8", "128 KiB, in order": "(threadIdx.x + i * 256) % (1 << 15)"}
    works = {"red": "atomicAdd(g + at, 1u)", "float": "atomicAdd((float*)g + at, 1.0f)", "atom": "got += atomicAdd(g + at, 1u)"}
    for work, text in works.items():
        for where, place in far.items():
            f = kernel(ATOMICS, "atomics", WHERE=place, OPERATION=text, TURNS=16)
            us = timed(lambda f=f: f((SMS * 8,), (256,), (g, out, cycles)))  # type: ignore[misc]
            yield dict(group="global atomics", work=work, where=where, us=us, cycles=float(cycles.mean()) / (16 * 8 * 8))


def main() -> None:
    """Print all, and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    command.require_gpu("benchmarks.lanes")
    found = []
    for group in (launches, hits, atomics, sectors, streams):
        for row in group():
            found.append(row)
            print(" ".join(f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}" for name, value in row.items()), flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(found))
    print(f"{len(found)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
