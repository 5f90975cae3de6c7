# SPDX-License-Identifier: Apache-2.0
"""What --differential calls equal: the same bytes, or floats within their bound of the largest magnitude."""
import ml_dtypes
import numpy as np
import pytest
from support.differential import check_equal


def bits(array):
    return array.view(np.uint8).reshape(-1)


@pytest.mark.parametrize(("dtype", "by"), [(np.float32, 1e-6), (np.float64, 6e-13), (ml_dtypes.bfloat16, 2.0 ** -7)])
def test_floats_may_differ_in_their_last_bits_only(dtype, by):
    here = np.array([1, -2, np.inf, np.nan, 0.5], dtype)
    near, far = here.copy(), here.copy()
    near[4] += 2 * by
    far[4] += 6 * by
    check_equal(here, bits(near), "k")
    with pytest.raises(AssertionError, match="at flat index 4"):
        check_equal(here, bits(far), "k")
    check_equal(here, bits(far), "k", {here.itemsize: 4 * by})


@pytest.mark.parametrize(("here", "there"), [(np.inf, -np.inf), (np.inf, 1), (np.nan, 1), (1, np.nan), (0, 1e-3)])
def test_what_no_bound_forgives(here, there):
    with pytest.raises(AssertionError, match="index 1"):
        check_equal(np.array([0, here], np.float32), bits(np.array([0, there], np.float32)), "k")


def test_integers_are_equal_or_not():
    here = np.arange(4, dtype=np.int32)
    check_equal(here, bits(here.copy()), "k")
    with pytest.raises(AssertionError, match="left np.int32.7. at flat index 3"):
        check_equal(here, bits(np.array([0, 1, 2, 7], np.int32)), "k")
