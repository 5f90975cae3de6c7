# SPDX-License-Identifier: Apache-2.0
"""The emulator's array module: NumPy with device addresses."""
import numpy as np
import pytest

from hopperlab.runtime import arrays


@pytest.fixture
def xp():
    return arrays.array_module("emulator")


def test_it_is_numpy_to_look_at(xp):
    assert xp.__name__ == "numpy"
    assert xp.float32 is np.float32 and xp.pi == np.pi
    assert "zeros" in dir(xp)
    with pytest.raises(AttributeError):
        _ = xp.no_such_function


@pytest.mark.parametrize("make", [
    lambda xp: xp.zeros((4, 4), xp.float32), lambda xp: xp.arange(16), lambda xp: xp.asarray(np.ones(3)),
    lambda xp: xp.empty_like(np.ones(3)), lambda xp: xp.random.default_rng and xp.full(3, 2.0), lambda xp: xp.eye(3) + 1,
    lambda xp: xp.random.normal(size=5),
], ids=["zeros", "arange", "asarray", "empty_like", "full", "eye + 1", "random"])
def test_every_array_has_a_device_pointer(xp, make):
    array = make(xp)
    assert isinstance(array, np.ndarray) and isinstance(array.data.ptr, int)


def test_base_buffers_are_aligned_and_views_share_their_range(xp):
    array = xp.zeros((16, 32), np.float32)
    assert array.data.ptr % 512 == 0
    assert array[3:].data.ptr == array.data.ptr + 3 * 32 * 4
    assert array.reshape(-1).data.ptr == array.data.ptr


def test_two_arrays_never_touch(xp):
    one, two = xp.zeros(100, np.uint8), xp.zeros(100, np.uint8)
    assert abs(one.data.ptr - two.data.ptr) >= 100 + 512, "red zones lie between them"


def test_get_set_and_asnumpy(xp):
    array = xp.arange(4)
    copy = array.get()
    array.set(np.full(4, 9))
    assert type(copy) is np.ndarray and copy.tolist() == [0, 1, 2, 3]
    assert type(xp.asnumpy(array)) is np.ndarray and arrays.asnumpy(array).tolist() == [9] * 4
    assert arrays.asnumpy(np.arange(2)).tolist() == [0, 1]


def test_reductions_give_scalars(xp):
    assert xp.arange(4).sum() == 6 and xp.allclose(xp.ones(3), 1)


def test_synchronize_returns_at_once_in_the_emulator():
    assert arrays.synchronize("emulator") is None
