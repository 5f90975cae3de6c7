# SPDX-License-Identifier: Apache-2.0
"""The recording `reads_few`: products of few rows beside a kernel that reads as many bytes as their weights have and uses none, in the same rounds.

At the shapes of `products_few`. A read of 32 to 700 MB pays for its start and for its end as the product does, which one of 4 GiB (`copies`) does not show.
Needs a Hopper GPU and CuPy.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import summaries
from ..launches import gemm
from ..launches.launch import Launch
from ..launches.operands import bf16_values, normal_bf16
from ..machine.timing import Sample, interleaved
from ..recordings import Record
from .compile_ahead import compile_ahead
from .copies import READS, reading
from .fields import beside, facts, gb_s, times
from .race import CLEAN, COLD, options
from .race_gemm import compile_choices, parsed, wrong_share
from .table import SUITES

MODES = {COLD: False, CLEAN: True}
METHOD = ("at the shapes of products_few; the product with the weights stored n x k and k x n, and kernels that only read them, interleaved round by round in "
          "one process; every product compared with fp32 and every read with a sum over its last chunk before anything is timed; gb_s: bytes of the weights; "
          "cold L2: each launch after a 512 MiB write; clean L2: after that memory has been read, too, so that nothing waits to be written back; ratio: of the "
          "product to the fastest read")


def shapes() -> list[tuple[int, int, int]]:
    """Those that the command of `products_few` names."""
    words = next(suite for suite in SUITES if suite.recording == "products_few").command.split()
    return [parsed(word) for word in words if "x" in word and word[0].isdigit()]


def _products(m: int, n: int, k: int, weights) -> dict[str, Launch]:
    """note of a record -> `final` on the weights in that order. Raises AssertionError where one is wrong."""
    import cupy
    a, c = normal_bf16(cupy, (m, k), 11), cupy.empty((m, n), cupy.uint16)
    expected = bf16_values(a) @ bf16_values(weights).T
    made = {"": gemm.final(a, weights, c), summaries.TURNED: gemm.final(a, cupy.ascontiguousarray(weights.T).T, c)}
    for note, launch in made.items():
        c.fill(0x7FC0)                                      # NaN: what is not written is wrong
        launch()
        if wrong_share(bf16_values(c), expected, k):
            raise AssertionError(f"final {note} at {m}x{n}x{k} is wrong")
    return made


def records_of(shape: tuple[int, int, int], mode: str, products: Mapping[str, Launch], reads: Mapping[str, Launch], samples: Mapping[str, Sample]) -> list[Record]:
    """A record for each launch; products beside the fastest read."""
    moved = 2 * shape[1] * shape[2]
    fastest = min(reads, key=lambda name: samples[name].ms)
    made = []
    for name, launch in (*products.items(), *reads.items()):
        ours, sample = name in products, samples[name]
        compared = beside(sample, f"bulk_read ({fastest})", samples[fastest], gb_s(moved, samples[fastest])) if ours else {}
        made.append(Record("reads_few", "final" if ours else "bulk_read", options(launch), shape, "bfloat16", mode=mode, note=name, gb_s=gb_s(moved, sample),
                           **times(sample), **facts(launch), **compared))
    return made


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """Everything at every shape, cold and clean."""
    import cupy
    cells: Sequence[tuple[int, int, int]] = shapes()
    compile_choices(cells, ("final",))
    compile_ahead(("copy/bulk_read.cu", "bulk_read", (f"-DSTAGES={stages}", f"-DCHUNK_BYTES={chunk}")) for stages, chunk, _ in READS.values())
    made: list[Record] = []
    for m, n, k in cells:
        weights = normal_bf16(cupy, (n, k), 12)
        products, reads = _products(m, n, k, weights), reading(weights)
        runs = {name: launch.bound() for name, launch in (*products.items(), *reads.items())}
        for mode, clean in MODES.items():
            made += records_of((m, n, k), mode, products, reads, interleaved(runs, rounds, 2, clean=clean))
        keep(made)
        del weights, products, reads, runs
        cupy.get_default_memory_pool().free_all_blocks()
    return made
