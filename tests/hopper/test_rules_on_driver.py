# SPDX-License-Identifier: Apache-2.0
"""Our verdict on random tensor maps against the driver's own: needs libcuda and a Hopper GPU, skips elsewhere."""

import random

import pytest

from hopperlab.hopper import tensormap as tm

ADDRESS = 0x7F0000000000


@pytest.fixture(scope="module")
def driver():
    """cuda.bindings.driver with a context on a GPU of compute capability 9.0."""
    cuda = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    try:
        status = cuda.cuInit(0)[0]
    except RuntimeError as error:
        pytest.skip(f"no CUDA driver: {error}")
    if int(status):
        pytest.skip(f"cuInit says {status.name}: no NVIDIA GPU")
    major = cuda.cuDeviceGetAttribute(cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0)[1]
    if major != 9:
        pytest.skip(f"the GPU has compute capability {major}.x, tensor maps of sm_90 need 9.0")
    cuda.cuCtxSetCurrent(cuda.cuDevicePrimaryCtxRetain(0)[1])
    return cuda


def driver_accepts(cuda, f):
    """Whether cuTensorMapEncodeTiled or Im2col takes the map (a rank-1 map needs a stride array all the same, not NULL)."""
    u64, u32 = (lambda values: [cuda.cuuint64_t(v) for v in values]), (lambda values: [cuda.cuuint32_t(v) for v in values])
    head = (cuda.CUtensorMapDataType(tm.DTYPES[f.dtype].code), f.rank, f.global_address, u64(f.global_dim), u64(f.global_strides or (16,)))
    tail = (
        u32(f.element_strides), cuda.CUtensorMapInterleave(tm.INTERLEAVES.index(f.interleave)), cuda.CUtensorMapSwizzle(tm.SWIZZLES.index(f.swizzle)),
        cuda.CUtensorMapL2promotion(tm.L2_PROMOTIONS.index(f.l2_promotion)), cuda.CUtensorMapFloatOOBfill(tm.OOB_FILLS.index(f.oob_fill)),
    )
    if f.mode == "tiled":
        return not int(cuda.cuTensorMapEncodeTiled(*head, u32(f.box_dim), *tail)[0])
    corners = list(f.pixel_box_lower_corner), list(f.pixel_box_upper_corner)
    return not int(cuda.cuTensorMapEncodeIm2col(*head, *corners, f.channels_per_pixel, f.pixels_per_column, *tail)[0])


def random_map(rng, im2col):
    """A map that is right or has one thing changed, near the limits."""
    dtype = rng.choice(list(tm.DTYPES))
    es, rank = tm.DTYPES[dtype].elem_bytes, rng.choice([3, 4, 5] if im2col else [1, 2, 2, 3, 4, 5])
    dims, strides = [rng.choice([64, 100, 256, 1000]) for _ in range(rank)], []
    step = -(-dims[0] * es // 32) * 32
    for size in dims[1:]:
        strides.append(step)
        step *= size
    inner = max(1, min(256, rng.choice([16, 32, 64, 128, 256]) // es))
    interleave = rng.choice(["none"] * 6 + ["16B", "32B"])
    fields = dict(
        dtype=dtype, rank=rank, global_address=ADDRESS, global_dim=dims, global_strides=strides,
        element_strides=[rng.choice([1, 1, 1, 2, 3, 8]) for _ in range(rank)], interleave=interleave,
        swizzle="32B" if interleave == "32B" else rng.choice(tm.SWIZZLES), l2_promotion=rng.choice(tm.L2_PROMOTIONS),
        oob_fill=rng.choice(["zero", "zero", "nan"]),
    )
    if im2col:
        fields |= dict(channels_per_pixel=inner, pixels_per_column=rng.choice([1, 16, 64, 1024]))
        fields |= {f"pixel_box_{which}_corner": [rng.choice([0, -1, -2, 1]) for _ in range(rank - 2)] for which in ("lower", "upper")}
    else:
        fields["box_dim"] = [inner] + [rng.choice([1, 2, 4, 8]) for _ in range(rank - 1)]
    change(rng, fields)
    return tm.TensorMapFields(**fields)


def change(rng, fields):
    """Set one entry of one field to a value at, or just past, one of its limits."""
    at_limits = {
        "global_address": [ADDRESS + 8, ADDRESS + 16, ADDRESS + 32], "global_dim": [0, 1, 2**31 - 1, 2**31, 2**32, 2**32 + 1],
        "global_strides": [0, 8, 16, 24, 48, 2**40, 2**40 - 16, 2**40 - 32], "box_dim": [0, 1, 3, 12, 24, 255, 256, 257],
        "element_strides": [0, 7, 8, 9], "channels_per_pixel": [0, 1, 3, 24, 256, 257], "pixels_per_column": [0, 1, 1024, 1025],
        "pixel_box_lower_corner": [-32769, -129, -128, -17, -16, 15, 16, 127, 128, 32768, 2, 64],
        "pixel_box_upper_corner": [-32769, -129, -128, -17, -16, 15, 16, 127, 128, 32768, -64, -65],
    }
    name = rng.choice([n for n in at_limits if fields.get(n) not in (None, [])] + ["nothing"])
    if isinstance(fields.get(name), list):
        fields[name][rng.randrange(len(fields[name]))] = rng.choice(at_limits[name])
    elif name != "nothing":
        fields[name] = rng.choice(at_limits[name])


@pytest.mark.parametrize("im2col", [False, True], ids=["tiled", "im2col"])
def test_our_rules_and_the_driver_agree(driver, im2col):
    rng, accepted = random.Random(f"maps {im2col}"), 0
    for _ in range(5000):
        fields = random_map(rng, im2col)
        broken, taken = tm.violations(fields), driver_accepts(driver, fields)
        assert taken == (not broken), (fields, broken)
        accepted += taken
    assert 500 < accepted < 4500
