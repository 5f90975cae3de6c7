# SPDX-License-Identifier: Apache-2.0
"""The process that times one answer to 14.2 on the GPU: `python -m hopperlab.grading.rank_worker`, a request as JSON in, times as JSON out.

Nothing of the answer outlives a round that could serve the next: A and B are new numbers each round, C is NaN before each launch, and the
answer runs before cuBLAS has a result on these numbers. Afterwards A and B are made once more from their seeds, elsewhere: the
answer must have left its operands as they were, and C is compared with the fp32 product of the fresh ones.
"""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import hopperlab as hl

from ..measure.machine import peers, timing
from ..measure.suites.race_gemm import wrong_share
from ..measure.launches.launch import Launch
from ..measure.launches.operands import bf16_values, normal_bf16
from ..checking.exercise import random
from ..lessons.l14_beat_cublas import exercises
from .rank import ANSWER

NAN = 0x7FC0                 # bf16
MOST_CTAS = 1 << 24
WARM_UPS = 1                 # rounds that do not count


class NotRight(Exception):
    """A result that is not the product."""


def main() -> None:
    """Serve the one request on standard input; whatever else is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        answer = {"times": _times(json.load(sys.stdin))}
    except Exception as problem:        # whatever happened is the learner's to read
        answer = {"error": f"{type(problem).__name__}: {problem}"[:2000]}
    json.dump(answer, answers)
    answers.flush()
    os._exit(0)                         # a broken context must not hold up the end


def _times(request: dict) -> list:
    import cupy
    module = hl.RawModule(code=request["text"], name="beat.cu", backend="gpu", strict=True)
    sms = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
    found = []
    for shape in map(tuple, request["shapes"]):
        table = Table(shape, module, sms, request["constants"]["ALPHA"], request["key"])
        rounds = [table.round(number) for number in range(WARM_UPS + request["rounds"])][WARM_UPS:]
        found.append([shape, {name: [times[name] for times in rounds] for name in rounds[0]}])
        del table
        cupy.get_default_memory_pool().free_all_blocks()
    return found


class Table:
    """The operands of one shape, always in the same memory, and the answer bound to them."""

    def __init__(self, shape: tuple[int, int, int], module: Any, sms: int, alpha: int, key: str):
        import cupy
        m, n, k = shape
        self.shape, self.alpha, self.key, self.cupy = shape, alpha, key, cupy
        self.a, self.b = cupy.empty((m, k), cupy.uint16), cupy.empty((n, k), cupy.uint16)
        self.c, self.theirs = cupy.full((m, n), NAN, cupy.uint16), cupy.empty((m, n), cupy.uint16)
        self._fill("before the first round")
        self.run = self._bound(module, sms)

    def _bound(self, module: Any, sms: int) -> Callable[[], None]:
        """A callable that launches the answer as its plan says. It is launched once here, on numbers that no round has."""
        def launch(name, grid, block, args=(), shared_mem=0):
            module.get_function(name)(grid, block, args, shared_mem=shared_mem)
        numbers = self.cupy.full(7, -1, np.int32)
        plan = exercises.planned(launch, numbers, self.shape, sms, MOST_CTAS)
        args = exercises.operands(plan, self.a, self.b, self.c)
        return Launch(module.get_function("gemm"), (*plan.grid,), (plan.threads,), args, plan.shared_mem).bound()

    def _numbers(self, which: str, number: object) -> Any:
        """A or B of a round: standard normal, by shape, key and round."""
        rows = self.shape[0] if which == "a" else self.shape[1]
        seed = int(random(self.key, self.shape, number, which).integers(1 << 62))
        return normal_bf16(self.cupy, (rows, self.shape[2]), seed)

    def _fill(self, number: object) -> None:
        self.a[...], self.b[...] = self._numbers("a", number), self._numbers("b", number)

    def round(self, number: int) -> dict[str, float]:
        """Milliseconds of the answer and of each entry of cuBLAS on new numbers, the L2 cold before each. Raises NotRight."""
        self._fill(number)
        self.c.fill(NAN)
        others = {name: run for name, (_, run) in peers.products(("cublas",), self.a, self.b, self.theirs).items()}
        samples = timing.interleaved({ANSWER: self.run, **others}, rounds=1, warmups=0)
        self._check(number)
        return {name: sample.ms for name, sample in samples.items()}

    def _check(self, number: int) -> None:
        a, b = self._numbers("a", number), self._numbers("b", number)
        where = " x ".join(map(str, self.shape))
        if not bool((a == self.a).all()) or not bool((b == self.b).all()):
            raise NotRight(f"{where}: the answer changed its operands")
        share = wrong_share(bf16_values(self.c) / self.alpha, bf16_values(a) @ bf16_values(b).T, self.shape[2])
        if not share <= 0:
            raise NotRight(f"{where}: {share:.2%} of the elements are wrong")


if __name__ == "__main__":
    main()
