# SPDX-License-Identifier: Apache-2.0
"""Claims 33 to 43: pipelines, roles, registers, distributed shared memory, and what other systems do. Each function settles one from Data."""
from __future__ import annotations

from ...runtime.compile.assembles import assembles
from ...runtime.errors import ToolchainError
from .claim import FALSE, HOLDS, Claim, Data, Finding, when

SIZE = (4096, 4096, 4096)


def _two_by_two(data: Data) -> Finding:
    cell = {(copy, mul): data.value("variants", kernel, f"copy={copy}", f"multiply={mul}", "STAGES=3", "blocks_per_sm=2")
            for kernel, copy, mul in (("cp_async_mma", "cp.async", "mma.sync"), ("tma_mma", "TMA", "mma.sync"), ("cp_async_wgmma", "cp.async", "wgmma"),
                                      ("multistage", "TMA", "wgmma"))}
    base = cell["cp.async", "mma.sync"]
    copies, products, both = cell["TMA", "mma.sync"] / base, cell["cp.async", "wgmma"] / base, cell["TMA", "wgmma"] / base
    more = both / (copies * products)
    return Finding(f"equal tiles at 8192³: TMA alone {copies:.2f} times, wgmma alone {products:.2f} times, both {both:.2f} times: {more:.2f} times the "
                   f"product of the parts",
                   HOLDS if products > copies and more > 1 else FALSE if both < 1
                   else when(f"{'wgmma' if products > copies else 'TMA'} is meant to win; the sum is no more than its parts"))


BY_BARRIER = """
#include <cooperative_groups.h>
#include <cuda/barrier>
extern "C" __global__ void by_barrier(const float4* x, float4* y) {
    __shared__ alignas(16) float4 tile[128];
    __shared__ cuda::barrier<cuda::thread_scope_block> full;
    if (threadIdx.x == 0) init(&full, 128);
    __syncthreads();
    cuda::memcpy_async(cooperative_groups::this_thread_block(), tile, x, cuda::aligned_size_t<16>(sizeof(tile)), full);
    full.arrive_and_wait();
    y[threadIdx.x] = tile[threadIdx.x ^ 32];
}"""
"""One tile by cuda::memcpy_async on a cuda::barrier, with the promise of 16-byte alignment."""


def _copies_in(code: str, name: str) -> tuple[int, int]:
    """(cp.async, cp.async.bulk) in the PTX of a source."""
    import re

    from ...runtime.compile.nvrtc import Source, compile_source
    text = compile_source(Source(code, name)).ptx
    return len(re.findall(r"cp\.async\.c[ag]", text)), len(re.findall(r"cp\.async\.bulk\.shared", text))


def _pipeline(data: Data) -> Finding:
    from ...runtime.library import kernel_source
    plain, bulk = _copies_in(kernel_source("gemm/cuda_pipeline.cu"), "gemm/cuda_pipeline.cu")
    _, by_barrier = _copies_in(BY_BARRIER, "by_barrier.cu")
    return Finding(f"the PTX of our cuda::pipeline product has {plain} cp.async and {bulk} cp.async.bulk; that of memcpy_async "
                   f"on a cuda::barrier, with 16-byte alignment promised, has {by_barrier} cp.async.bulk. What drives TMA with "
                   "a tensor map is one thread's cp.async.bulk.tensor with an mbarrier (cuda::barrier can be that mbarrier)",
                   HOLDS if bulk else when("memcpy_async has a cuda::barrier and 16-byte alignment; a cuda::pipeline never drives TMA") if by_barrier else FALSE)


def _depth(data: Data, stages: int, bk: int) -> float:
    return data.value("variants", "multistage", f"STAGES={stages}", f"BK={bk}", shape=SIZE)


def _third_buffer(data: Data) -> Finding:
    two, three, four = (_depth(data, stages, 64) for stages in (2, 3, 4))
    return Finding(f"TMA and wgmma at 4096³, BK 64: {two:.0f} TFLOP/s with two stages, {three:.0f} with three, {four:.0f} with four (which leave room for one "
                   f"block per SM instead of two)",
                   when("two stages' products last less than a load's latency, as here") if three > 1.1 * two else FALSE)


def _larger_bk(data: Data) -> Finding:
    rates = {bk: _depth(data, 2, bk) for bk in (32, 64, 128)}
    text = "two stages at 4096³: " + ", ".join(f"BK {bk}: {rate:.0f}" for bk, rate in rates.items()) + " TFLOP/s"
    if rates[64] > 1.1 * rates[32]:
        return Finding(text, HOLDS if rates[128] > rates[64] else when("the larger stage still lets two blocks share an SM"))
    return Finding(text, FALSE)


def _specialised(data: Data) -> Finding:
    ratios = {s: data.value("variants", "warp_specialized", f"STAGES={s}", shape=SIZE, suite="roles") / data.value("variants", "multistage", f"STAGES={s}",
            shape=SIZE, suite="roles") for s in (3, 4, 6)}
    wins = [s for s, ratio in ratios.items() if ratio > 1.02]
    text = "roles over multistage on the same 128 x 128 tiles at 4096³: " + ", ".join(f"{s} stages {ratio:.2f}" for s, ratio in ratios.items())
    if not wins:
        return Finding(text, FALSE)
    return Finding(text, HOLDS if len(wins) == len(ratios) else when(f"one block has the SM to itself ({' and '.join(map(str, wins))} stages); with 3 stages "
                                                                     f"two blocks without roles fit, and win"))


def _since_hopper(data: Data) -> Finding:
    try:
        old = assembles("bar.arrive 1, 64; bar.sync 2, 64;", "sm_75")
    except ToolchainError:
        old = True                                      # it did when this was written (CUDA 13.0); there is no assembler to ask
    trip = data.value("micro", "named_round_trip", "threads=64")
    return Finding(f"a producer and a consumer warp need named barriers only: they assemble for sm_75 ({'yes' if old else 'no'}) "
                   f"and a round trip takes {trip:.0f} cycles; CUDA-DMA (2011) and Singe (2014) were built so", FALSE if old else HOLDS)


def _own_load(data: Data) -> Finding:
    waits = data.value("variants", "producer_warp", "STAGES=4", "PRODUCER_WARPS=1", "WAIT_FOR_OWN_LOAD=1", shape=SIZE)
    runs = _plain_producer(data)
    return Finding(f"4 stages at 4096³: {runs:.0f} TFLOP/s, and {waits:.0f} when the producer waits for its own load before the next",
                   FALSE if waits < 0.9 * runs else HOLDS)


def _plain_producer(data: Data) -> float:
    found = [r for r in data.all("variants", "producer_warp", "STAGES=4", "PRODUCER_WARPS=1", shape=SIZE) if "WAIT_FOR_OWN_LOAD=1" not in r.options]
    return found[0].tflops


def _registers(data: Data) -> Finding:
    rate = {r.note: r.tflops for r in data["roles"]}
    cost = data.value("micro", "setmaxnreg_cost", "WITHOUT=0", "role=inc 168 to 232") - data.value("micro", "setmaxnreg_cost", "WITHOUT=1", "role=inc 168 to 232")
    easy, hard = rate["128x256, 24/240"] / rate["128x256, as at entry"], rate["384x128, 24/240"] / rate["384x128, as at entry"]
    return Finding(f"with setmaxnreg over without: {easy:.2f} for a 128 x 256 tile, which fits anyway; {hard:.1f} for 384 x 128, which does not; taking "
                   f"registers costs {cost:.0f} cycles once",
                   when("the consumers' accumulators do not fit into the even share") if hard > 1.5 and easy < 1.1 else HOLDS if easy >= 1.1 else FALSE)


def _dsmem(data: Data) -> Finding:
    through = {how: data.value("micro", "exchange", f"how={how}") for how in ("global memory", "st.async")}
    latency = {space: data.value("micro", "chase", f"space={space}") for space in ("dsmem", "l2")}
    width = {space: data.value("micro", "stream", f"space={space}", "WRITE=0") for space in ("dsmem", "l2")}
    return Finding(f"a message and its answer: {through['st.async']:.0f} cycles by st.async, {through['global memory']:.0f} through global memory; a load "
                   f"{latency['dsmem']:.0f} against {latency['l2']:.0f} from the L2; reading {width['dsmem']:.0f} against {width['l2']:.0f} bytes per cycle and SM",
                   FALSE if through["st.async"] > through["global memory"] else HOLDS if width["dsmem"] > width["l2"]
                   else when("latency counts: messages are much faster, bandwidth is less than the L2's"))


def _triton(data: Data) -> Finding:
    ratios = {(r.shape, r.mode): r.ratio for r in data.all("peers", "Triton")}
    return Finding("the ratio is told of fp8 Triton kernels beside cuBLAS in fp16, at few rows. Like beside like: Triton 3.6, persistent with TMA, best of "
                   "its configurations, over the better cuBLAS, bf16: "
                   + ", ".join(f"{shape[0]}³ {mode} {ratio:.2f}" for (shape, mode), ratio in ratios.items()), HOLDS if max(ratios.values()) >= 1.4 else FALSE)


def _systems(data: Data) -> Finding:
    column = data.value("micro", "swizzle_reads", "swizzle=128B", "ROW_BYTES=128", "PAD=0", "access=column, 16 bytes")
    return Finding("no measurement, but their sources: DeepGEMM multicasts to pairs of CTAs, which by its own log share A, the "
                   "activations, unless it is configured otherwise; FlashAttention-3's fp8 kernel transposes V in shared memory with "
                   f"ldmatrix.trans and stmatrix. A swizzle transposes nothing: it makes column reads free of conflicts ({column:.0f} cycles)",
                   when("DeepGEMM is configured to share B, the weights; TMA and swizzles alone do not transpose"))


CLAIMS = (
    Claim(33, "TMA and wgmma beat cp.async and mma.sync, and the sum is more than its parts.", "09", _two_by_two),
    Claim(34, "cuda::pipeline drives TMA; memcpy_async is a DMA.", "03x", _pipeline),
    Claim(35, "Three buffers hide TMA latency that two cannot.", "09", _third_buffer),
    Claim(36, "Where loads take longer than products, a larger BK helps.", "09", _larger_bk),
    Claim(37, "Warp specialisation beats multistage on Hopper.", "10", _specialised),
    Claim(38, "Warp specialisation came with Hopper.", "10", _since_hopper),
    Claim(39, "The producer should wait for its own load before it signals.", "10", _own_load),
    Claim(40, "A producer warp needs few registers; setmaxnreg gives the rest to the consumers (40/256 with one).", "11", _registers),
    Claim(41, "Distributed shared memory is faster than global memory, and specialised warps can do the exchange.", "12", _dsmem),
    Claim(42, "Triton kernels with TMA and wgmma reach 1.4 to 2.2 times cuBLAS's fp16 for small and middle sizes.", "14", _triton),
    Claim(43, "DeepGEMM multicasts to share weights; FlashAttention-3 uses TMA and swizzles to transpose.", "12", _systems),
)
