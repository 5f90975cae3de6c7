# SPDX-License-Identifier: Apache-2.0
"""Lesson 03x's measurement, the recording `pipelines`: why a product by cuda::pipeline takes longer than one by the instructions. Needs a Hopper GPU and CuPy.

One product on one tile, and one thing changed at a time: who writes the waits (groups or mbarriers, by hand or by cuda::pipeline), whether the next tile is
asked for before the product or after it, how many registers the compiler may use, and whether the edges of the matrices are looked after. Every result is
compared with cuBLAS's at the timed shape.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..launches import variants
from ..launches.launch import Launch
from ..launches.operands import normal_bf16
from ..machine import peers
from ..machine.timing import interleaved
from ..recordings import Record
from .compile_ahead import Wanted, compile_ahead
from .fields import beside, facts, tflops, times
from .products import check_product

if TYPE_CHECKING:
    from ...runtime.arrays import Array

SHAPE = (4096, 4096, 4096)
METHOD = ("events around single launches, cold L2, variants interleaved round by round, random normal bf16 operands, every result compared with cuBLAS's at the "
          "timed shape; ratios are to the instructions with groups at the same depth, taken within a round")
WAITS = {"groups": "cp_async_mma", "barriers": "cp_async_barriers", "thread's pipeline": "cuda_pipeline", "block's pipeline": "cuda_pipeline"}
"""What a product waits on -> its kernel. The first two are written by hand."""


@dataclass(frozen=True)
class Choice:
    """One product. waits: of WAITS; copy: when the next tile is asked for, 'before' or 'after' the product; blocks: CTAs of an SM that the registers are
    budgeted for, 1 or 2; edges: False leaves out what looks after the edges of the matrices (pipelines only)."""

    waits: str
    copy: str
    stages: int
    blocks: int
    edges: bool = True

    @property
    def words(self) -> tuple[str, ...]:
        """As options of a record."""
        return (f"waits={self.waits}", f"copy={self.copy}", f"STAGES={self.stages}", f"blocks_per_sm={self.blocks}", f"edges={int(self.edges)}")

    @property
    def options(self) -> tuple[str, ...]:
        """For NVRTC, besides the number of stages and the scope of a pipeline."""
        return (f"-DCOPY_AFTER={int(self.copy == 'after')}", f"-DBLOCKS_PER_SM={self.blocks}", *(() if self.edges else ("-DWHOLE_TILES=1",)))

    @property
    def wanted(self) -> Wanted:
        """What is compiled for it: file, kernel, all options in their order."""
        scope = {"thread's pipeline": ("-DSCOPE=0",), "block's pipeline": ("-DSCOPE=1",)}.get(self.waits, ())
        return f"gemm/{WAITS[self.waits]}.cu", "gemm", (f"-DSTAGES={self.stages}", *scope, *self.options)

    def launch(self, a: Array, b: Array, c: Array, backend: str | None = None) -> Launch:
        """Its launch."""
        make = variants.VARIANTS[WAITS[self.waits]]
        scope = {} if self.waits in ("groups", "barriers") else {"scope": self.waits.split("'")[0]}
        return make(a, b, c, stages=self.stages, options=self.options, backend=backend, **scope)


def choices() -> Iterator[Choice]:
    """Every product that is measured, the one that the ratios are to first at each depth: 3 stages leave room for two CTAs per SM, 6 for one."""
    for stages, budgets in ((3, (2,)), (6, (1, 2))):
        for blocks in budgets:
            for waits in WAITS:
                for copy in ("before", "after"):
                    yield Choice(waits, copy, stages, blocks)
    for waits in ("thread's pipeline", "block's pipeline"):
        for copy in ("before", "after"):
            yield Choice(waits, copy, 3, 2, edges=False)


def measure(rounds: int = 15) -> list[Record]:
    """A record for each of `choices`, and cuBLAS's; a wrong result raises AssertionError."""
    import cupy

    m, n, k = SHAPE
    a, b, c = normal_bf16(cupy, (m, k), 31), normal_bf16(cupy, (n, k), 32), cupy.empty((m, n), cupy.uint16)
    expected = cupy.empty_like(c)
    peers.cublas(a, b, expected)()
    problems = compile_ahead(choice.wanted for choice in choices())
    if problems:
        raise AssertionError("; ".join(problems))
    made = {choice: choice.launch(a, b, c) for choice in choices()}
    runs = {" ".join(choice.words): launch.bound() for choice, launch in made.items()}
    for name, run in (runs | {"cuBLAS": peers.cublas(a, b, c)}).items():
        check_product(name, run, c, expected)
    samples = interleaved(runs | {"cuBLAS": peers.cublas(a, b, c)}, rounds)
    records = []
    for choice, launch in made.items():
        sample, base = samples[" ".join(choice.words)], samples[" ".join(_base(choice).words)]
        records.append(Record("pipelines", WAITS[choice.waits], choice.words, SHAPE, "bfloat16", tflops=tflops(SHAPE, sample), **times(sample),
                              **beside(sample, "groups", base, tflops(SHAPE, base)), **facts(launch)))
    theirs = samples["cuBLAS"]
    return [*records, Record("pipelines", "cuBLAS", (), SHAPE, "bfloat16", tflops=tflops(SHAPE, theirs), **times(theirs))]


def _base(choice: Choice) -> Choice:
    """What a choice is held against: the instructions with groups, copying before the product, at the same depth, with the registers that this depth allows."""
    return Choice("groups", "before", choice.stages, 2 if choice.stages == 3 else 1)
