# SPDX-License-Identifier: Apache-2.0
"""Fit the cost model of products to the recording `search`, and say how well it picks: `python -m benchmarks.gemm_model` (needs SciPy).

Prints the constants for hopperlab/measure/launches/gemm_model.py. With `--trees SEARCH...` (needs scikit-learn) it writes gemm_corrections.json beside it,
after judging each search by trees that were fitted on the others (`python -m hopperlab.measure.suites.search --seed S --out DIR` measures one).
What counts is not the error of the estimates but what the picks lose: the time of the configuration that is estimated to be fastest, over the fastest one
measured at that shape.
"""
from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from hopperlab.measure import recordings
from hopperlab.measure.launches import gemm_corrections
from hopperlab.measure.launches.gemm_configurations import parsed
from hopperlab.measure.launches.gemm_model import MODEL, Model, Work, work

FIXED = {"ghz", "watts", "block_sharpness"}                 # a unit each, and one that nothing depends on
SHARPEST = 8.0


def _counted(records: list[recordings.Record], over: float) -> Work:
    """What each launch has to do, `over` more loads of an operand whose rows begin inside a line."""
    counted = []
    for record in records:
        choice, (_, n, k) = parsed(record), record.shape
        counted.append(work(choice, *record.shape, (1 + over * (k % 64 != 0), 1 + over * ((n if getattr(choice, "b_mn", 0) else k) % 64 != 0))))
    return Work(**{f.name: np.array([getattr(one, f.name) for one in counted], float) for f in fields(Work)})


class Search:
    """The recording as arrays: what each launch has to do, its time, and which launches are of one shape."""

    def __init__(self, recording: recordings.Recording):
        races: dict[tuple, list[recordings.Record]] = {}    # a shape and an order of B each
        for record in recording:
            races.setdefault((record.shape, getattr(parsed(record), "b_mn", 0)), []).append(record)
        records = [record for race in races.values() for record in race]
        self.work = _counted(records, 0.0)
        self.more = _counted(records, 1.0)                  # where every line that is split counts twice
        self.times = np.array([1000 * (record.ms or 0) for record in records])
        ends = np.cumsum([len(race) for race in races.values()])
        self.shapes = [slice(end - len(race), end) for end, race in zip(ends, races.values(), strict=True)]

    def estimates(self, model: Model) -> np.ndarray:
        """Microseconds of every launch."""
        over = model.split_lines - 1
        loaded, traffic = (getattr(self.work, name) + over * (getattr(self.more, name) - getattr(self.work, name)) for name in ("loaded", "traffic"))
        return model.microseconds(replace(self.work, loaded=loaded, traffic=traffic))

    def losses(self, model: Model) -> np.ndarray:
        """By shape: the picked configuration's time over the shortest, less 1."""
        estimates = self.estimates(model)
        return np.array([self.times[one][np.argmin(estimates[one])] / self.times[one].min() - 1 for one in self.shapes])

    def cost(self, model: Model) -> float:
        """What the fit makes small: the picks' loss, softened so that it has slopes, and a little of the estimates' error where it matters."""
        estimates, total = self.estimates(model), 0.0
        for one in self.shapes:
            over, ratio = self.times[one] / self.times[one].min() - 1, estimates[one] / self.times[one]
            chance = np.exp(-40 * (estimates[one] / estimates[one].min() - 1))
            expected = float((chance * over).sum() / chance.sum())
            total += expected + 3 * expected ** 2 + 0.3 * float(np.average(np.log(ratio) ** 2, weights=np.exp(-4 * over)))
        return total / len(self.shapes)


def fitted(search: Search, rounds: int, start: Model = MODEL) -> Model:
    """The best of some descents from `start` and from near the best so far."""
    from scipy.optimize import minimize
    names = [f.name for f in fields(Model) if f.name not in FIXED]

    def model_of(logs: np.ndarray) -> Model:
        values = dict(zip(names, np.exp(np.clip(logs, -7, 20)).tolist(), strict=True))
        values |= {"sharpness": min(SHARPEST, max(1.5, values["sharpness"])), "hidden": min(1.0, values["hidden"])}
        return replace(start, **values)
    best = np.log([getattr(start, name) for name in names])
    least, rng = search.cost(start), np.random.default_rng(0)
    for turn in range(rounds):
        found = minimize(lambda logs: search.cost(model_of(logs)), best + rng.normal(0, 0.15 * (turn > 0), len(best)), method="Powell",
                         options={"maxiter": 5, "xtol": 1e-2, "ftol": 1e-4})
        if found.fun < least:
            least, best = found.fun, found.x
        print(f"descent {turn + 1} of {rounds}: {least:.5f}", flush=True)
    return model_of(best)


def told(search: Search, model: Model) -> str:
    """How well a model picks, and how far its estimates are off."""
    losses, off = search.losses(model), np.log(search.estimates(model) / search.times)
    return (f"picks lose {100 * losses.mean():.1f} % on average, {100 * losses.max():.1f} % at most, over {len(losses)} shapes; "
            f"estimates off by {100 * np.sqrt((off ** 2).mean()):.0f} % (root mean square) over {len(off)} launches")


class Measured:
    """A search as the trees see it: features, what they are to say (log of measured over estimated time), and how much each launch counts."""

    def __init__(self, recording: recordings.Recording):
        self.search = Search(recording)
        races: dict[tuple, list[recordings.Record]] = {}
        for record in recording:
            races.setdefault((record.shape, getattr(parsed(record), "b_mn", 0)), []).append(record)
        self.estimates, self.drawn = self.search.estimates(MODEL), {shape for shape, _ in races}
        records = [record for race in races.values() for record in race]
        self.rows = np.array([gemm_corrections.features(parsed(r), *r.shape, e) for r, e in zip(records, self.estimates, strict=True)], float)
        self.wanted = np.log(self.search.times / self.estimates)
        self.weights = np.concatenate([np.exp(-4 * (self.search.times[one] / self.search.times[one].min() - 1)) for one in self.search.shapes])

    def losses(self, corrections: np.ndarray) -> np.ndarray:
        """By shape: the time of what is picked with these corrections, over the shortest, less 1."""
        expected, times = self.estimates * np.exp(corrections), self.search.times
        return np.array([times[one][np.argmin(expected[one])] / times[one].min() - 1 for one in self.search.shapes])


SETTINGS = {"max_iter": 400, "learning_rate": 0.06, "max_leaf_nodes": 24, "l2_regularization": 2.0, "min_samples_leaf": 20}


def boosted(searches: Sequence[Measured], settings: Mapping[str, float] = SETTINGS) -> tuple[float, list[gemm_corrections.Tree]]:
    """Gradient-boosted trees fitted on searches, in the form of gemm_corrections.Trees."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    rows, wanted, weights = (np.concatenate([getattr(one, name) for one in searches]) for name in ("rows", "wanted", "weights"))
    found = HistGradientBoostingRegressor(**settings, random_state=0)
    found.fit(rows, wanted, sample_weight=weights)
    return float(found._baseline_prediction.ravel()[0]), [_tree(stage[0].nodes) for stage in found._predictors]


def _tree(nodes: np.ndarray) -> gemm_corrections.Tree:
    """A tree of scikit-learn's, its nodes renumbered so that the two below one stand behind each other, bounds rounded upwards (up to a bound is below)."""
    feature, bound, below, todo = [0], [0.0], [0], [(0, 0)]
    while todo:
        node, at = todo.pop(0)
        one = nodes[node]
        if one["is_leaf"]:
            feature[at], bound[at] = -1, float(f"{one['value']:.4g}")
            continue
        feature[at], bound[at], below[at] = int(one["feature_idx"]), _rounded_up(float(one["num_threshold"])), len(feature)
        todo += [(int(one["left"]), len(feature)), (int(one["right"]), len(feature) + 1)]
        feature, bound, below = feature + [0, 0], bound + [0.0, 0.0], below + [0, 0]
    return feature, bound, below


def _rounded_up(value: float) -> float:
    found = float(f"{value:.7g}")
    while found < value:
        found = float(f"{found + abs(value) * 1e-6:.7g}")
    return found


def write_trees(paths: list[Path]) -> None:
    """Judge each search by trees fitted on those of other shapes, then fit on all and write gemm_corrections.json."""
    searches = {path.stem: Measured(recordings.load(path.stem, path.parent)) for path in paths}
    for name, judged in searches.items():
        base, trees = boosted([one for one in searches.values() if not one.drawn & judged.drawn])
        before, after = judged.losses(np.zeros(len(judged.rows))), judged.losses(gemm_corrections.Trees(base, trees).of(judged.rows))
        print(f"{name}: picks lose {100 * before.mean():.2f} % by the formula (at most {100 * before.max():.1f}), {100 * after.mean():.2f} % with trees fitted on the "
              f"others ({100 * after.max():.1f}), over {len(after)} shapes", flush=True)
    base, trees = boosted(list(searches.values()))
    write(gemm_corrections.FILE, list(searches), base, trees)
    print(f"written: {gemm_corrections.FILE.name}, {len(trees)} trees over {sum(len(one.rows) for one in searches.values())} launches")


def write(file: Path, names: Sequence[str], base: float, trees: Sequence[gemm_corrections.Tree]) -> None:
    """Trees as gemm_corrections reads them."""
    lines = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in trees)
    file.write_text(f'{{"base": {base:.6g},\n "fitted_on": {json.dumps(list(names))},\n "trees": [\n{lines}]}}\n', encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gemm_model", description="Fit the cost model of products to the recording `search`.")
    parser.add_argument("--descents", type=int, default=10, help="how often to descend from near the best so far (default 10; 0 only judges)")
    parser.add_argument("--trees", type=Path, nargs="+", metavar="SEARCH", help="fit the corrections on these recordings (at least two) instead, and write them")
    given = parser.parse_args(arguments)
    if given.trees:
        write_trees(given.trees)
        return 0
    search = Search(recordings.load("search"))
    print("now:", told(search, MODEL))
    if given.descents > 0:
        model = fitted(search, given.descents)
        print("fitted:", told(search, model))
        print("\n".join(f"    {f.name}: float = {float(f'{getattr(model, f.name):.3g}')}" for f in fields(Model)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
