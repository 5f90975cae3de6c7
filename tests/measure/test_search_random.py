# SPDX-License-Identifier: Apache-2.0
"""The searches of fp8 products and short attention: which shapes, what races at each, and what is told, with stand-ins for the GPU."""
import sys
import types
from dataclasses import replace

import pytest

from hopperlab.measure import recordings
from hopperlab.measure.launches import attention, fp8_choice
from hopperlab.measure.launches.random_cells import Cell
from hopperlab.measure.recordings import Record, Recording
from hopperlab.measure.suites import race, race_attention, race_fp8, search_random
from hopperlab.measure.suites.bench import Request, check


def test_short_cells_are_what_a_peer_takes():
    cells = [Cell.of(numbers) for numbers in search_random.short_cells(40, 5)]
    assert len(cells) == 40 and all(cell.even and max(cell.lengths) < search_random.LONG for cell in cells) and len({cell.d for cell in cells}) == 3
    assert search_random.short_cells(40, 5)[:9] == search_random.short_cells(9, 5) != search_random.short_cells(9, 6)


@pytest.mark.parametrize("name", ["search_fp8", "search_attention"])
def test_a_search_is_a_recording_of_its_own(name):
    assert [row.recording for row in check(Request("search", kernels=[name])).rows] == [name]


@pytest.mark.parametrize(("search", "module"), [(search_random.fp8, race_fp8), (search_random.attention, race_attention)], ids=("fp8", "attention"))
def test_each_shape_races_all_that_is_tried_beside_the_choice(search, module, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(get_default_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: None)))
    raced, kept = [], []

    def one(shape, kernels, peers):
        raced.append((shape, kernels))
        return race.Race(module.RACES.name, shape, "x", 1, "tflops", {}, lambda contestant: 0.0)

    def run(made, plan):
        assert plan.modes == (race.COLD,)
        if len(raced) == 2:
            raise race.WrongResult("one at 1x2x3: 5.00% of the elements are wrong")
        return [Record(made.suite, kernel, shape=made.shape) for kernel in ("tried", "final")]
    ahead = []
    monkeypatch.setattr(module, "RACES", replace(module.RACES, race=one, ahead=lambda shapes, kernels: ahead.append(shapes)))
    monkeypatch.setattr(search_random, "installed", lambda peers: {})
    monkeypatch.setattr(search_random.race, "run", run)
    records = search(3, kept.append)
    shapes, count = [shape for shape, _ in raced], search_random.COUNT if module is race_fp8 else search_random.CELLS
    assert ahead == [shapes] and len(shapes) == count
    assert all({"tried", "final"} <= set(kernels) for _, kernels in raced)
    assert len(records) == 2 * (count - 1) and len(kept) == count      # the shape with a wrong result is left out, and told


def test_what_is_told_is_the_best_beside_the_choice():
    def records(shape, best, pick):
        tried = [("64 x 128, k by 4", 0.01, {"ratio": best} if best else {}), ("slow", 0.02, {})]
        return [*(Record("fp8", "tried", shape=shape, ms=ms, note=note, **known) for note, ms, known in tried),
                Record("fp8", "final", shape=shape, ms=0.011, **({"ratio": pick} if pick else {})), Record("fp8", "peer", shape=shape, ms=0.012)]
    text = search_random.shown(Recording("search_fp8", {}, tuple(records((1, 2, 3), 1.2, 1.1) + records((4, 5, 6), 1.25, 1.0) + records((7, 8, 9), None, None))))
    assert "64 x 128, k by 4" in text and "slow" not in text and len(text.splitlines()) == 5
    assert "the best 1.225" in text and "the choice 1.049" in text and text.count("over 2 cells") == 2


def lost(records, pick):
    """What the pick loses to the fastest of these records of one shape; None where it was not among them."""
    mine = [record.ms for record in records if pick(record)]
    return min(mine) / min(record.ms for record in records) - 1 if mine else None


def races(name):
    found = {}
    for record in recordings.load(name, board="h200"):
        if record.kernel in ("tried", "final", "before"):
            found.setdefault(search_random.where(record), []).append(record)
    return list(found.values())


def test_picks_of_fp8_products_lose_little_of_what_was_tried():
    losses = []
    for records in races("search_fp8"):
        shape = records[0].shape
        _, choice = fp8_choice.possible(*shape)[fp8_choice.ranked(*shape)[0]]
        losses.append(lost(records, lambda record, choice=choice: fp8_choice.parsed(record.options) == choice))
    known = [loss for loss in losses if loss is not None]
    assert len(known) > 0.9 * len(losses) and sum(known) / len(known) < 0.015 and max(known) < 0.1


def test_picks_of_short_attention_lose_little_of_what_was_tried():
    losses = []
    for records in races("search_attention"):
        sequences, length, heads, d = records[0].shape
        kv_heads = next(int(option.removeprefix("KV_HEADS=")) for option in records[0].options if option.startswith("KV_HEADS="))
        choice = attention.choose(d, "causal" in records[0].options, length, sequences * heads, sequences * kv_heads)
        losses.append(lost(records, lambda record, choice=choice: attention.parsed(record.options[4:]) == choice))
    known = [loss for loss in losses if loss is not None]
    assert len(known) > 0.9 * len(losses) and sum(known) / len(known) < 0.015 and max(known) < 0.1
