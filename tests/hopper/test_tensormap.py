# SPDX-License-Identifier: Apache-2.0
"""Tensor maps: one test a rule, the 128-byte image, tensormap.replace, and the printed description."""

import dataclasses

import pytest

from hopperlab.hopper import tensormap as tm

GOOD = tm.TensorMapFields(
    dtype="bfloat16", rank=2, global_address=0x7F0000001000, global_dim=(512, 256), global_strides=(1024,), box_dim=(64, 128), swizzle="128B",
)
GOOD3 = dataclasses.replace(
    GOOD, rank=3, global_dim=(512, 256, 8), global_strides=(1024, 262144), box_dim=(8, 16, 2), element_strides=(1, 1, 1), swizzle="none",
)
IM2COL = tm.TensorMapFields(
    dtype="float16", rank=4, global_address=0, global_dim=(64, 9, 14, 2), global_strides=(128, 1152, 16128), pixel_box_lower_corner=(-1, -1),
    pixel_box_upper_corner=(-1, -1), channels_per_pixel=8, pixels_per_column=64,
)


def test_good_maps_pass():
    for fields in (GOOD, GOOD3, IM2COL):
        assert tm.violations(fields) == []
        tm.check(fields)


# (base map, changes, rule, words of the message)
BROKEN = [
    (GOOD, dict(dtype="complex64"), "dtype", "'complex64' has no tensor-map code"),
    (GOOD, dict(swizzle="128B_ATOM_32B"), "names", "ATOM variants need sm_100"),
    (GOOD, dict(interleave="64B"), "names", "interleave '64B'"),
    (GOOD, dict(l2_promotion="512B"), "names", "l2_promotion '512B'"),
    (GOOD, dict(oob_fill="one"), "names", "oob_fill 'one'"),
    (GOOD, dict(rank=0), "rank", "rank = 0"),
    (GOOD, dict(rank=6), "rank", "rank = 6: a tensor map has 1 to 5"),
    (IM2COL, dict(rank=2), "rank", "im2col needs 3, 4 or 5"),
    (GOOD, dict(interleave="16B"), "rank_interleave", "rank = 2 with interleave 16B"),
    (GOOD, dict(global_strides=(1024, 16)), "lengths", r"global_strides has 2 entries \{1024, 16\}: rank 2 asks for 1"),
    (GOOD, dict(box_dim=(64,)), "lengths", "box_dim has 1 entries"),
    (IM2COL, dict(pixel_box_lower_corner=(0,)), "lengths", "pixel_box_lower_corner has 1 entries"),
    (GOOD, dict(global_address=0x1008), "global_address", "0x1008 is 8 bytes past a multiple of 16"),
    (GOOD, dict(global_address=-16), "global_address", "not a 64-bit address"),
    (GOOD3, dict(interleave="32B", swizzle="32B", global_address=0x1010, box_dim=(16, 2, 2)), "global_address_interleave", "16 bytes past a multiple of 32"),
    (GOOD, dict(global_dim=(0, 256)), "global_dim", r"global_dim\[0\] = 0: a tensor dimension is 1 to 2\^32"),
    (GOOD, dict(global_dim=(512, 2**32 + 1)), "global_dim", r"global_dim\[1\] = 4294967297"),
    (GOOD, dict(global_strides=(1000,)), "global_strides", r"global_strides\[0\] = 1000 bytes.*pad the rows to 1008"),
    (GOOD, dict(global_strides=(2**40,)), "global_strides_range", r"less than 2\^40"),
    (GOOD, dict(global_strides=(-1024,)), "global_strides_range", "not negative"),
    (GOOD3, dict(interleave="32B", swizzle="32B", global_strides=(1040, 262144), box_dim=(16, 2, 2)), "global_strides_interleave", "multiple of 32"),
    (GOOD, dict(box_dim=(64, 300)), "box_dim", r"box_dim\[1\] = 300: a box edge is 1 to 256 elements \(cuTensorMapEncodeTiled, boxDim\)"),
    (GOOD, dict(box_dim=(64, 0)), "box_dim", r"box_dim\[1\] = 0"),
    (GOOD, dict(box_dim=(12, 8)), "box_inner", r"box_dim\[0\] = 12 elements x 2 bytes = 24 bytes.*multiple of 16 bytes \(8 elements here\)"),
    (GOOD, dict(element_strides=(1, 9)), "element_strides", r"element_strides\[1\] = 9: a step is 1 to 8"),
    (GOOD, dict(element_strides=(0, 1)), "element_strides", r"element_strides\[0\] = 0.*ignored without interleave, but its range is not"),
    (GOOD3, dict(box_dim=(64, 256, 8)), "tile_size", "64 x 256 x 8 elements x 2 bytes = 262144 bytes: at most 233472 fit"),
    (GOOD, dict(box_dim=(128, 8)), "swizzle_inner", r"128 elements x 2 bytes = 256 bytes: swizzle 128B holds inner boxes of at most 128 bytes \(64"),
    (GOOD, dict(box_dim=(64, 8), swizzle="64B"), "swizzle_inner", "at most 64 bytes"),
    (GOOD, dict(box_dim=(32, 8), swizzle="32B"), "swizzle_inner", "at most 32 bytes"),
    (GOOD3, dict(interleave="32B", swizzle="64B", box_dim=(16, 2, 2)), "swizzle_interleave", "interleave 32B goes only with swizzle 32B"),
    (GOOD, dict(dtype="uint16", oob_fill="nan"), "oob_fill", "NaN fill needs a floating-point type"),
    (IM2COL, dict(pixel_box_lower_corner=(-129, 0)), "corners", r"pixel_box_lower_corner\[0\] = -129: with rank 4 a corner offset is -128 to 127"),
    (IM2COL, dict(pixel_box_upper_corner=(0, 128)), "corners", r"pixel_box_upper_corner\[1\] = 128"),
    (IM2COL, dict(pixel_box_lower_corner=(0, 0), pixel_box_upper_corner=(-9, 0)), "corner_area", "0 pixels along dimension 1"),
    (IM2COL, dict(global_dim=(64, 2**31 + 1, 14, 2)), "corner_limit", r"below 2\^31"),
    (IM2COL, dict(channels_per_pixel=257), "channels_per_pixel", "channels_per_pixel = 257: one pixel gives 1 to 256"),
    (IM2COL, dict(channels_per_pixel=0), "channels_per_pixel", "channels_per_pixel = 0"),
    (IM2COL, dict(channels_per_pixel=12), "channels_inner", "channels_per_pixel = 12 elements x 2 bytes = 24 bytes"),
    (IM2COL, dict(channels_per_pixel=32, swizzle="32B"), "swizzle_inner", "channels_per_pixel = 32"),
    (IM2COL, dict(pixels_per_column=1025), "pixels_per_column", "1 to 1024 pixels.*cuTensorMapEncodeIm2col, pixelsPerColumn"),
    (IM2COL, dict(channels_per_pixel=256, pixels_per_column=1024), "tile_size", "256 x 1024"),
]


@pytest.mark.parametrize("base, changes, rule, words", BROKEN, ids=[f"{r}-{i}" for i, (_, _, r, _) in enumerate(BROKEN)])
def test_each_rule_is_named_with_its_numbers(base, changes, rule, words):
    with pytest.raises(tm.TensorMapError, match=words) as caught:
        tm.check(dataclasses.replace(base, **changes))
    assert caught.value.rule == rule
    assert isinstance(caught.value, ValueError)


def test_every_rule_has_a_test():
    assert {rule.name for rule in tm.RULES} == {rule for _, _, rule, _ in BROKEN}


def test_values_at_the_limits_pass():
    tm.check(dataclasses.replace(GOOD, global_dim=(2**32, 1), global_strides=(2**40 - 16,), box_dim=(8, 256), element_strides=(8, 8)))
    tm.check(dataclasses.replace(GOOD, dtype="float32_ftz", box_dim=(32, 1), oob_fill="nan", l2_promotion="256B"))
    tm.check(dataclasses.replace(GOOD, dtype="uint8", swizzle="none", box_dim=(256, 256), global_strides=(0,)))
    tm.check(dataclasses.replace(GOOD3, interleave="32B", swizzle="32B", box_dim=(16, 2, 2)))
    tm.check(dataclasses.replace(GOOD3, dtype="uint8", global_strides=(1024, 262144), box_dim=(256, 228, 4)))
    tm.check(dataclasses.replace(IM2COL, rank=3, global_dim=(64, 9, 2), global_strides=(128, 1152), element_strides=(1, 1, 1),
                                 pixel_box_lower_corner=(-32768,), pixel_box_upper_corner=(32767,), pixels_per_column=1024))


def test_all_broken_rules_are_listed():
    fields = dataclasses.replace(GOOD, global_address=8, global_strides=(1000,), box_dim=(300, 128))
    assert [rule for rule, _ in tm.violations(fields)] == ["global_address", "global_strides", "box_dim", "box_inner", "swizzle_inner"]


def test_lists_and_numpy_ints_become_tuples_of_int():
    np = pytest.importorskip("numpy")
    fields = tm.TensorMapFields("bfloat16", 2, np.int64(4096), [np.int64(512), 256], [1024], np.array([64, 128]), swizzle="128B")
    assert fields == dataclasses.replace(GOOD, global_address=4096) and hash(fields) == hash(dataclasses.replace(GOOD, global_address=4096))
    assert fields.element_strides == (1, 1) and type(fields.global_dim[0]) is int


def test_types_without_a_code_travel_as_bytes():
    assert dataclasses.replace(GOOD, dtype="float8_e4m3fn").dtype == "uint8"
    assert [tm.dtype_name(n) for n in ("int8", "int16", "float8_e5m2", "float16")] == ["uint8", "uint16", "uint8", "float16"]
    assert [kind.code for kind in tm.DTYPES.values()] == list(range(13))
    assert sorted(kind.replace_code for kind in tm.DTYPES.values()) == list(range(13))
    assert tm.DTYPES["float64"].replace_code == 9 and tm.DTYPES["bfloat16"].replace_code == 10


ROUND_TRIPS = [
    GOOD, GOOD3, IM2COL,
    dataclasses.replace(GOOD3, interleave="16B", l2_promotion="128B", oob_fill="nan", element_strides=(1, 2, 8)),
    dataclasses.replace(GOOD, global_dim=(2**32, 1), global_address=2**64 - 16, global_strides=(2**40 - 16,)),
    tm.TensorMapFields("uint8", 1, 0, (7,), (), (16,)),
    tm.TensorMapFields("float64", 5, 32, (4, 3, 2, 5, 6), (32, 96, 192, 960), (2, 1, 1, 1, 1), (1, 1, 2, 3, 4)),
    dataclasses.replace(IM2COL, rank=5, global_dim=(64, 9, 14, 3, 2), global_strides=(128, 1152, 16128, 48384), element_strides=(1,) * 5,
                        pixel_box_lower_corner=(-16, 0, 15), pixel_box_upper_corner=(15, -1, -16)),
]


@pytest.mark.parametrize("fields", ROUND_TRIPS)
def test_pack_and_unpack_are_inverse(fields):
    image = tm.pack(fields)
    assert len(image) == tm.IMAGE_BYTES == 128 and tm.unpack(image) == fields


def test_garbage_is_recognised():
    image = tm.pack(GOOD)
    with pytest.raises(tm.TensorMapError, match="all zero"):
        tm.unpack(bytes(128))
    with pytest.raises(tm.TensorMapError, match="first word is 0x0a0a0a0a"):
        tm.unpack(b"\n" * 128)
    with pytest.raises(tm.TensorMapError, match="128 bytes, not 64"):
        tm.unpack(image[:64])
    for at in (5, 16, 60, 127):
        with pytest.raises(tm.TensorMapError, match="partly overwritten"):
            tm.unpack(image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :])


def test_pack_refuses_what_no_map_could_hold():
    with pytest.raises(tm.TensorMapError, match="do not fit"):
        tm.pack(dataclasses.replace(GOOD, global_dim=(2**33, 1)))
    with pytest.raises(tm.TensorMapError, match="'256B' has no code"):
        tm.pack(dataclasses.replace(GOOD, swizzle="256B"))


def test_load_checks_the_rules():
    assert tm.load(tm.pack(GOOD)) == GOOD
    with pytest.raises(tm.TensorMapError, match=r"box_dim\[1\] = 300"):
        tm.load(tm.pack(dataclasses.replace(GOOD, box_dim=(64, 300))))


@pytest.mark.parametrize("field, ordinal, value, changed", [
    ("global_address", None, 0x20, dict(global_address=0x20)),
    ("box_dim", 1, 32, dict(box_dim=(64, 32))),
    ("global_dim", 0, 500, dict(global_dim=(500, 256))),
    ("global_stride", 0, 2048, dict(global_strides=(2048,))),
    ("element_stride", 1, 2, dict(element_strides=(1, 2))),
    ("elemtype", None, 6, dict(dtype="float16")),
    ("elemtype", None, 9, dict(dtype="float64")),
    ("elemtype", None, 8, dict(dtype="float32_ftz")),
    ("swizzle_mode", None, 1, dict(swizzle="32B")),
    ("interleave_layout", None, 2, dict(interleave="32B")),
    ("fill_mode", None, 1, dict(oob_fill="nan")),
])
def test_replace_changes_one_field(field, ordinal, value, changed):
    assert tm.unpack(tm.replace(tm.pack(GOOD), field, ordinal, value)) == dataclasses.replace(GOOD, **changed)


def test_replace_builds_a_map_field_by_field_in_any_order():
    image = tm.pack(GOOD)
    steps = [("global_stride", 1, 262144), ("global_dim", 2, 8), ("box_dim", 0, 8), ("box_dim", 1, 16), ("rank", None, 2), ("box_dim", 2, 2),
             ("swizzle_mode", None, 0)]
    for order in (steps, steps[::-1]):
        built = image
        for step in order:
            built = tm.replace(built, *step)
        assert tm.unpack(built) == GOOD3


@pytest.mark.parametrize("arguments, words", [
    (("strides", None, 1), "no field 'strides'"), (("box_dim", None, 1), "ordinal None"), (("box_dim", 5, 1), "not 0 to 4"),
    (("global_stride", 4, 16), "not 0 to 3"), (("rank", None, 5), "rank minus one"), (("elemtype", None, 13), "13 is not a code"),
    (("swizzle_mode", None, 4), "4 is not a code"), (("global_dim", 0, 0), "0 elements"),
])
def test_replace_refuses(arguments, words):
    with pytest.raises(tm.TensorMapError, match=words):
        tm.replace(tm.pack(GOOD), *arguments)


def test_replace_is_for_tiled_maps():
    with pytest.raises(tm.TensorMapError, match="im2col"):
        tm.replace(tm.pack(IM2COL), "global_address", None, 16)


def test_description_is_aligned_and_in_the_drivers_order():
    assert tm.describe(GOOD).splitlines() == [
        "tensor map, tiled",
        "  tensorDataType  bfloat16        code 9, 2 bytes per element",
        "  tensorRank      2               dimensions, innermost first below",
        "  globalAddress   0x7f0000001000  bytes",
        "  globalDim       {512, 256}      elements",
        "  globalStrides   {1024}          bytes, of dimension 1 and up",
        "  boxDim          {64, 128}       elements",
        "  elementStrides  {1, 1}          elements",
        "  interleave      none",
        "  swizzle         128B",
        "  l2Promotion     none",
        "  oobFill         zero",
        "  in shared memory: 128 rows, 128 bytes apart = 16384 bytes",
        "  counted by the mbarrier: 16384 bytes a copy",
    ]


def test_description_without_address_of_narrow_broken_and_im2col_maps():
    narrow = tm.describe(dataclasses.replace(GOOD, box_dim=(16, 4)), address=False)
    assert "globalAddress" not in narrow and "4 rows, 128 bytes apart, 32 of them filled = 512 bytes" in narrow
    broken = tm.describe(dataclasses.replace(GOOD, dtype="complex64", box_dim=(64, 300)))
    assert "no such type" in broken and "broken: dtype 'complex64'" in broken
    assert "channelsPerPixel     8" in tm.describe(IM2COL) and "boxDim" not in tm.describe(IM2COL)
    assert "shared memory" not in tm.describe(dataclasses.replace(GOOD3, interleave="16B"))
