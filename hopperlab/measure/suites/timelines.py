# SPDX-License-Identifier: Apache-2.0
"""Record the course's own timelines on this GPU: `python -m hopperlab.measure.suites.timelines [--out DIR]`.

`timeline`: a warp-specialised product of 2048 x 2048 x 1024; every block is traced, two are kept, so that the files stay small.
`timeline_two_consumers`, `timeline_pingpong`, `timeline_overlapped`: one block of attention/forward.cu in that step, 2048 queries and keys, head
size 128, no mask; its launch fills the GPU.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ...runtime.arrays import array_module, asnumpy
from ..machine import board, here
from ..launches.attention import STEPS, forward, reference
from ..launches.launch import warp_specialized
from .. import recordings, timelines
from ..launches.operands import bf16_bits, bf16_values, integer_bf16, normal_bf16

METHOD = ("marks of trace.cuh in one launch, after two that do not count: the SM's clock at each mark, SMs aligned by the global timer; "
          "marks cost time of their own, so that spans are longer than without them; integer inputs, the result exact")
BLOCKS = (0, 1)
ATTENTION = ("two_consumers", "pingpong", "overlapped")
NAMES = {0: "scores", 1: "values", 2: "softmax"}                # of attention/forward.cu


def product(m: int = 2048, n: int = 2048, k: int = 1024, launches_before: int = 2, blocks: Sequence[int] = BLOCKS) -> timelines.KernelTimeline:
    """The timeline of these blocks of gemm/warp_specialized.cu. Raises AssertionError when the traced product is wrong."""
    xp = array_module()
    a, b, c = integer_bf16(xp, (m, k), 1), integer_bf16(xp, (n, k), 2), xp.zeros((m, n), np.uint16)
    launch = warp_specialized(a, b, c)
    for _ in range(launches_before + 1):
        found = timelines.timeline(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
    if not bool((c == bf16_bits(bf16_values(a) @ bf16_values(b).T)).all()):
        raise AssertionError("the traced product is wrong")
    return found.only(blocks)


def _numbers(bits) -> np.ndarray:
    return asnumpy(bf16_values(bits)).astype(np.float64)


def attention(step: str, length: int = 2048, heads: int = 16, d: int = 128, launches_before: int = 2, block: int = 0) -> timelines.KernelTimeline:
    """The timeline of one block of a step of attention/forward.cu. Raises AssertionError when the traced result is wrong."""
    xp = array_module()
    q, k, v = (normal_bf16(xp, (length, heads * d), seed).reshape(length, heads, d) for seed in (1, 2, 3))
    o, lse, starts = xp.zeros_like(q), xp.zeros((heads, length), np.float32), xp.asarray(np.array([0, length], np.int32))
    launch = forward(q, k, v, o, lse, starts, starts, choice=STEPS[step])
    for _ in range(launches_before + 1):
        found = timelines.timeline(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, names=NAMES)
    some = slice(0, length, max(1, length // 64))
    numbers = [_numbers(x) for x in (q[some], k, v)]
    expected = reference(*numbers, [0, len(numbers[0])], [0, length])[0]
    if not (np.abs(_numbers(o[some]) - expected) <= 2.0 ** -7 * np.abs(numbers[2]).max()).all():
        raise AssertionError(f"the traced {step} is wrong")
    return found.only([block])


def measure() -> Iterator[tuple[str, timelines.KernelTimeline]]:
    """The timeline of each recording, by its name, as it is measured."""
    yield "timeline", product()
    for step in ATTENTION:
        yield f"timeline_{step}", attention(step)


def main(arguments: list[str] | None = None) -> int:
    """Command line. Returns 2 where there is no Hopper GPU."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.suites.timelines", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, metavar="DIR", help="where to write (the package's recordings)")
    given = parser.parse_args(arguments)
    if (why := here.no_gpu()) is not None:
        print(why, file=sys.stderr)
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    for name, found in measure():
        path = timelines.save(found, given.out / f"{name}.json", {**board.header(), "method": METHOD})
        print(f"{path.name}: {found!r}, timer of {found.timer_ns} ns", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
