# SPDX-License-Identifier: Apache-2.0
"""Fit the trees that order products of few tiles again (gemm_corrections.FEW_FILE): `python -m benchmarks.few_tiles_model SEARCH...` (needs scikit-learn).

Each SEARCH is a file of `hopperlab bench search` or `python -m hopperlab.measure.suites.search`, of which products with few elements of C count. What is
fitted is what the first trees leave over, less its mean at each shape, since a shape's configurations compete with each other alone. Before it writes, it says
what picks lose at shapes left out: each of FOLDS parts of the shapes by trees that were fitted on the others.
"""
from __future__ import annotations

import argparse
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.gemm_model import Measured, boosted, write
from hopperlab.measure import recordings
from hopperlab.measure.launches import gemm_corrections
from hopperlab.measure.launches.gemm_choice import MARGIN
from hopperlab.measure.launches.gemm_configurations import DEEP_COLUMNS, FEW_TILES, MOST_STAGES, parsed
from hopperlab.measure.recordings import Recording

FOLDS = 4
SETTINGS = {"max_iter": 240, "learning_rate": 0.06, "max_leaf_nodes": 16, "l2_regularization": 10.0, "min_samples_leaf": 20}


class Left(Measured):
    """A search at few tiles: what the first trees leave over."""

    def __init__(self, recording: Recording):
        super().__init__(recording)
        first = gemm_corrections.trees(gemm_corrections.FILE).of(self.rows)
        self.estimates, self.wanted = self.estimates * np.exp(first), self.wanted - first
        for one in self.search.shapes:
            self.wanted[one] -= np.average(self.wanted[one], weights=self.weights[one])

    def losses(self, corrections: np.ndarray) -> np.ndarray:
        """By shape: the time of what is picked with these corrections, over the shortest, less 1; within MARGIN the first trees' pick stays."""
        kept = corrections.copy()
        for one in self.search.shapes:
            kept[one.start + int(np.argmin(self.estimates[one]))] -= np.log(MARGIN)
        return super().losses(kept)


def of(recording: Recording, shapes: Collection[tuple[int, ...]]) -> Recording:
    """Its records of these shapes."""
    return replace(recording, records=tuple(record for record in recording if record.shape in shapes))


def offered(recording: Recording) -> Recording:
    """Its records of configurations that the choice has; the searches have narrow tiles with deep rings, too."""
    choices = {record: parsed(record) for record in recording}
    return replace(recording, records=tuple(record for record, choice in choices.items() if choice.bn >= DEEP_COLUMNS or getattr(choice, "stages", 0) <= MOST_STAGES))


def left_out(searches: Sequence[Recording]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each search, by shape and order of B: what picks lose without the second trees, and with some that were fitted on other shapes."""
    shapes = sorted({record.shape for search in searches for record in search})
    random.Random(0).shuffle(shapes)
    found: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in searches]
    for part in range(FOLDS):
        out = set(shapes[part::FOLDS])
        trees = gemm_corrections.Trees(*boosted([Left(of(search, {*shapes} - out)) for search in searches], SETTINGS))
        for losses, search in zip(found, searches, strict=True):
            judged = Left(offered(of(search, out)))
            losses.append((judged.losses(np.zeros(len(judged.rows))), judged.losses(trees.of(judged.rows))))
    return [(np.concatenate([before for before, _ in losses]), np.concatenate([after for _, after in losses])) for losses in found]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few_tiles_model", description="Fit the second corrections of products of few tiles.")
    parser.add_argument("searches", type=Path, nargs="+", metavar="SEARCH", help="recordings of a search")
    paths = parser.parse_args(arguments).searches
    loaded = [recordings.load(path.stem, path.parent) for path in paths]
    searches = [of(one, {record.shape for record in one if record.shape[0] * record.shape[1] <= FEW_TILES}) for one in loaded]
    names = [f"{path.stem} ({recordings.board_of(str(search.header['gpu']))})" for path, search in zip(paths, searches, strict=True)]
    for name, (before, after) in zip(names, left_out(searches), strict=True):
        print(f"{name}: picks lose {100 * before.mean():.2f} % (at most {100 * before.max():.1f}), {100 * after.mean():.2f} % ({100 * after.max():.1f}) with "
              f"trees fitted on other shapes, over {len(after)} shapes and orders of B", flush=True)
    base, trees = boosted([Left(search) for search in searches], SETTINGS)
    write(gemm_corrections.FEW_FILE, names, base, trees)
    print(f"written: {gemm_corrections.FEW_FILE.name}, {len(trees)} trees over {sum(len(search) for search in searches)} launches")


if __name__ == "__main__":
    main()
