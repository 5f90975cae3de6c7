# SPDX-License-Identifier: Apache-2.0
"""What a Hopper GPU does where the PTX ISA is silent or nobody looks: reads before a refill, bulk copies by a whole warp, copies of no bytes, maps that began as zeros.

    python -m tests.gpu.proxy_facts            # from the root of the repository, on a Hopper GPU: about 40 s, most of them starts of child processes

It prints a table of each. Experiments that may end a launch run in a child process: a failed launch takes its context with it.
test_proxy_facts_on_gpu.py holds what the emulator follows.
"""
from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

import hopperlab as hl
from hopperlab.measure.machine import command

# --- reads by ordinary loads, then a refill ---------------------------------------------------------------------------------
RING = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/tma.cuh>
constexpr int ROUNDS = 8, TILE = WARPS * 32 * 16 * ROUNDS;      // bytes
// Warp 0 fills slots, WARPS warps read them: a lane reads ROUNDS pieces of 16 bytes and hands the slot back at once, before it has used
// what it read. Every word of tile t is t, so a value of a later tile is a read that came after the refill.
// FENCE: 0 none, 1 every reading lane before its arrival, 2 one lane of each warp behind a __syncwarp(), 3 the producer behind its wait.
extern "C" __global__ void __launch_bounds__(32 + 32 * WARPS) reuse(const uint4* x, unsigned long long* wrong, int passes, int tiles) {
    extern __shared__ __align__(128) uint4 slots[];
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], FENCE == 2 ? WARPS : 32 * WARPS); }
    __syncthreads();
    Ring<STAGES> ring;
    if (threadIdx.x < 32) {
        if (threadIdx.x) return;
        for (int i = 0; i < passes; i++) {
            mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
            if (FENCE == 3) fence_proxy_async_shared_cta();
            mbarrier_arrive_expect_tx(&full[ring.slot], TILE);
            int tile = (blockIdx.x + i * gridDim.x) % tiles;
            cp_async_bulk_load(slots + ring.slot * (TILE / 16), x + (long long)tile * (TILE / 16), TILE, &full[ring.slot]);
            ring.advance();
        }
        return;
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - 1, bad = 0;
    for (int i = 0; i < passes; i++) {
        unsigned tile = (blockIdx.x + i * gridDim.x) % tiles, v[ROUNDS][4];
        mbarrier_wait_parity(&full[ring.slot], ring.phase);
        unsigned from = shared_address(slots + ring.slot * (TILE / 16) + warp * 32 * ROUNDS);
        #pragma unroll
        for (int k = 0; k < ROUNDS; k++)                         // CONFLICTS: all lanes in the same banks, so that the reads take long
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[k][0]), "=r"(v[k][1]), "=r"(v[k][2]), "=r"(v[k][3])
                         : "r"(from + 16 * (CONFLICTS ? lane * ROUNDS + k : k * 32 + lane)) : "memory");
        if (FENCE == 1) fence_proxy_async_shared_cta();
        if (FENCE == 2) { __syncwarp(); if (lane == 0) { fence_proxy_async_shared_cta(); mbarrier_arrive(&empty[ring.slot]); } }
        else mbarrier_arrive(&empty[ring.slot]);
        #pragma unroll
        for (int k = 0; k < ROUNDS; k++)
            for (int j = 0; j < 4; j++) bad += v[k][j] != tile;
        ring.advance();
    }
    if (bad) atomicAdd(wrong, (unsigned long long)bad);
}"""
FENCES = ("none", "every reader", "a lane a warp", "the issuer")
SHAPES = {                      # name: warps, stages, conflicts, CTAs per SM, tiles, passes
    "one slot, 8 warps, L2, bank conflicts": (8, 1, 1, 1, 256, 4000),
    "one slot, 1 warp, L2": (1, 1, 0, 4, 1024, 8000),
    "4 slots, 4 warps, L2": (4, 4, 0, 2, 1024, 8000),
    "4 slots, 4 warps, HBM": (4, 4, 0, 2, 1 << 16, 3000),
}


def reuse(cupy) -> list[dict]:
    """A record for each shape and fence: ns a pass (median, least and most of 7), values of a later tile, words read."""
    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    records = []
    for shape, (warps, stages, conflicts, ctas, tiles, passes) in SHAPES.items():
        tile = warps * 32 * 16 * 8
        x = cupy.repeat(cupy.arange(tiles, dtype=np.uint32), tile // 4)
        runs = {}
        for fence in range(4):
            options = tuple(f"-D{k}={v}" for k, v in dict(WARPS=warps, STAGES=stages, CONFLICTS=conflicts, FENCE=fence).items())
            kernel = hl.RawModule(code=RING, options=options, backend="gpu").get_function("reuse")
            if tile * stages > 48 << 10:
                kernel.max_dynamic_shared_size_bytes = tile * stages
            runs[fence] = (kernel, cupy.zeros(1, np.uint64), [])
        for round_ in range(8):                                     # interleaved; the first round warms up
            for kernel, wrong, times in runs.values():
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                begin.record()
                kernel((sms * ctas,), (32 + 32 * warps,), (x, wrong, np.int32(passes), np.int32(tiles)), shared_mem=tile * stages)
                end.record()
                end.synchronize()
                if round_:
                    times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e6 / passes)
        for fence, (_, wrong, times) in runs.items():
            records.append({"shape": shape, "fence": FENCES[fence], "ns": float(np.median(times)), "least": min(times), "most": max(times),
                            "later": int(wrong.get()[0]), "words": 8 * passes * sms * ctas * tile // 4})
    return records


# --- copies by a whole warp -------------------------------------------------------------------------------------------------
WARP = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
// Every lane issues; UNIFORM: with equal operands. The kernel counts, or leaves for the host to see, how often it happened.
extern "C" __global__ void __launch_bounds__(32) loads(const __grid_constant__ TensorMap map, const float* x, int* copies) {
    __shared__ __align__(128) float s[32 * 64];
    __shared__ mbarrier_t full;
    int place = UNIFORM ? 0 : threadIdx.x;
    if (threadIdx.x == 0) { mbarrier_init(&full, 1); mbarrier_arrive_expect_tx(&full, 32 * 256); }
    __syncwarp();
    if (TENSOR) cp_async_bulk_tensor_2d_load(s + 64 * place, &map, &full, 0, 8 * place);
    else cp_async_bulk_load(s + 64 * place, x + 64 * place, 256, &full);
    long long start = clock64();
    bool all = false;
    while (!all && clock64() - start < 20000000) all = mbarrier_test_wait_parity(&full, 0);
    if (threadIdx.x == 0) {
        if (!all) {                                             // how many bytes are missing? Bring them by hand, one copy's after the other
            int missing = 0;
            while (!mbarrier_test_wait_parity(&full, 0) && missing < 32) { mbarrier_complete_tx(&full, 256); missing++; }
            copies[0] = 32 - missing;
        } else copies[0] = 32;
    }
}
extern "C" __global__ void __launch_bounds__(32) stores(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(128) float s[32 * 64];
    for (int i = threadIdx.x; i < 32 * 64; i += 32) s[i] = 1 + i;
    fence_proxy_async_shared_cta();
    __syncwarp();
    int place = UNIFORM ? 0 : threadIdx.x;
    if (TENSOR) cp_async_bulk_tensor_2d_store(&map, s + 64 * place, 0, 8 * place);
    else cp_async_bulk_store(y + 64 * place, s + 64 * place, 256);
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();
}"""


def whole_warp(cupy) -> list[dict]:
    """For loads and stores, plain and tensor, with equal and other operands a lane: how often it happened."""
    records = []
    for tensor in (0, 1):
        for uniform in (1, 0):
            module = hl.RawModule(code=WARP, options=(f"-DTENSOR={tensor}", f"-DUNIFORM={uniform}"), backend="gpu")
            x, copies = cupy.arange(1, 2049, dtype=np.float32).reshape(256, 8), cupy.zeros(1, np.int32)
            module.get_function("loads")((1,), (32,), (hl.TensorMap.tiled(x, box=(8, 8)), x, copies))
            y = cupy.zeros((256, 8), np.float32)
            module.get_function("stores")((1,), (32,), (hl.TensorMap.tiled(y, box=(8, 8)), y))
            written = int((cupy.asnumpy(y).reshape(32, 64) == np.arange(1, 2049).reshape(32, 64)).all(axis=1).sum())
            records.append({"kind": "tensor" if tensor else "bulk", "operands": "equal" if uniform else "different",
                            "loads": int(copies.get()[0]), "tiles stored": written})
    return records


# --- copies of no bytes, and maps that began as zeros: each in a child ------------------------------------------------------------
NOTHING = r"""
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void __launch_bounds__(32) nothing(const float* x, float* y, int bytes) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    s[threadIdx.x] = 5;
    fence_proxy_async_shared_cta();
    __syncwarp();
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, bytes + 16);
        cp_async_bulk_load(s, x, bytes, &full);
        cp_async_bulk_load(s + 32, x, 16, &full);
        mbarrier_wait_parity(&full, 0);
        cp_async_bulk_store(y, s, bytes);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
        y[8] = s[0];
    }
}"""
FIELDS = {
    "global_address": "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;",
    "rank": "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;",
    "box_dim 0": "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, 8;",
    "box_dim 1": "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, 8;",
    "global_dim 0": "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, 16;",
    "global_dim 1": "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, 16;",
    "global_stride 0": "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, 64;",
    "element_stride 0": "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;",
    "element_stride 1": "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;",
    "elemtype": "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;",
    "interleave_layout": "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;",
    "swizzle_mode": "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 0;",
    "fill_mode": "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;",
}


def built(without: str = "") -> str:
    """A kernel that makes a map of a 16 x 16 float matrix out of zeros, leaves one field out, loads its box at (4, 4) and writes it to y."""
    lines = "\n        ".join(f'asm volatile("{text}" :: "r"(m), "l"(x) : "memory");' for name, text in FIELDS.items() if name != without)
    return r"""
#include <hopperlab/tensormap.cuh>
extern "C" __global__ void __launch_bounds__(32) built(const float* x, TensorMap* global, float* y) {
    __shared__ __align__(128) TensorMap map;
    __shared__ __align__(128) float tile[64];
    __shared__ mbarrier_t full;
    if (threadIdx.x < 16) map.words[threadIdx.x] = 0;
    tile[threadIdx.x] = tile[threadIdx.x + 32] = -1;
    unsigned m = shared_address(&map);
    __syncwarp();
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        """ + lines + r"""
    }
    __syncwarp();
    tensormap_cp_fenceproxy(global, &map);
    fence_proxy_tensormap_acquire(global);
    if (threadIdx.x == 0) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        mbarrier_arrive_expect_tx(&full, 256);
        cp_async_bulk_tensor_2d_load(tile, global, &full, 4, 4);
    }
    __syncwarp();
    long long start = clock64();
    while (!mbarrier_test_wait_parity(&full, 0) && clock64() - start < 100000000) {}
    y[threadIdx.x] = tile[threadIdx.x], y[threadIdx.x + 32] = tile[threadIdx.x + 32];
}"""


def child(which: str) -> str:
    """Run one experiment in this process and say what came out."""
    import cupy
    if which.startswith("nothing"):
        x, y = cupy.arange(64, dtype=np.float32), cupy.zeros(64, np.float32)
        hl.RawModule(code=NOTHING, backend="gpu").get_function("nothing")((1,), (32,), (x, y, np.int32(0)))
        got = cupy.asnumpy(y)
        return "copies nothing and goes on" if not got[:8].any() and got[8] == 5 else f"wrote {got[:9].tolist()}"
    x, maps, y = cupy.arange(256, dtype=np.float32).reshape(16, 16), cupy.zeros(128, np.uint8), cupy.zeros((8, 8), np.float32)
    hl.RawModule(code=built(which), backend="gpu").get_function("built")((1,), (32,), (x, maps, y))
    got = cupy.asnumpy(y)
    if (got == np.arange(256).reshape(16, 16)[4:12, 4:12]).all():
        return "the right tile"
    return "nothing arrived" if (got == -1).all() else f"another tile: {got.ravel()[:10].tolist()} ..."


def in_child(which: str) -> str:
    """The same in a process of its own, which may fail."""
    try:
        done = subprocess.run([sys.executable, __file__, "child", which], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "hangs"
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else "launch fails: " + (done.stderr.strip().splitlines() or ["?"])[-1][:100]


# --- tables -----------------------------------------------------------------------------------------------------------------
def main() -> None:
    """All experiments, as tables."""
    command.begin(__doc__, "tests.gpu.proxy_facts")
    import cupy
    print("GPU:", cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    print(f"\nreads, then a refill\n{'ring':40s} {'fence by':16s} {'ns a pass (least to most)':28s} later values of words read")
    for r in reuse(cupy):
        times = f"{r['ns']:.1f} ({r['least']:.1f} to {r['most']:.1f})"
        print(f"{r['shape']:40s} {r['fence']:16s} {times:28s} {r['later']} of {r['words']:.1e}")
    print(f"\ncopies by a warp of 32 lanes\n{'kind':8s} {'operands':10s} {'loads that happened':20s} tiles stored")
    for r in whole_warp(cupy):
        print(f"{r['kind']:8s} {r['operands']:10s} {r['loads']:<20d} {r['tiles stored']}")
    print("\na bulk copy of 0 bytes:", in_child("nothing"))
    print("\na tensor map that began as 128 zero bytes")
    for name in ("", *FIELDS):
        print(f"  {'without ' + name if name else 'every field set':28s} {in_child(name)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(child(sys.argv[2] if len(sys.argv) > 2 else "")))
    else:
        main()
