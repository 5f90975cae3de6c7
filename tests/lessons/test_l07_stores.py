# SPDX-License-Identifier: Apache-2.0
"""Lesson 07's figure, panel and exercise: the path with a fence, reductions against NumPy, groups, split-K."""

from itertools import pairwise

import numpy as np
import pytest

from hopperlab.lessons import l07_tma_stores
from hopperlab.lessons.l07_tma_stores import proxies, reductions
from hopperlab.measure.recordings import Record, Recording

HEADER = {"gpu": "a GPU", "driver": "1.2", "cuda": "13.0", "libraries": {}, "clocks": {}, "power_limit_watts": 700, "date": "2026-01-01", "method": "m"}


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    """Everything here runs in the emulator, on a GPU machine too."""
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    from hopperlab.runtime import backend

    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()


def test_the_drawings_agree_with_the_emulator():
    found = l07_tma_stores.run_places()
    assert [name for name, _, _ in found] == list(proxies.PLACES)
    assert [l07_tma_stores.fenced(place) for place in range(5)] == [not run.hazards for _, _, run in found] == [False, True, True, False, False]


def test_the_path_goes_from_the_store_to_the_read():
    for place in range(5):
        steps, edges = proxies.order_steps(place)
        path = proxies.ordering_path(place)
        assert path[0][0] == 0 and path[-1][1] == 5 and set(path) <= set(edges)
        assert all(a[1] == b[0] for a, b in pairwise(path))
        assert any(steps[to].kind == "fence" for _, to in path) == l07_tma_stores.fenced(place)
    with pytest.raises(ValueError, match="0 to 4"):
        proxies.order_steps(5)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.sampled(every=4)
def test_order_diagram_is_deterministic_and_has_words(place):
    first, second = (l07_tma_stores.order_diagram(place) for _ in range(2))
    assert first.png() == second.png() and len(first.png()) < 60_000
    assert ("yes, a path passes the fence" in first.text) == l07_tma_stores.fenced(place)
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in first.figure.axes)


@pytest.mark.parametrize("dtype", reductions.TYPES)
def test_every_reduction_of_a_type_is_its_reference(dtype):
    for operation in reductions.TYPES[dtype]:
        before, tile, after, right = l07_tma_stores.reduce_tile(operation, dtype)
        assert right and np.array_equal(after, l07_tma_stores.reduced(operation, before, tile)), operation


def test_wrapping_counters():
    old, value = np.array([0, 3, 5, 9], np.uint32), np.array([5, 5, 5, 5], np.uint32)
    assert l07_tma_stores.reduced("inc", old, value).tolist() == [1, 4, 0, 0]
    assert l07_tma_stores.reduced("dec", old, value).tolist() == [5, 2, 4, 5]


def test_panel_shows_a_reduction_and_explains_what_does_not_exist():
    picture = l07_tma_stores.launch_reduce("inc", "uint32")
    assert "inc of uint32: as the reference says: True" in picture.text and len(picture.png()) < 60_000
    for operation, dtype, types in (("xor", "bfloat16", "uint32, int32, uint64, int64"), ("inc", "int32", "uint32"), ("min", "float32", "float16")):
        with pytest.raises(ValueError, match=f"{operation} takes .*{types}"):
            l07_tma_stores.launch_reduce(operation, dtype)


def test_types_table_is_the_table():
    rows = l07_tma_stores.types_table().split("\n")
    assert rows[0].split() == list(reductions.OPERATIONS) and rows[-1].split() == ["float32", "yes", *["-"] * 7]


def test_groups_end_where_their_maps_say():
    written, run = l07_tma_stores.write_groups([5, 16, 39, 1])
    assert written[:, 0].astype(int).tolist() == [1] * 5 + [2] * 16 + [3] * 39 + [4] + [0] * 8 and not run.hazards


def test_split_k_exercise():
    def first(s, splits, k):
        return s * k // splits

    assert l07_tma_stores.check_split_k(first, 0, lambda splits: 4096 * splits).startswith("Right")
    assert "Not answered" in l07_tma_stores.check_split_k(None, None, None)
    assert "rise from 0 to 50" in l07_tma_stores.check_split_k(lambda s, splits, k: s * (k // splits), 0, lambda splits: 4096 * splits)
    assert "What did it hold" in l07_tma_stores.check_split_k(first, 1, lambda splits: 4096 * splits)
    assert "not 4096" in l07_tma_stores.check_split_k(first, 0, lambda splits: 4096)
    assert "more evenly" in l07_tma_stores.check_split_k(lambda s, splits, k: 0 if s == 0 else k, 0, lambda splits: 4096 * splits)


def test_store_table_lists_what_was_recorded():
    words = l07_tma_stores.store_table(Recording("copy", HEADER, (Record("copy", "tma_copy", ("A=1",), (8, 8), gb_s=100.0, ratio=0.5, peer="p"),
                                                                  Record("copy", "other", gb_s=1.0))), ("tma_copy",))
    assert "tma_copy" in words and "100 GB/s, 0.500 of p" in words and "other" not in words
    assert "nothing recorded" in l07_tma_stores.store_table(Recording("copy", HEADER, ()), ("tma_copy",))


def test_handover_diagram_breaks_at_block_scope():
    steps, edges = proxies.handover_steps("gpu")
    assert set(edges) - set(proxies.handover_steps("cta")[1]) == {(3, 4)} and steps[3].words.startswith("st.release")
    for scope, words in (("gpu", "ordered: a path leads"), ("cta", "does not reach the other block")):
        first, second = (l07_tma_stores.handover_diagram(scope) for _ in range(2))
        assert words in first.text and first.png() == second.png() and len(first.png()) < 60_000
    with pytest.raises(ValueError, match="'cta' and 'gpu'"):
        proxies.handover_steps("sys")
