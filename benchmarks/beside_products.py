# SPDX-License-Identifier: Apache-2.0
"""How much slower instructions are while the tensor core multiplies: warps run one kind of them, alone and beside a warpgroup that multiplies without a pause. What
constants of the estimated clock are read from (estimates/boards.py: alu_held, special_held, narrow_cycles). Needs a Hopper GPU with CuPy, half a minute.

    python -m benchmarks.beside_products

Cycles of a scheduler for an instruction of a warp, two warps on each scheduler, on an H200 and an H100 alike (driver 580.159), alone and beside products:

    instruction                    alone   m64n128k16 bf16   A in registers   m64n64k16   m64n256k16   m64n128k32 e4m3
    ex2.approx                      7.8         10.5              11.9           10.4         10.4          10.5
    max, on floats                  2.0          4.0               4.1            3.9          3.9           4.0
    cvt to bf16x2                   2.0          4.1               4.4            4.0          4.0           4.1
    cvt to e4m3x2                   4.1          8.0
    lop3                            2.3          4.4
    fma, add, on floats             1.0          1.0

So the pipe of half the lanes is half as fast while the tensor core works, whatever it multiplies; exponentials take a third longer, half as long again where A comes from
registers; float arithmetic takes as long as ever. The sums that products add to are read and written in registers all the time.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import hopperlab as hl
from hopperlab.measure.machine import command

SMS, EACH = 132, 32                             # instructions of a pass
INSTRUCTIONS = {                                # what a pass does with x[i] and its neighbour, each as PTX
    "ex2.approx.ftz.f32": 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i]))',
    "cvt.rn.bf16x2.f32": 'asm volatile("{.reg .b32 p; cvt.rn.bf16x2.f32 p, %0, %1; mov.b32 %0, p;}" : "+f"(x[i]) : "f"(x[(i + EACH / 2) % EACH]))',
    "cvt.rn.satfinite.e4m3x2.f32":
        'asm volatile("{.reg .b16 p; .reg .b32 r; cvt.rn.satfinite.e4m3x2.f32 p, %0, %1; mov.b32 r, {p, p}; mov.b32 %0, r;}" '
        ': "+f"(x[i]) : "f"(x[(i + EACH / 2) % EACH]))',
    "max.f32": 'asm volatile("max.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(other))',
    "fma.rn.f32": 'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i]) : "f"(other))',
    "add.f32": 'asm volatile("add.f32 %0, %0, %1;" : "+f"(x[i]) : "f"(other))',
    "lop3.b32": 'asm volatile("{.reg .b32 p; mov.b32 p, %0; lop3.b32 p, p, %1, 7, 0x96; mov.b32 %0, p;}" : "+f"(x[i]) : "r"(pass))',
}
PRODUCTS = {"m64n64k16 bf16": (64, 0, 0), "m64n128k16 bf16": (128, 0, 0), "m64n128k16 bf16, A in registers": (128, 0, 1), "m64n256k16 bf16": (256, 0, 0),
            "m64n128k32 e4m3": (128, 3, 0)}
SOURCE = r"""
#include <hopperlab/clock.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/wgmma_operands.cuh>
#define QUOTED(x) #x
#define QUOTE(x) QUOTED(x)
#if INPUT == 3
#define KINDS "k32.f32.e4m3.e4m3"
#define TAIL ", 1, 1"
#else
#define KINDS "k16.f32.bf16.bf16"
#if A_SOURCE
#define TAIL ", 1, 1, 0"
#else
#define TAIL ", 1, 1, 0, 0"
#endif
#endif
#if N == 64
#define COUNT 32
#elif N == 128
#define COUNT 64
#else
#define COUNT 128
#endif
#define INSTANCE(MACRO, REGISTERS) MACRO(multiply, REGISTERS, float, "m64n" QUOTE(N) KINDS, TAIL)
#if A_SOURCE
INSTANCE(WGMMA_RS, COUNT)
#else
INSTANCE(WGMMA_SS, COUNT)
#endif

// out: cycles of each warp's passes, from warp 4 on; warps 0 to 3 multiply `products` times four, or not at all.
extern "C" __global__ void __launch_bounds__(384) beside(long long* out, float* results, int passes, int products, float other) {
    extern __shared__ __align__(1024) unsigned char shared[];                // A: 64 rows of 128 bytes, B: 256
    for (int i = threadIdx.x; i < 49152 / 4; i += blockDim.x) reinterpret_cast<unsigned*>(shared)[i] = 0x38003800 + i % 7;
    fence_proxy_async_shared_cta();
    __syncthreads();
    float sum = 0;
    if (threadIdx.x < 128) {
        unsigned a_tile = shared_address(shared), b_tile = a_tile + 16384;
        float d[COUNT] = {};
#if A_SOURCE
        unsigned a[4] = {0x38003800u + threadIdx.x % 5, 0x38013800u, 0x38003801u, 0x38023800u};
#else
        unsigned long long a = wgmma_descriptor_k_major<128>(a_tile);
#endif
        wgmma_fence();
        for (int i = 0; i < products; i++) {
            #pragma unroll
            for (int step = 0; step < 4; step++) {
                multiply(d, a, wgmma_descriptor_k_major<128>(b_tile + step * 32), true);
                wgmma_commit_group();
                wgmma_wait_group<3>();
            }
        }
        wgmma_wait_group<0>();
        #pragma unroll
        for (int i = 0; i < COUNT; i++) sum += d[i];
    } else {
        float x[EACH];
        #pragma unroll
        for (int i = 0; i < EACH; i++) x[i] = other * (threadIdx.x + i);
        long long start = clock_cycles();
        for (int pass = 0; pass < passes; pass++) {
            #pragma unroll
            for (int i = 0; i < EACH; i++) INSTRUCTION;
        }
        long long done = clock_cycles();
        #pragma unroll
        for (int i = 0; i < EACH; i++) sum += x[i];
        if (blockIdx.x == 0 && threadIdx.x % 32 == 0) out[threadIdx.x / 32] = done - start;
    }
    results[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@dataclass(frozen=True)
class Beside:
    """One kind of instruction beside one kind of product. warps: that each scheduler has to run it; cycles: of a scheduler for one instruction, on average."""

    instruction: str
    product: str
    warps: int
    alone: float
    beside: float


def measured(backend: str = "gpu", passes: int = 400, products: int = 4000, sms: int = SMS, wanted: Any = tuple(PRODUCTS)) -> Iterator[Beside]:
    """Every instruction beside the second product, and the first ones beside the others; each with one and two warps a scheduler."""
    xp: Any = np
    if backend == "gpu":
        import cupy as xp
    for number, product in enumerate(wanted):
        n, kind, source = PRODUCTS[product]
        for name, text in INSTRUCTIONS.items():
            if number != 1 and name not in ("ex2.approx.ftz.f32", "max.f32", "cvt.rn.bf16x2.f32"):
                continue
            options = (f"-DN={n}", f"-DINPUT={kind}", f"-DA_SOURCE={source}", f"-DEACH={EACH}")
            kernel = hl.RawModule(code=SOURCE.replace("INSTRUCTION;", text + ";"), options=options, backend=backend).get_function("beside")
            for warps in (1, 2):
                block, took = 128 * (warps + 1), []
                for times in (0, products):
                    out, results = xp.zeros(block // 32, xp.int64), xp.zeros(sms * block, xp.float32)
                    kernel((sms,), (block,), (out, results, np.int32(passes), np.int32(times), np.float32(0.75)), shared_mem=49152)
                    took.append(float(out[4:].mean()) / passes / EACH / warps)
                yield Beside(name, product, warps, *took)


def main() -> None:
    """Measure and print."""
    command.begin(__doc__, "benchmarks.beside_products")
    for one in measured():
        print(f"{one.instruction:28} {one.warps} warps a scheduler: {one.alone:5.2f} cycles each, {one.beside:5.2f} beside {one.product} "
              f"({one.beside / one.alone:.2f} times)", flush=True)


if __name__ == "__main__":
    main()
