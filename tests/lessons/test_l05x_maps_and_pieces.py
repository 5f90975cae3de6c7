# SPDX-License-Identifier: Apache-2.0
"""Lesson 05x: how many maps are kept, and what an early opening says of the pieces, from made-up recordings and from the stored one."""
import pytest

from hopperlab import measure
from hopperlab.lessons.l05x_inside_tma import maps_and_pieces as found
from hopperlab.measure.recordings import Record, Recording

HEAD = {"gpu": "G", "driver": "1", "cuda": "2", "date": "3"}


def cache_of(size: int, counts=(1, 2, 4, 8, 16)) -> Recording:
    """A cache of maps that evicts the longest unused: forwards one too many finds none, there and back the last ones are found."""
    records = []
    for count in counts:
        words = (f"maps={count}", "stride=128")
        forwards = 600.0 if count <= size else 1000.0
        back = 600.0 if count <= 2 * size else 1000.0
        records += [Record("maps", "map_cache", (*words, f"order={order}", f"use={use}"), value=value, unit="cycles")
                    for order, use, value in (("forwards", "again", forwards), ("forwards", "first", 1100.0), ("there and back", "again", back))]
    return Recording("engine", HEAD, tuple(records))


@pytest.mark.parametrize(("size", "kept"), [(4, (4, 8)), (1, (1, 2)), (64, (16, None))])
def test_what_is_kept_is_read_off_the_cycles(size, kept):
    assert found.kept(cache_of(size), found.FAR) == kept
    assert "used again, there and back: 1: 600, 2: 600" in found.maps_chart(cache_of(size)).text


def test_pieces():
    records = tuple(Record("pieces", "early_opening", (f"announced={told}", f"from={source}"), shape, unit="bytes", runs=10,
                            note=f"opened in {opened}", value=there, value_min=there)
                    for shape in ((64, 64), (64, 16), (8, 256)) for source in ("memory", "L2")
                    for told, opened, there in ((1000, 0, None), (1024, 5, 1280.0), (3072, 10, 4096.0), (2 * shape[0] * shape[1], 10, 2.0 * shape[0] * shape[1])))
    recording = Recording("engine", HEAD, records)
    assert found.pieces(recording, 64, 64, "L2")[1024] == (0.5, 1280.0)
    line = next(line for line in found.pieces_table(recording).splitlines() if line.startswith("64 x 64") and "memory" in line)
    assert line.split() == "64 x 64 128 B memory 100% 2 of 3 1024 1000 50% to 100% 16%".split()


def test_the_stored_recording():
    recording = measure.load("engine")
    near, far = (found.kept(recording, slower) for slower in (found.NEAR, found.FAR))
    assert 1 <= near[0] < far[0] and recording.source in found.maps_chart(recording).text
    spans = [most * stride for stride in (128, 1024) for most, _ in (found.kept(recording, found.FAR, stride=stride),)]
    assert spans[0] == spans[1], "the lesson says that a span of addresses is kept, not a number of maps"
    assert found.maps_table(recording).count(f"{spans[0] // 1024} KiB") == 2 and found.pieces_table(recording).count("\n") == 7
    assert all(found.pieces(recording, rows, columns, source)[2 * rows * columns] == (1.0, 2 * rows * columns)
               for rows, columns in ((64, 64), (64, 16), (8, 256)) for source in ("memory", "L2")), "told of all it opens, and all is there"
