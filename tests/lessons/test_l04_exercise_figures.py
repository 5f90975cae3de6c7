# SPDX-License-Identifier: Apache-2.0
"""Lesson 04: the pictures of its exercises: phases after each event, and a ring's rows."""
import pytest

from hopperlab.hopper import mbarrier
from hopperlab.lessons import l04_mbarrier

PNG = b"\x89PNG"


def test_phases_after_each_event():
    picture = l04_mbarrier.draw_phases([["arrive_expect_tx", 32], ["arrive", 1], ["complete_tx", 32], ["arrive", 1]], count=2)
    assert [line.split("phase ")[1] for line in str(picture).splitlines()[1:]] == [
        "0; pending arrivals: 2; bytes to come: 0", "0; pending arrivals: 1; bytes to come: 32", "0; pending arrivals: 0; bytes to come: 32",
        "1; pending arrivals: 2; bytes to come: 0", "1; pending arrivals: 1; bytes to come: 0"]
    assert picture.png().startswith(PNG)


def test_phases_refuse_an_arrival_too_many():
    with pytest.raises(mbarrier.MbarrierError):
        l04_mbarrier.draw_phases([["arrive_expect_tx", 16], ["arrive", 1]], count=1)


@pytest.mark.parametrize("stages", (2, 3))
def test_ring_has_a_row_a_slot_and_each_tile_in_its_own(stages):
    text = str(l04_mbarrier.draw_ring(stages, 2 * stages + 1))
    assert all(f"slot {tile % stages}: copy under way copy {tile} from" in text for tile in range(2 * stages + 1))
    assert "tensor cores" not in text
