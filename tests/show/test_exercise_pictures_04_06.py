"""Pictures of the exercises of lessons 04 to 06: what they say in words, and that they draw."""
import pytest

from hopperlab import show
from hopperlab.hopper import mbarrier

PNG = b"\x89PNG"


def test_phases_after_each_event():
    picture = show.draw_phases([["arrive_expect_tx", 32], ["arrive", 1], ["complete_tx", 32], ["arrive", 1]], count=2)
    assert [line.split("phase ")[1] for line in str(picture).splitlines()[1:]] == [
        "0, 2 arrivals pending, 0 bytes to come", "0, 1 arrivals pending, 32 bytes to come", "0, 0 arrivals pending, 32 bytes to come",
        "1, 2 arrivals pending, 0 bytes to come", "1, 1 arrivals pending, 0 bytes to come"]
    assert picture.png().startswith(PNG)


def test_phases_refuse_an_arrival_too_many():
    with pytest.raises(mbarrier.MbarrierError):
        show.draw_phases([["arrive_expect_tx", 16], ["arrive", 1]], count=1)


@pytest.mark.parametrize("stages", (2, 3))
def test_ring_has_a_row_a_slot_and_each_tile_in_its_own(stages):
    text = str(show.draw_ring(stages, 2 * stages + 1))
    assert all(f"slot {tile % stages}: copy under way copy {tile} from" in text for tile in range(2 * stages + 1))
    assert "tensor cores" not in text


def test_halo_names_box_and_start():
    picture = show.draw_halo(tile=8, halo=2, lead=4)
    assert "12 rows of 16 elements, from (-2, -4)" in str(picture)
    assert picture.png().startswith(PNG)


@pytest.mark.parametrize("span", (32, 64, 128))
def test_xor_on_the_address_finds_what_it_wants_and_on_the_offset_not(span):
    _, address, offset = str(show.draw_column_reads(span, piece=1, at=128)).splitlines()
    assert address.endswith("find " + ", ".join(f"{row}.1" for row in range(8)))
    assert not any(f" {row}.1" in offset.split("find")[1].split(",")[row] for row in range(8))
    assert "lanes 0 to 7 find 0.1, 1.1, 2.1" in str(show.draw_column_reads(span, piece=1, at=0)).splitlines()[2]
