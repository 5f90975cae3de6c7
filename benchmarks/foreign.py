# SPDX-License-Identifier: Apache-2.0
"""How fast the emulator is on code as others write it: `python -m benchmarks.foreign [--rounds N] [--json FILE] [--only NAME]`.

Random-number fills and element-wise kernels with long integer loops, layout arithmetic by division, unoptimised code, and a thousand live registers;
132 CTAs of 128 threads where nothing else is said, hazards on, caches warm. Every result is checked before it is timed.
"""
from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np

from hopperlab.runtime.tables import text_table

ROW = "{:30} {:7.3f} s {:>15} {:17,.0f}"
CTAS, THREADS = 132, 128
TOTAL = CTAS * THREADS
M32 = np.uint64(0xFFFFFFFF)

PHILOX = r"""
__device__ __forceinline__ uint4 rounds(uint4 c, uint2 k) {
    #pragma unroll
    for (int r = 0; r < 10; r++) {
        unsigned hi0 = __umulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x, hi1 = __umulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
        c = make_uint4(hi1 ^ c.y ^ k.x, lo1, hi0 ^ c.w ^ k.y, lo0);
        k.x += 0x9E3779B9u; k.y += 0xBB67AE85u;
    }
    return c;
}
extern "C" __global__ void fill(float* out, unsigned seed, int n) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < n; i++) {
        uint4 v = rounds(make_uint4(i, 0, id, 0), make_uint2(seed, 0));
        sum += (v.x >> 8) * 0x1p-24f + (v.y >> 8) * 0x1p-24f + (v.z >> 8) * 0x1p-24f + (v.w >> 8) * 0x1p-24f;
    }
    out[id] = sum;
}"""

# A generator of xorshift kind that is moved ahead by its thread's number: matrices over bits, one row after the other.
SKIP = r"""
extern "C" __global__ void skip(unsigned* out, const unsigned* matrix, int powers) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v[5] = {id * 1099087573u ^ 123456789u, 362436069u, 521288629u, 88675123u, 5783321u};
    unsigned left = id;
    for (int p = 0; p < powers && left; p++, left >>= 1) {
        if (!(left & 1)) continue;
        unsigned r[5] = {0, 0, 0, 0, 0};
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 32; j++)
                if (v[i] & (1u << j))
                    for (int k = 0; k < 5; k++) r[k] ^= matrix[(p * 160 + i * 32 + j) * 5 + k];
        for (int k = 0; k < 5; k++) v[k] = r[k];
    }
    for (int k = 0; k < 5; k++) out[id * 5 + k] = v[k];
}"""

HASH = r"""
extern "C" __global__ void hash(unsigned* data, int n) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x, h = data[id] ^ 0x811c9dc5u;
    for (int i = 0; i < n; i++) {
        h ^= h << 13; h ^= h >> 17; h ^= h << 5;
        h = (h & 1) ? h * 0x01000193u + i : (h >> 3 | h << 29) - i;
        h = min(h, ~h) ^ (unsigned)(((unsigned long long)h * 0x9E3779B97F4A7C15ull) >> 40);
    }
    data[id] = h;
}"""

LAYOUT = r"""
__device__ __forceinline__ int place(int i, int s0, int s1, int s2, int d0, int d1, int d2, int d3) {
    int a = i % s0, b = i / s0 % s1, c = i / (s0 * s1) % s2, d = i / (s0 * s1 * s2);
    return a * d0 + b * d1 + c * d2 + d * d3;
}
extern "C" __global__ void layout(const float* in, float* out, int n, int s0, int s1, int s2) {
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    int total = gridDim.x * blockDim.x;
    for (int k = 0; k < n; k++) {
        int i = k * total + t;
        int from = place(i, s0, s1, s2, 1, s0, s0 * s1, s0 * s1 * s2), to = place(i, s1, s0, s2, s2 * s0, s2, 1, s0 * s1 * s2);
        int swizzled = (to & ~31) | ((to ^ (to >> 5)) & 31);
        out[swizzled] = in[from] + 1.0f;
    }
}"""

PLAIN = r"""
__device__ float weigh(const float* w, int i, float x) { float total = 0; for (int k = 0; k < 8; k++) total += w[(i + k) & 7] * x; return total; }
extern "C" __global__ void plain(float* y, const float* x, int n) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    float w[8]; for (int k = 0; k < 8; k++) w[k] = k * 0.125f;
    float total = 0;
    for (int i = 0; i < n; i++) total += weigh(w, i, x[id]);
    y[id] = total;
}"""

LIVE = r"""
extern "C" __global__ void live(float* y, const float* x, int n) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    float v[1000];
    #pragma unroll
    for (int k = 0; k < 1000; k++) v[k] = x[(id + k) & 16383];
    for (int i = 0; i < n; i++) {
        #pragma unroll
        for (int k = 0; k < 1000; k++) v[k] = v[k] * 0.5f + v[(k + 1) % 1000];
        if (v[id % 3] > 1e30f) break;
    }
    float total = 0;
    #pragma unroll
    for (int k = 0; k < 1000; k++) total += v[k];
    y[id] = total;
}"""


def _kernel(source: str, name: str, options: tuple[str, ...] = ()):
    import hopperlab as hl
    return hl.RawModule(code=source, backend="emulator", options=options).get_function(name)


def _launch(kernel, args, ctas: int = CTAS):
    import hopperlab as hl
    with hl.emulate(hazards="raise") as session:
        kernel((ctas,), (THREADS,), args)
    return session


def _philox(i: np.ndarray, ids: np.ndarray, seed: int) -> list[np.ndarray]:
    c = [np.full(len(ids), i, np.uint64), np.zeros(len(ids), np.uint64), ids.astype(np.uint64), np.zeros(len(ids), np.uint64)]
    k = [seed, 0]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(second >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), second & M32, (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), first & M32]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def philox():
    """A fill of random numbers: 40 counters a thread, ten rounds each."""
    kernel, out, count = _kernel(PHILOX, "fill"), np.zeros(TOTAL, np.float32), 40

    def launch():
        return _launch(kernel, (out, np.uint32(7), np.int32(count)))
    launch()
    want = sum((v >> np.uint64(8)).astype(np.float64) for i in range(count) for v in _philox(i, np.arange(TOTAL), 7)) * 2.0**-24
    return launch, bool(np.allclose(out, want, rtol=1e-5))


def skip_ahead():
    """Generators moved ahead by their thread's number."""
    kernel, powers = _kernel(SKIP, "skip"), 15
    matrix = np.random.default_rng(3).integers(0, 1 << 32, (powers * 160, 5), dtype=np.uint32)
    ids = np.arange(TOTAL, dtype=np.uint32)
    v = np.stack([ids * np.uint32(1099087573) ^ np.uint32(123456789), *(np.full(TOTAL, c, np.uint32) for c in (362436069, 521288629, 88675123, 5783321))], axis=1)
    for p in range(powers):
        bits = (v[:, :, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool).reshape(TOTAL, 160)
        moved = np.zeros_like(v)
        for row in range(160):
            moved ^= np.where(bits[:, row, None], matrix[p * 160 + row], np.uint32(0))
        v = np.where((ids >> np.uint32(p) & 1).astype(bool)[:, None], moved, v)
    out = np.zeros((TOTAL, 5), np.uint32)

    def launch():
        return _launch(kernel, (out, matrix, np.int32(powers)))
    launch()
    return launch, bool((out == v).all())


def hashes():
    """An element-wise kernel with a long loop of shifts, products and a condition."""
    kernel, count = _kernel(HASH, "hash"), 300
    start = np.random.default_rng(4).integers(0, 1 << 32, TOTAL, dtype=np.uint32)
    h = start ^ np.uint32(0x811C9DC5)
    for i in range(count):
        h ^= h << np.uint32(13)
        h ^= h >> np.uint32(17)
        h ^= h << np.uint32(5)
        h = np.where(h & np.uint32(1), h * np.uint32(0x01000193) + np.uint32(i), (h >> np.uint32(3) | h << np.uint32(29)) - np.uint32(i))
        h = np.minimum(h, ~h) ^ (h.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).astype(np.uint32)
    data = np.empty_like(start)

    def launch():
        data[:] = start
        return _launch(kernel, (data, np.int32(count)))
    launch()
    return launch, bool((data == h).all())


def layout():
    """Indices through division and remainder by numbers that the compiler does not know, as layouts of any shape need them."""
    kernel, count, sides = _kernel(LAYOUT, "layout"), 40, (24, 16, 11)
    size = TOTAL * count
    data, out = np.random.default_rng(5).standard_normal(size).astype(np.float32), np.zeros(size, np.float32)
    i, (s0, s1, s2) = np.arange(size), sides
    to = i % s1 * (s2 * s0) + i // s1 % s0 * s2 + i // (s1 * s0) % s2 + i // (s0 * s1 * s2) * (s0 * s1 * s2)
    want = np.zeros_like(out)
    want[(to & ~31) | ((to ^ to >> 5) & 31)] = data + 1

    def launch():
        return _launch(kernel, (data, out, np.int32(count), *map(np.int32, sides)))
    launch()
    return launch, bool((out == want).all())


def plain():
    """Unoptimised code: every variable lies in local memory, nothing is inlined or unrolled."""
    kernel, count = _kernel(PLAIN, "plain", ("-G",)), 24
    x, y = np.random.default_rng(6).standard_normal(TOTAL).astype(np.float32), np.zeros(TOTAL, np.float32)

    def launch():
        return _launch(kernel, (y, x, np.int32(count)))
    launch()
    return launch, bool(np.allclose(y, x * 0.125 * 28 * count, rtol=1e-4))


def live():
    """A thousand registers that live through a loop."""
    kernel, count = _kernel(LIVE, "live"), 8
    x, y = np.random.default_rng(7).standard_normal(16384).astype(np.float32), np.zeros(TOTAL, np.float32)
    v = [x[(np.arange(TOTAL) + k) & 16383] for k in range(1000)]
    for _ in range(count):
        for k in range(1000):
            v[k] = v[k] * np.float32(0.5) + v[(k + 1) % 1000]
    want = sum(a.astype(np.float64) for a in v)

    def launch():
        return _launch(kernel, (y, x, np.int32(count)))
    launch()
    return launch, bool(np.allclose(y, want, rtol=1e-3, atol=1e-2))


CASES = {"random-number fill (Philox)": philox, "generators moved ahead": skip_ahead, "element-wise hash loop": hashes, "layouts by division": layout,
         "unoptimised code": plain, "1,000 live registers": live}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmarks and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.foreign", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each case (default 5)")
    parser.add_argument("--only", metavar="WORD", default="", help="cases whose name contains this")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args(arguments)
    rows = []
    print(*text_table(ROW, [], ("case", "median", "range", "PTX warp instr/s")))
    for name, make in CASES.items():
        if options.only not in name:
            continue
        launch, right = make()
        if not right:
            raise SystemExit(f"{name}: wrong values; nothing was timed")
        times, count = [], 0
        for _ in range(options.rounds):
            start = time.perf_counter()
            session = launch()
            times.append(time.perf_counter() - start)
            count = session.counters["warp_instructions"]
        median = statistics.median(times)
        rows.append({"case": name, "seconds": median, "least": min(times), "most": max(times), "warp_instructions_per_second": count / median})
        print(*text_table(ROW, [(name, median, f"{min(times):.3f}-{max(times):.3f}", count / median)]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
