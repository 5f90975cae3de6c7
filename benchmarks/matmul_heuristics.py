# SPDX-License-Identifier: Apache-2.0
"""How well NVIDIA's matmul heuristics (package nvidia-matmul-heuristics, of its own; not installed with the course) and the course's model rank the configurations of
`final` that a search timed: `python -m benchmarks.matmul_heuristics SEARCH.json [--gpu H100_SXM]`. Needs no GPU.

Prints, for each, the mean rank correlation of estimates and times over shapes (Spearman's), and what the pick loses to the fastest configuration tried: mean and most.
A search whose shapes neither was fitted on is made by `python -m hopperlab.measure.suites.search --seed S --out DIR` on a Hopper GPU.
"""
from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

import numpy as np

from hopperlab.measure import recordings
from hopperlab.measure.launches import gemm_configurations
from hopperlab.measure.recordings import Record
from hopperlab.measure.summaries import TURNED

Estimate = Callable[[Record], float | None]
PRECISION = "TST"                       # bf16 operands, fp32 sums, bf16 result


def nvidias(gpu: str) -> Estimate:
    """Seconds by nvMatmulHeuristics's timing model for the tile, cluster, stages and split of a record."""
    import nvMatmulHeuristics as nv
    asked: Any = nv.NvMatmulHeuristicsInterfaceEx(backend=nv.NvMatmulHeuristicsTarget.CUTLASS3, gpu=nv.NvMatmulHeuristicsNvidiaGpu[gpu])
    layout = nv.NvMatmulHeuristicsMatmulLayout.TN_ROW_MAJOR

    def estimate(record: Record) -> float | None:
        choice: Any = gemm_configurations.parsed(record)
        problem = asked.makeNvMatmulHeuristicsProblem(*record.shape, layout)
        turn = -1 if choice.swapped else 1                  # a turned tile has its rows in b
        kernel = asked.nvmmhKernelConfiguration()
        kernel.cta[:] = [*(choice.bm, choice.bn)[::turn], 64]
        kernel.warp[:] = [*(64, choice.bn)[::turn], 64]
        kernel.instr[:] = [64, 8, 16]
        kernel.cluster[:] = (choice.cluster_m, choice.cluster_n)[::turn]
        kernel.splitK, kernel.loadStages, kernel.gridSwizzle, kernel.ctaOrder = choice.split, choice.stages, 1, 0
        seconds = asked.nvMatmulHeuristicsEstimateRuntime(asked.handle, PRECISION.encode(), ctypes.c_int(asked.target), ctypes.byref(problem), ctypes.byref(kernel),
                                                          asked.hardware_descriptor)
        return float(seconds) or None                       # 0: a tile that it does not know
    return estimate


def ours(record: Record) -> float | None:
    """The place in the course's ranking, which the search has noted."""
    return float(record.note.split()[0])


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Correlation of ranks; equal values share theirs, and where all are equal it is 0."""
    ranks = [_ranks(values) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1]) if all(np.ptp(one) for one in ranks) else 0.0


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def races(search: Sequence[Record], known: Callable[[Record], bool]) -> list[list[Record]]:
    """Configurations of each shape that can be estimated: whole tiles, B stored n x k."""
    found: dict[tuple[int, ...], list[Record]] = {}
    for record in search:
        if record.kernel == "final" and record.ms and "STREAM=0" in record.options and TURNED not in record.note and known(record):
            found.setdefault(record.shape, []).append(record)
    return [race for race in found.values() if len(race) > 2]


def judged(raced: Sequence[Sequence[Record]], estimate: Estimate) -> tuple[float, float, float]:
    """(mean rank correlation, mean loss, most) over shapes."""
    correlations, losses = [], []
    for race in raced:
        times, estimates = [record.ms or 0 for record in race], [estimate(record) or 0 for record in race]
        correlations.append(spearman(estimates, times))
        first = [time for time, guess in zip(times, estimates, strict=True) if guess == min(estimates)]        # where several are: any of them
        losses.append(mean(first) / min(times))
    return mean(correlations), geometric_mean(losses) - 1, max(losses) - 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matmul_heuristics")
    parser.add_argument("search", type=Path, help="a search's file")
    parser.add_argument("--gpu", default="H100_SXM", help="the board by NVIDIA's name (H100_SXM)")
    given = parser.parse_args(arguments)
    search, theirs = list(recordings.load(given.search.stem, given.search.parent)), nvidias(given.gpu)
    for what, known in (("all configurations", lambda record: True), ("those that nvMatmulHeuristics knows", lambda record: theirs(record) is not None)):
        raced = races(search, known)
        print(f"{what}: {sum(map(len, raced))} launches at {len(raced)} shapes")
        for name, estimate in (("the course's model", ours), *((("nvMatmulHeuristics", theirs),) if "nv" in what else ())):
            correlation, loss, most = judged(raced, estimate)
            print(f"  {name}: rank correlation {correlation:.3f}, its pick loses {loss:.1%} on average, at most {most:.1%}")


if __name__ == "__main__":
    main()
