"""What the recordings of the capstones decide: the configuration of each shape, read back from what was measured."""
import pytest

from hopperlab.hopper import limits
from hopperlab.measure import attention, fp8, launches_attention, launches_fp8


def test_every_configuration_fits_in_shared_memory():
    assert [name for name, choice in fp8.CONFIGURATIONS.items() if choice.shared_bytes > limits.SHARED_PER_BLOCK] == []
    assert [name for name, (d, choice) in attention._named().items() if choice.shared_bytes(d) > limits.SHARED_PER_BLOCK] == []


def test_a_configuration_is_read_back_from_its_record():
    for choice in fp8.CONFIGURATIONS.values():
        assert launches_fp8.parsed(fp8._named(choice)) == choice
    for _, choice in attention._named().values():
        assert launches_attention.parsed(choice.named) == choice


@pytest.mark.parametrize("parsed", [launches_fp8.parsed, launches_attention.parsed])
def test_an_option_that_is_gone_is_an_error(parsed):
    with pytest.raises(ValueError, match="has no gone"):
        parsed(("GONE=1",))


@pytest.mark.parametrize("shape", [*fp8.SHAPES, (1, 8, 16), (300, 5000, 4096), (64, 64, 64)])
def test_every_shape_gets_a_configuration_whose_grid_covers_it(shape):
    m, n, k = shape
    choice = launches_fp8.choose(m, n, k)
    grid = choice.grid(m, n)
    assert choice.group or grid[0] * choice.bm >= m and grid[1] * choice.bn >= n
    assert choice.group == 0 or 0 < grid[0] <= 132


@pytest.mark.parametrize("length", [1, 100, 1500, 16384, 10 ** 6])
@pytest.mark.parametrize("d", launches_attention.HEAD_SIZES)
def test_every_length_gets_the_configuration_of_the_nearest(d, length):
    chosen = launches_attention.choose(d, True, length)
    known = {size: choice for (head, causal, size), choice in launches_attention.table().items() if (head, causal) == (d, True)}
    assert chosen in (list(known.values()) or [launches_attention.BY_HEAD_SIZE[d]])


def test_work_of_a_cell():
    assert attention.flop(128, False, 4096) == 4 * 4 * 16 * 4096 ** 2 * 128
    assert attention.flop(128, True, 4096) == attention.flop(128, False, 4096) // 2
