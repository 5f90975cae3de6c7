# SPDX-License-Identifier: Apache-2.0
"""Lesson 17: a kernel with setmaxnreg as articles print it, which the assembler refuses, and its repairs one after the other.

The text is ours; the lines that are wrong have the errors of printed ones.
"""
from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

import numpy as np

from ...emulator.hazards.causes import causes_first
from .printed_pipeline import refusal

REGISTERS = """
#include <hopperlab/fence.cuh>
#include <hopperlab/ring.cuh>
#include <hopperlab/tma.cuh>
extern "C" __global__ void BOUNDS doubled(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float slots[2][256];
    __shared__ mbarrier_t full[2], empty[2];
    for (int s = 0; s < 2 && threadIdx.x == 0; s++) {
        mbarrier_init(&full[s], 1);
        mbarrier_init(&empty[s], 256);
    }
    __syncthreads();
    Ring<2> ring;
    if (threadIdx.x < 128) {                                    // the producer's warpgroup
        WARPGROUP_GIVES
        if (threadIdx.x == 0) {
            THREAD_GIVES
            for (int i = 0; i < tiles; i++, ring.advance()) {
                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);
                mbarrier_arrive_expect_tx(&full[ring.slot], 1024);
                cp_async_bulk_load(slots[ring.slot], x + 256 * i, 1024, &full[ring.slot]);
            }
        }
    } else {                                                    // two consumers
        CONSUMER_TAKES
        for (int i = 0, t = threadIdx.x - 128; i < tiles; i++, ring.advance()) {
            mbarrier_wait_parity(&full[ring.slot], ring.phase);
            y[256 * i + t] = 2 * slots[ring.slot][t];
            fence_proxy_async_shared_cta();                     // read here, written again by the copy engine
            mbarrier_arrive(&empty[ring.slot]);
        }
    }
}"""
"""Doubles tiles of 256 floats; the words in capitals are what the steps change."""


def _asm(words: str) -> str:
    return f'asm volatile("setmaxnreg.{words};");'


class Printed(NamedTuple):
    """What stands for the words in capitals of REGISTERS."""

    bounds: str = ""
    warpgroup_gives: str = ""
    thread_gives: str = ""
    consumer_takes: str = ""

    @property
    def code(self) -> str:
        """The kernel with these lines."""
        text = REGISTERS
        for name, words in self._asdict().items():
            text = text.replace(name.upper(), words)
        return "\n".join(line for line in text.split("\n") if line.strip())


BOUNDED = "__launch_bounds__(384, 1)"
GIVES, TAKES = _asm("dec.sync.aligned.u32 40"), _asm("inc.sync.aligned.u32 256")
STEPS = {
    "as printed": Printed(thread_gives=_asm("dec.sync.aligned.warpgroup.u32 40"), consumer_takes=_asm("inc.sync.aligned.warpgroup.u32 256")),
    "the instruction's own words": Printed(thread_gives=GIVES, consumer_takes=TAKES),
    "registers at entry made known": Printed(BOUNDED, thread_gives=GIVES, consumer_takes=TAKES),
    "given back by whole warps": Printed(BOUNDED, GIVES, consumer_takes=TAKES),
    "no more taken than is there": Printed(BOUNDED, GIVES, consumer_takes=_asm("inc.sync.aligned.u32 232")),
}
"""Step -> its lines."""


def run_registers(step: str, schedule: str = "lazy", tiles: int = 6) -> tuple[bool, Any]:
    """(right, session) of the step's kernel in the emulator. Raises CompileError for the first, NoteError where ptxas ignores the instruction, and
    EmulatorError where less than a warp executes it."""
    import hopperlab as hl

    kernel = hl.RawModule(code=STEPS[step].code, name="printed.cu", backend="emulator", strict=True).get_function("doubled")
    x = np.arange(256 * tiles, dtype=np.float32)
    y = np.zeros_like(x)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        kernel((1,), (384,), (x, y, np.int32(tiles)))
    return bool((y == 2 * x).all()), run


def _said(step: str) -> str:
    """What the compiler, the assembler or the emulator says of a step."""
    import hopperlab as hl
    from ...show.hazard_words import explain, hazards

    try:
        right, run = run_registers(step)
    except hl.NoteError as problem:
        return " ".join(str(problem).split())
    except hl.CompileError:
        return refusal(STEPS[step].code)
    except hl.HopperlabError as problem:
        return " ".join(str(problem).split())
    if not run.hazards:
        return f"right: {right}; {hazards(run)}"
    return f"right: {right}; " + " ".join(explain(causes_first(run.hazards)[0]).split())


def register_steps() -> str:
    """Each step: the lines that it changes, and what is said of it."""
    lines, last = [], Printed()
    for step, made in STEPS.items():
        lines.append(f"{step}:")
        lines += [f"    {name.upper()}: {new or '(nothing)'}" for name, new, old in zip(made._fields, made, last, strict=True) if new != old]
        lines += textwrap.wrap(_said(step), 104, initial_indent="  -> ", subsequent_indent="     ")
        last = made
    return "\n".join(lines)
