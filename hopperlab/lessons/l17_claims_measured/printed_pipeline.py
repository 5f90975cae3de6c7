# SPDX-License-Identifier: Apache-2.0
"""Lesson 17: a cuda::pipeline loop as articles print it, which does not compile, and its repairs one after the other; and a wgmma of a shape that does not exist.

The texts are ours; the lines that are wrong have the errors of printed ones.
"""
from __future__ import annotations

import re
import textwrap
from typing import Any, NamedTuple

import numpy as np

SOURCE = """
#include <cuda/pipeline>
extern "C" __global__ void __launch_bounds__(128) doubled(const float4* x, float4* y, int tiles) {
    __shared__ float4 slots[2][128];
    PIPELINE;
    int t = threadIdx.x;
    auto fetch = [&](int i) {
        pipe.producer_acquire();
        cuda::memcpy_async(&slots[i % 2][t], &x[128 * i + t], cuda::aligned_size_t<16>(16), pipe);
        pipe.producer_commit();
    };
    fetch(0);
    for (int i = 0; i < tiles; i++) {
        if (i + 1 < tiles) fetch(i + 1);
        WAIT;
        __syncthreads();                                        // everyone's part of tile i is there
        float4 v = slots[i % 2][t ^ 1];
        y[128 * i + t] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
        __syncthreads();                                        // everyone has read it
        pipe.consumer_release();
    }
}"""
"""Doubles tiles of 512 floats, thread t those of thread t ^ 1; PIPELINE and WAIT are what the steps change."""

MADE = "auto pipe = cuda::make_pipeline()"
STEPS = {
    "as printed": ("cuda::pipeline<cuda::thread_scope_block> pipe", "cuda::pipeline_consumer_wait_prior<0>(pipe)"),
    "made by make_pipeline()": ("cuda::pipeline<cuda::thread_scope_block> pipe = cuda::make_pipeline()", "cuda::pipeline_consumer_wait_prior<0>(pipe)"),
    "with the type that it returns": (MADE, "cuda::pipeline_consumer_wait_prior<0>(pipe)"),
    "one copy may stay in flight": (MADE, "cuda::pipeline_consumer_wait_prior<1>(pipe)"),
    "wait for the oldest": (MADE, "pipe.consumer_wait()"),
}
"""Step -> (PIPELINE, WAIT)."""

WGMMA = """
extern "C" __global__ void product() {
    asm volatile("wgmma.mma_async.sync.aligned.m128n128k128.f32.bf16.bf16 {%0}, %1, %1, 1, 1, 1, 0, 0;" :: "f"(0.0f), "l"(0ull));
}"""
"""The shape that claim 28 is about."""


class Ran(NamedTuple):
    """A step that compiled: is the result right, the emulator's session, and the copies of each warp that are still under way when it issues its next one."""

    right: bool
    run: Any
    in_flight: int


def refusal(code: str) -> str:
    """The compiler's first error about a source, in a line without its place; '' when it compiles."""
    import hopperlab as hl

    try:
        hl.RawModule(code=code, name="printed.cu", backend="emulator")
    except hl.CompileError as problem:
        lines = [line for line in str(problem).splitlines() if "error" in line.lower() or "Unknown modifier" in line]
        said = re.sub(r"^.*?error\s*:?\s*", "", lines[0]).strip() if lines else str(problem).splitlines()[0]
        return re.sub(r"\b(?:std::)?(?:__\d+::)?_ZN4cuda\w*?(thread_scope_[a-z]+)E", r"\1", re.sub(r"\b__\d+::", "", said))     # libcu++'s inner names
    return ""


def run_step(step: str, tiles: int = 6) -> Ran:
    """The step's kernel in the emulator, copies landing as late as they may. Raises CompileError for the two that are none."""
    import hopperlab as hl

    pipeline, wait = STEPS[step]
    kernel = hl.RawModule(code=SOURCE.replace("PIPELINE", pipeline).replace("WAIT", wait), name="printed.cu", backend="emulator").get_function("doubled")
    x = np.arange(512 * tiles, dtype=np.float32)
    y = np.zeros_like(x)
    with hl.emulate(schedule="lazy", hazards="collect") as run:
        kernel((1,), (128,), (x, y, np.int32(tiles)))
    expected = 2 * x.reshape(-1, 2, 4)[:, ::-1].reshape(-1)
    return Ran(bool((y == expected).all()), run, _under_way(run))


def _under_way(run: Any) -> int:
    """Copies of warp 0 that have not landed when it issues its third: the second is on its way there, or nothing is."""
    open_copies, issued = 0, 0
    for event in run.timeline:
        if event.warp != 0 or "cp" not in event.what:
            continue
        if event.what.startswith("issue"):
            if issued == 2:
                return open_copies
            issued += 1
            open_copies += 1
        elif event.what.startswith("land"):
            open_copies -= 1
    raise LookupError("warp 0 issued fewer than three copies")


def printed_steps() -> str:
    """Each step: the compiler's refusal, or how it runs; and the refusal of the wgmma."""
    from ...show.hazard_words import hazards

    lines = []
    for step, (pipeline, wait) in STEPS.items():
        lines.append(f"{step}:")
        lines += [f"    {pipeline};", f"    {wait};"]
        said = refusal(SOURCE.replace("PIPELINE", pipeline).replace("WAIT", wait))
        if not said:
            ran = run_step(step)
            said = f"right: {ran.right}; copies under way when the next is issued: {ran.in_flight}; {hazards(ran.run)}"
        lines += textwrap.wrap(said, 104, initial_indent="  -> ", subsequent_indent="     ")
    return "\n".join([*lines, "wgmma … m128n128k128:", f"  -> {refusal(WGMMA)}"])
