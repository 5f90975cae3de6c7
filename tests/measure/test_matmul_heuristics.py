# SPDX-License-Identifier: Apache-2.0
"""How well estimates rank what a search timed: ranks that are shared, and what a pick loses."""
import pytest

from hopperlab.measure.recordings import Record
from hopperlab.measure.summaries import TURNED

heuristics = pytest.importorskip("benchmarks.matmul_heuristics", reason="a checkout of the repository has it, an installed package not")


def test_equal_values_share_their_rank():
    assert heuristics.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1) and heuristics.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert heuristics.spearman([1, 1, 2, 2], [1, 2, 3, 4]) == heuristics.spearman([1, 1, 2, 2], [2, 1, 4, 3]) == pytest.approx(2 / 5 ** 0.5)
    assert heuristics.spearman([1, 1, 1], [1, 2, 3]) == 0


def test_a_pick_loses_what_the_fastest_was_faster_and_of_several_picks_their_mean():
    def record(ms, note, kernel="final", stream="STREAM=0", shape=(1, 2, 3)):
        return Record("search", kernel, (stream,), shape, ms=ms, note=note)
    others = [record(9.0, f"4 {TURNED}"), record(9.0, "1", stream="STREAM=1"), record(9.0, "1", kernel="split_k"), record(1.0, "1", shape=(4, 5, 6))]
    search = [record(2.0, "1"), record(1.0, "2"), record(3.0, "3"), *others]
    (race,) = heuristics.races(search, lambda record: True)
    assert [found.ms for found in race] == [2.0, 1.0, 3.0]
    correlation, loss, most = heuristics.judged([race], heuristics.ours)
    assert correlation == pytest.approx(0.5) and loss == pytest.approx(1.0) == pytest.approx(most)
    assert heuristics.judged([race], lambda record: 7.0 if record.ms < 3 else 8.0)[1] == pytest.approx(0.5)
