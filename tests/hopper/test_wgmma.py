# SPDX-License-Identifier: Apache-2.0
"""Descriptors and operand addresses against the canonical layouts of PTX ISA 9.7.15.5.1.2 and tiles as TMA writes them."""

import math

import numpy as np
import pytest

from hopperlab.hopper import swizzle, wgmma

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}


def test_descriptor_bits():
    desc = wgmma.encode(0x2400, 16, 1024, "128B")
    assert desc == (0x240 | 1 << 16 | 64 << 32 | 1 << 62)
    assert [wgmma.encode(0, 0, 0, mode) >> 62 for mode in ("none", "128B", "64B", "32B")] == [0, 1, 2, 3]
    assert wgmma.encode(0, 0, 0, "none", base_offset=5) == 5 << 49


def test_encode_and_decode_are_inverse():
    rng = np.random.default_rng(11)
    for _ in range(500):
        start, lead, stride = (int(x) * 16 for x in rng.integers(0, 1 << 14, 3))
        mode, base = str(rng.choice(swizzle.SWIZZLES)), int(rng.integers(0, 8))
        desc = wgmma.encode(start, lead, stride, mode, base)
        assert 0 <= desc < 1 << 64
        assert wgmma.decode(desc) == wgmma.Descriptor(start, lead, stride, mode, base)


def test_only_18_bits_of_the_start_count():
    assert wgmma.encode(0x3000400, 16, 1024, "128B") == wgmma.encode(0x400, 16, 1024, "128B")


@pytest.mark.parametrize("arguments, words", [
    ((8, 16, 1024, "128B"), "start = 8"), ((0, 24, 1024, "128B"), "leading_bytes = 24"), ((0, 16, 1000, "128B"), "stride_bytes = 1000"),
    ((0, 16, 1 << 18, "128B"), "stride_bytes = 262144"), ((0, 16, 1024, "256B"), "'256B'"), ((0, 16, 1024, "128B", 8), "base_offset = 8"),
])
def test_fields_that_do_not_fit_are_named(arguments, words):
    with pytest.raises(wgmma.DescriptorError, match=words):
        wgmma.encode(*arguments)


def cute(shape, stride, index):
    total = 0
    for extent, step in zip(shape, stride):
        total += index % extent * step
        index //= extent
    return total


# PTX ISA 9.7.15.5.1.2.1.3, "exact layout" examples in elements: major, swizzle, bytes, shape, stride, LBO, SBO (bytes).
EXAMPLES = [
    ("K", "none", 4, ((8, 2), (4, 4)), ((4, 32), (1, 64)), 256, 128),
    ("K", "32B", 4, ((8, 2), (4, 4)), ((8, 64), (1, 4)), 16, 256),
    ("MN", "none", 2, ((8, 1, 2), (8, 2)), ((1, 8, 64), (8, 128)), 256, 128),
    ("MN", "32B", 2, ((8, 2, 2), (8, 2)), ((1, 8, 128), (16, 256)), 256, 512),
    ("MN", "64B", 2, ((8, 4, 2), (8, 2)), ((1, 8, 256), (32, 512)), 512, 1024),
]


@pytest.mark.parametrize("major, mode, es, shape, stride, lbo, sbo", EXAMPLES)
def test_offsets_of_the_ptx_examples(major, mode, es, shape, stride, lbo, sbo):
    rows, depth = math.prod(shape[0]), math.prod(shape[1])
    if major == "K" and mode != "none":
        depth = min(depth, SPANS[mode] // es)
    got = wgmma.offsets(np.arange(rows)[:, None], np.arange(depth)[None, :], wgmma.Descriptor(0, lbo, sbo, mode), es, major)
    want = [[(cute(shape[0], stride[0], m) + cute(shape[1], stride[1], k)) * es for k in range(depth)] for m in range(rows)]
    assert got.tolist() == want


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
@pytest.mark.parametrize("phase", range(0, 1024, 128))
def test_k_major_reads_the_tile_tma_wrote_at_every_k_step_and_phase(mode, phase):
    base, span, memory = 3 * 1024 + phase, SPANS[mode], {}
    for r in range(64):
        for k in range(span // 2):
            memory[swizzle.apply(base + r * span + k * 2, mode)] = (r, k)
    desc = wgmma.encode(base, 16, 8 * span, mode)
    for step in range(span // 32):
        addresses = wgmma.operand_addresses(wgmma.advance(desc, 32 * step), 64, 16, 2)
        assert all(memory[addresses[r, k]] == (r, 16 * step + k) for r in range(64) for k in range(16))


def test_mn_major_reads_two_boxes_of_64_columns():
    base, depth, memory = 3 * 1024, 64, {}
    for chunk in range(2):
        for k in range(depth):
            for m in range(64):
                memory[swizzle.apply(base + chunk * depth * 128 + k * 128 + m * 2, "128B")] = (chunk * 64 + m, k)
    for step in range(depth // 16):
        desc = wgmma.encode(base + 2048 * step, depth * 128, 1024, "128B")
        addresses = wgmma.operand_addresses(desc, 128, 16, 2, major="MN")
        assert all(memory[addresses[m, k]] == (m, 16 * step + k) for m in range(128) for k in range(16))


@pytest.mark.parametrize("mode", swizzle.SWIZZLES)
@pytest.mark.parametrize("start", [0x400, 0x480, 0x4A0, 0x1790])
def test_granules_are_the_elements_taken_sixteen_bytes_at_a_time(mode, start):
    desc = wgmma.encode(start, 4096, 8 * SPANS[mode], mode)
    elements = wgmma.operand_addresses(desc, 128, 16, 2)
    granules = wgmma.operand_granules(desc, 128)
    assert granules.shape == (128, 2) and (granules % 16 == 0).all()
    assert (granules[:, :, None] + 2 * np.arange(8) == elements.reshape(128, 2, 8)).all()
    elements = wgmma.operand_addresses(desc, 128, 16, 2, major="MN")
    granules = wgmma.operand_granules(desc, 128, major="MN")
    assert granules.shape == (16, 16)
    assert (granules[:, :, None] + 2 * np.arange(8) == elements.T.reshape(16, 16, 8)).all()


def test_element_sizes_share_the_bytes():
    desc = wgmma.encode(0x800, 16, 1024, "128B")
    bytes_ = wgmma.operand_addresses(desc, 64, 32, 1)
    assert (wgmma.operand_addresses(desc, 64, 8, 4) == bytes_[:, ::4]).all()
    assert (wgmma.operand_addresses(desc, 64, 16, 2) == bytes_[:, ::2]).all()
    assert len(set(bytes_.ravel())) == 64 * 32


def test_results_are_fresh_arrays():
    desc = wgmma.encode(0x800, 16, 1024, "128B")
    first = wgmma.operand_addresses(desc, 64, 16, 2)
    first += 1
    assert (wgmma.operand_addresses(desc, 64, 16, 2) == first - 1).all()


def test_what_wgmma_cannot_read_is_refused():
    with pytest.raises(wgmma.DescriptorError, match="base_offset = 3.*Encode 0"):
        wgmma.operand_addresses(wgmma.encode(0, 16, 1024, "128B", 3), 64, 16, 2)
    with pytest.raises(wgmma.DescriptorError, match="4-byte elements"):
        wgmma.operand_addresses(wgmma.encode(0, 16, 1024, "128B"), 64, 8, 4, major="MN")
    with pytest.raises(wgmma.DescriptorError, match="'N'"):
        wgmma.operand_addresses(wgmma.encode(0, 16, 1024, "128B"), 64, 8, 4, major="N")
    with pytest.raises(wgmma.DescriptorError, match="start"):
        wgmma.advance(wgmma.encode(0, 16, 1024, "128B"), 8)


def test_advance_changes_the_address_only():
    desc = wgmma.encode(0x2400, 16, 1024, "128B")
    assert wgmma.decode(wgmma.advance(desc, 96)) == wgmma.Descriptor(0x2460, 16, 1024, "128B")
    assert wgmma.advance(desc, 96) == desc + (96 >> 4)


def test_shapes_and_types():
    assert wgmma.legal_n("bf16") == tuple(range(8, 257, 8))
    integers = wgmma.legal_n("s8")
    assert {8, 16, 24, 32, 48, 240, 256} <= set(integers) and not {40, 56} & set(integers)
    for dtype, depth in wgmma.K_BY_DTYPE.items():
        assert depth * wgmma.ELEM_BITS[dtype] == 256
    assert wgmma.ACCUMULATORS["bf16"] == ("f32",) and "f16" in wgmma.ACCUMULATORS["e4m3"]
    with pytest.raises(ValueError, match="'f32'"):
        wgmma.legal_n("f32")
