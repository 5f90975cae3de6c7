# SPDX-License-Identifier: Apache-2.0
"""The search for configurations: `hopperlab bench search` at random shapes (the recordings `search` and `search_few`, on which the choice is fitted), and `tune`.

At each shape the configurations that the model thinks best, and some others, are checked and timed in turns beside cuBLAS.
"""
from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..launches import gemm, gemm_choice, gemm_tuned
from ..launches.gemm_configurations import MOST_STAGES, Choice, kernel_of
from ..launches.operands import bf16_values, normal_bf16
from ..launches.random_shapes import few_tiles_shapes, random_shapes
from ..machine import here, peers
from ..machine.timing import Sample, interleaved
from ..machine.board import header
from ..recordings import Record, Recording
from ...runtime.tables import text_table
from .. import recordings, summaries
from . import race, race_gemm
from .compile_ahead import compile_ahead
from .fields import beside, tflops, times
from .report import Progress

Shape = tuple[int, int, int]
SEED, COUNT = 20261106, 60                                  # shapes for fitting; a recording that judges has another seed
METHOD = ("at each random shape the configurations that the cost model ranks first and some drawn from the others, each checked against fp32, timed in "
          "turns beside cuBLAS's entry points and layouts: single launches after a 512 MiB write, medians; random normal inputs")
FEW_SEED, FEW_COUNT = 202611266, 40
FEW_METHOD = (METHOD.replace("at each random shape", "at each random shape of few tiles and a deep k")
              .replace("some drawn from the others", "some drawn from those behind them, one consumer's tiles with the deepest ring among them")
              .replace("layouts:", "layouts and the fastest of cuBLASLt's eight best candidates:"))
CUBLAS = ("cublas", "cublaslt", "torch")


class Counts(NamedTuple):
    """Configurations of a shape: of the model's ranking, and drawn from the rest; the same for a B that is stored k x n."""

    first: int = 13
    others: int = 5
    first_turned: int = 6
    others_turned: int = 2


USUAL = Counts()
FEW = {False: (12, 9, 160, 3, 3), True: (6, 4, 80, 1, 2)}
"""By order of B, of a shape of few tiles: the model's first, drawn from those behind them, up to which place; the deepest rings, the first alone and drawn."""


def picked(shape: Shape, first: int, others: int, b_mn: bool = False) -> list[Choice]:
    """The model's first for one order of B, and `others` drawn from the rest, always the same."""
    ranked = gemm_choice.ranked(*shape, b_mn=b_mn)
    rest = ranked[first:]
    return [*ranked[:first], *random.Random(repr(shape)).sample(rest, min(others, len(rest)))]


def both(shape: Shape, counts: Counts = USUAL) -> list[Choice]:
    """Of both orders of B, where TMA can read rows of n."""
    return picked(shape, *counts[:2]) + (picked(shape, *counts[2:], b_mn=True) if shape[1] % 8 == 0 else [])


def few(shape: Shape) -> list[Choice]:
    """Of a shape of few tiles, of both orders of B, where TMA can read rows of n: as FEW says, always the same."""
    found: list[Choice] = []
    for b_mn in (False, True)[:1 + (shape[1] % 8 == 0)]:
        first, others, among, alone, deep = FEW[b_mn]
        ranked, rng = gemm_choice.ranked(*shape, b_mn=b_mn), random.Random(f"{shape} {b_mn}")
        chosen = [*ranked[:first], *rng.sample(ranked[first:among], min(others, len(ranked[first:among])))]
        deeper = [choice for choice in ranked if getattr(choice, "stages", 0) > MOST_STAGES and choice not in chosen]
        chosen += [choice for choice in deeper if getattr(choice, "cluster", 1) == 1][:alone]
        rest = [choice for choice in deeper if choice not in chosen]
        found += chosen + rng.sample(rest, min(deep, len(rest)))
    return found


def timed(shape: Shape, choices: Sequence[Choice], rounds: int, families: Sequence[str] = CUBLAS) -> dict[int | str, Sample]:
    """Samples by place in `choices`, and by entry point of the peers of these families that are installed. Raises race.WrongResult."""
    import cupy
    m, n, k = shape
    a, b, c = normal_bf16(cupy, (m, k), 11), normal_bf16(cupy, (n, k), 12), cupy.empty((m, n), cupy.uint16)
    turned = cupy.ascontiguousarray(b.T).T                  # the same B, stored k x n
    expected = bf16_values(a) @ bf16_values(b).T
    runs: dict[int | str, Callable[[], None]] = {}
    for place, choice in enumerate(choices):
        c.fill(0x7FC0)
        runs[place] = gemm.final(a, turned if getattr(choice, "b_mn", 0) else b, c, choice).bound()
        runs[place]()
        share = race_gemm.wrong_share(bf16_values(c), expected, k)
        if share > 0:
            raise race.WrongResult(f"{' '.join(choice.named)} at {'x'.join(map(str, shape))}: {share:.2%} of the elements are wrong")
    names = peers.installed({name: peer for name, peer in peers.PRODUCT_PEERS.items() if name in families})
    runs |= {name: run for name, (_, run) in peers.products(names, a, b, c).items()}
    return interleaved(runs, rounds)


Keep = Callable[[list[Record]], object]


def measure(rounds: int, keep: Keep = lambda records: None, seed: int = SEED, counts: Counts = USUAL) -> list[Record]:
    """Configurations at COUNT random shapes beside cuBLAS. note: the configuration's place in the model's ranking."""
    return _measured({shape: both(shape, counts) for shape in random_shapes(COUNT, seed)}, rounds, keep)


def measure_few(rounds: int, keep: Keep = lambda records: None, seed: int = FEW_SEED, count: int = FEW_COUNT) -> list[Record]:
    """The same at random shapes of few tiles."""
    return _measured({shape: few(shape) for shape in few_tiles_shapes(count, seed)}, rounds, keep)


def _measured(choices: Mapping[Shape, Sequence[Choice]], rounds: int, keep: Keep) -> list[Record]:
    records: list[Record] = []
    with Progress(len(choices) + 1) as progress:
        progress.step("compiling")
        problems = compile_ahead((kernel for shape, tried in choices.items() for choice in tried for kernel in gemm_choice.wanted(choice, shape[1])), progress.say)
        if problems:
            raise race.WrongResult("\n".join(problems))
        for shape, tried in choices.items():
            progress.step(f"{'x'.join(map(str, shape))}: {len(tried)} configurations")
            records += _records(shape, tried, timed(shape, tried, rounds))
            keep(records)
            _free()
    return records


def _records(shape: Shape, choices: Sequence[Choice], samples: dict[int | str, Sample]) -> list[Record]:
    best = min((name for name in samples if isinstance(name, str)), key=lambda name: samples[name].ms)
    value = tflops(shape, samples[best])
    places = {choice: place for b_mn in (False, True) for place, choice in enumerate(gemm_choice.ranked(*shape, b_mn=b_mn))}
    return [Record("search", kernel_of(choice), choice.named, shape, "bfloat16", **times(samples[place]), tflops=tflops(shape, samples[place]),
                   **beside(samples[place], f"cuBLAS ({best})", samples[best], value), note=f"{places[choice] + 1}{f' {summaries.TURNED}' * getattr(choice, 'b_mn', 0)}")
            for place, choice in enumerate(choices)]


def shown(recording: Recording) -> str:
    """A line a shape: the fastest configuration beside cuBLAS, and what the model's first loses to it; then the means."""
    rows, firsts, bests = [], [], []
    for shape in dict.fromkeys(record.shape for record in recording):
        found = sorted(recording.where(shape=shape), key=lambda record: record.ms or 0)
        first = next(record for record in found if record.note in ("1", f"1 {summaries.TURNED}"))          # the faster of both orders of B
        rows.append(("x".join(map(str, shape)), len(found), found[0].ratio, first.ratio, found[0].note, " ".join(found[0].options)))
        firsts.append(first.ratio or 0)
        bests.append(found[0].ratio or 0)
    lines = text_table("  {:>18} {:4d}  {:.3f}  {:.3f}  {:>4}  {}", rows, ("shape", "tried", "best", "model's first", "place", "the best"))
    return "\n".join([*lines, f"of cuBLAS: the best {summaries.summary(bests)}, the model's first {summaries.summary(firsts)}"])


def tune(m: int, n: int, k: int, count: int = 10, rounds: int = 15, b_mn: bool = False) -> gemm_tuned.Tuned:
    """Time the `count` configurations that the model ranks first for a product of m x n x k on this GPU, and remember the fastest for
    `launches.gemm.final`. b_mn: for a B that is stored k x n. Takes seconds, most of them to compile. Needs a Hopper GPU; raises ValueError for
    sizes below 1, a k (with b_mn also an n) that is no multiple of 8, race.WrongResult where a result is wrong.
    """
    race_gemm.parsed(f"{m}x{n}x{k}")
    if b_mn and n % 8:
        raise ValueError(f"tune: n is {n}, no multiple of 8; TMA needs rows of a multiple of 16 bytes, and B's rows have n elements")
    if count < 1 or rounds < 2:
        raise ValueError(f"tune: count {count} and rounds {rounds} must be at least 1 and 2")
    shape, choices = (m, n, k), list(gemm_choice.ranked(m, n, k, b_mn=b_mn)[:count])
    problems = compile_ahead(kernel for choice in choices for kernel in gemm_choice.wanted(choice, n))
    if problems:
        raise race.WrongResult("\n".join(problems))
    samples = timed(shape, choices, rounds, families=())
    order = sorted(range(len(choices)), key=lambda place: samples[place].ms)
    found = gemm_tuned.Tuned(shape, tuple((choices[place], samples[place].ms) for place in order), samples[0].ms)
    gemm_tuned.remember(m, n, k, found.choice)
    return found


def _free() -> None:
    import cupy
    cupy.get_default_memory_pool().free_all_blocks()


def main(arguments: list[str] | None = None) -> int:
    """Command line: a search with another seed, or a deeper one, for a fit (`python -m benchmarks.gemm_model`)."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.suites.search", description="Configurations at random shapes, on this GPU.")
    parser.add_argument("--few", action="store_true", help="at shapes of few tiles (the recording search_few)")
    parser.add_argument("--seed", type=int, metavar="S", help=f"of the shapes ({SEED}, and {FEW_SEED} for few tiles: the recordings')")
    parser.add_argument("--count", type=int, default=FEW_COUNT, metavar="N", help=f"how many shapes of few tiles ({FEW_COUNT}); of others {COUNT}")
    parser.add_argument("--counts", type=int, nargs=4, default=USUAL, metavar="N", help="how many of a shape: the model's first, drawn from the rest, and both for B "
                        f"stored k x n ({' '.join(map(str, USUAL))})")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="launches of each that count (9)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where search_SEED.json (search_few_SEED.json) goes")
    given = parser.parse_args(arguments)
    told = here.no_gpu("the search")
    if told:
        print(told, file=sys.stderr)
        return 2
    seed = given.seed if given.seed is not None else FEW_SEED if given.few else SEED
    name, method = (f"search_few_{seed}", FEW_METHOD) if given.few else (f"search_{seed}", METHOD)
    found = header() | {"method": method}

    def keep(records: list[Record]) -> Path:
        return recordings.save(name, found, records, given.out)
    print(keep(measure_few(given.rounds, keep, seed, given.count) if given.few else measure(given.rounds, keep, seed, Counts(*given.counts))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
