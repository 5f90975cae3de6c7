# SPDX-License-Identifier: Apache-2.0
"""Tensor maps from arrays: order, strides, errors, life of the array. Each rule itself is tested in tests/hopper."""
import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.hopper import tensormap


def tiled(shape=(64, 128), dtype=np.float32, **kwargs):
    kwargs.setdefault("box", (8, 16))
    return hl.TensorMap.tiled(np.zeros(shape, dtype), **kwargs)


def test_array_order_becomes_the_drivers():
    fields = tiled((5, 64, 128), np.float16, box=(1, 8, 32), element_strides=(1, 2, 1), swizzle="64B", l2_promotion="128B",
                   oob_fill="nan").fields
    assert (fields.rank, fields.global_dim, fields.box_dim) == (3, (128, 64, 5), (32, 8, 1))
    assert fields.global_strides == (256, 256 * 64) and fields.element_strides == (1, 2, 1)
    assert (fields.dtype, fields.swizzle, fields.l2_promotion, fields.oob_fill) == ("float16", "64B", "128B", "nan")


def test_views_are_described_as_they_are():
    base = np.zeros((64, 128), np.float32)
    fields = hl.TensorMap.tiled(base[2::2, 16:48], box=(4, 8)).fields
    assert fields.global_dim == (32, 31) and fields.global_strides == (1024,)
    assert fields.global_address == hl.TensorMap.tiled(base, box=(4, 8)).fields.global_address + 2 * 512 + 64


@pytest.mark.parametrize("dtype, name", [(ml_dtypes.bfloat16, "bfloat16"), (ml_dtypes.float8_e4m3fn, "uint8"), (np.int8, "uint8"),
                                         (np.uint32, "uint32"), (np.float64, "float64")])
def test_element_types(dtype, name):
    assert tiled(dtype=dtype).fields.dtype == name


def test_types_numpy_has_no_name_for():
    assert tiled(dtype=np.float32).fields.dtype == "float32"
    assert hl.TensorMap.tiled(np.zeros((8, 8), np.float32), box=(8, 8), dtype="tfloat32").fields.dtype == "tfloat32"


@pytest.mark.parametrize("make, words", [
    (lambda: tiled((512, 512), box=(257, 4)), "box_dim[1] = 257: a box edge is 1 to 256"),
    (lambda: tiled((64, 126), np.float16), "global_strides[0] = 252 bytes: a stride is a multiple of 16 bytes; pad the rows to 256"),
    (lambda: tiled(box=(8, 64), swizzle="128B"), "swizzle 128B holds inner boxes of at most 128 bytes (32 elements here)"),
    (lambda: tiled(box=(8,)), "box (8,) has 1 entry; the array has 2 axes"),
    (lambda: tiled(box=16), "box (16,) has 1 entry"),
    (lambda: tiled(box=(8, 1.5)), "box (8, 1.5) counts elements: whole numbers only"),
    (lambda: tiled((0, 64)), "global_dim[1] = 0: a tensor dimension is 1 to 2^32"),
    (lambda: tiled(element_strides=(1,)), "element_strides (1,) has 1 entry"),
    (lambda: tiled(swizzle="96B"), "swizzle '96B' is not one of none, 32B, 64B, 128B"),
    (lambda: tiled(dtype=np.complex64), "dtype 'complex64' has no tensor-map code"),
    (lambda: hl.TensorMap.tiled(np.zeros((64, 64), np.float32).T, box=(8, 8)), "the last axis has a stride of 256 bytes"),
    (lambda: hl.TensorMap.tiled(np.zeros((64, 64), np.float32)[:, 1:], box=(8, 8)), "must be 16-byte aligned"),
    (lambda: hl.TensorMap.tiled(np.zeros((64, 64), np.float32)[::-1], box=(8, 8)), "not negative"),
    (lambda: tiled((2,) * 6, box=(1,) * 6), "rank = 6"),
])
def test_broken_rules_name_the_numbers_and_the_array(make, words):
    with pytest.raises(hl.TensorMapError) as caught:
        make()
    assert words in str(caught.value) and "array of shape" in str(caught.value)
    assert caught.value._render_traceback_() == [f"TensorMapError: {caught.value}"], "no frames in a notebook"


def test_something_that_is_no_array():
    with pytest.raises(TypeError, match="describes a NumPy or CuPy array, not a list"):
        hl.TensorMap.tiled([1, 2, 3], box=(1,))


def test_the_array_lives_as_long_as_the_map():
    array = np.zeros((64, 64), np.float32)
    alive = weakref.ref(array)
    tensor_map = hl.TensorMap.tiled(array, box=(8, 8))
    del array
    gc.collect(1)                   # the young ones: in a run of the suite there are millions of old ones
    assert alive() is not None
    del tensor_map
    gc.collect(1)
    assert alive() is None


def test_print_shows_every_field():
    text = str(tiled(swizzle="64B"))
    for name in ("tensorDataType", "tensorRank", "globalAddress", "globalDim", "globalStrides", "boxDim", "elementStrides",
                 "interleave", "swizzle", "l2Promotion", "oobFill"):
        assert name in text
    assert "{128, 64}" in text and "0x" in text
    assert "0x" not in tiled().describe(address=False)


def test_the_value_is_128_bytes_that_unpack_to_the_same_fields():
    tensor_map = tiled()
    assert tensor_map.value.dtype.itemsize == 128
    assert tensormap.unpack(bytes(tensor_map)) == tensor_map.fields
    assert tensormap.unpack(tensor_map.at(0x1000)).global_address == 0x1000


def test_im2col_maps_turn_the_order_too():
    image = np.zeros((2, 5, 7, 32), np.float16)                                # N, H, W, C
    fields = hl.TensorMap.im2col(image, lower=(-1, -2), upper=(1, 0), channels=16, pixels=8, element_strides=(1, 2, 3, 1), swizzle="32B").fields
    assert (fields.mode, fields.global_dim, fields.box_dim) == ("im2col", (32, 7, 5, 2), ())
    assert (fields.pixel_box_lower_corner, fields.pixel_box_upper_corner) == ((-2, -1), (0, 1))
    assert (fields.channels_per_pixel, fields.pixels_per_column, fields.element_strides) == (16, 8, (1, 3, 2, 1))


def test_im2col_maps_keep_the_rules():
    with pytest.raises(hl.TensorMapError, match="pixels_per_column"):
        hl.TensorMap.im2col(np.zeros((2, 5, 7, 32), np.float16), (0, 0), (0, 0), channels=16, pixels=1025)
