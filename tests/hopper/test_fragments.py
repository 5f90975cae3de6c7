# SPDX-License-Identifier: Apache-2.0
"""Register fragments: bijective, equal to CUTLASS's layouts, and consistent between ldmatrix and mma."""

import itertools

import numpy as np
import pytest

from hopperlab.hopper import fragments


def cells(fragment):
    return list(zip(fragment.row.ravel().tolist(), fragment.col.ravel().tolist()))


def cute_64(thread_shape, thread_stride, value_shape, value_stride, thread, value):
    """A CuTe (thread, value) layout over a column-major matrix of 64 rows, as (row, col)."""
    at = 0
    for shape, stride, index in ((thread_shape, thread_stride, thread), (value_shape, value_stride, value)):
        for extent, step in zip(shape, stride):
            at += index % extent * step
            index //= extent
    return at % 64, at // 64


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_wgmma_d_covers_the_accumulator_once(n):
    d = fragments.wgmma_d(n)
    assert d.row.shape == d.col.shape == (128, n // 2)
    assert sorted(cells(d)) == list(itertools.product(range(64), range(n)))


def test_wgmma_d_is_cutlass_clayout():
    d = fragments.wgmma_d(256)
    for t in range(128):
        for v in range(128):
            assert cute_64((4, 8, 4), (128, 1, 16), (2, 2, 32), (64, 8, 512), t, v) == (d.row[t, v], d.col[t, v])


# CUTLASS mma_traits_sm90_gmma.hpp: ALayout_64x16 (16-bit), 64x8 (tf32), 64x32 (8-bit).
ALAYOUTS = [
    (16, 16, (4, 8, 4), (128, 1, 16), (2, 2, 2), (64, 8, 512)),
    (32, 8, (4, 8, 4), (64, 1, 16), (2, 2), (8, 256)),
    (8, 32, (4, 8, 4), (256, 1, 16), (4, 2, 2), (64, 8, 1024)),
]


@pytest.mark.parametrize("bits, depth, ts, td, vs, vd", ALAYOUTS)
def test_wgmma_a_is_cutlass_alayout(bits, depth, ts, td, vs, vd):
    a = fragments.wgmma_a(bits)
    assert a.row.shape == (128, 128 // bits)
    assert sorted(cells(a)) == list(itertools.product(range(64), range(depth)))
    for t in range(128):
        for e in range(a.row.shape[1]):
            assert cute_64(ts, td, vs, vd, t, e) == (a.row[t, e], a.col[t, e])


def test_a_converted_accumulator_is_an_a_fragment():
    """Why a softmax needs no shuffle: columns 16j..16j+15 of D are thread for thread the next product's A."""
    d, a = fragments.wgmma_d(64), fragments.wgmma_a(16)
    for j in range(4):
        assert (d.row[:, 8 * j : 8 * j + 8] == a.row).all() and (d.col[:, 8 * j : 8 * j + 8] == a.col + 16 * j).all()


@pytest.mark.parametrize("n", [0, 4, 12, 264])
def test_wgmma_d_names_a_wrong_n(n):
    with pytest.raises(ValueError, match=f"n = {n}"):
        fragments.wgmma_d(n)


def test_wgmma_a_names_wrong_bits():
    with pytest.raises(ValueError, match="elem_bits = 4"):
        fragments.wgmma_a(4)


ALL = [(shape, dtype) for dtype, shapes in fragments.MMA_SHAPES.items() for shape in shapes]


@pytest.mark.parametrize("shape, dtype", ALL)
def test_mma_fragments_cover_their_matrices_once(shape, dtype):
    m, rest = shape[1:].split("n")
    n, k = (int(x) for x in rest.split("k"))
    f = fragments.mma(shape, dtype)
    assert sorted(cells(f.a)) == list(itertools.product(range(int(m)), range(k)))
    assert sorted(cells(f.b)) == list(itertools.product(range(k), range(n)))
    assert sorted(cells(f.c)) == list(itertools.product(range(int(m)), range(n)))


def test_m16n8k16_is_as_the_ptx_isa_words_it():
    """PTX ISA 9.7.14.5.8, spelled out for one lane (g = 5, q = 2)."""
    lane, g, q = 22, 5, 2
    a, b, c = fragments.mma_m16n8k16_a(), fragments.mma_m16n8k16_b(), fragments.mma_m16n8k16_c()
    assert a.row[lane].tolist() == [g, g, g + 8, g + 8, g, g, g + 8, g + 8]
    assert a.col[lane].tolist() == [2 * q, 2 * q + 1, 2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9, 2 * q + 8, 2 * q + 9]
    assert b.row[lane].tolist() == [2 * q, 2 * q + 1, 2 * q + 8, 2 * q + 9] and (b.col[lane] == g).all()
    assert c.row[lane].tolist() == [g, g, g + 8, g + 8] and c.col[lane].tolist() == [2 * q, 2 * q + 1] * 2


def test_tf32_and_int8_are_as_the_ptx_isa_words_them():
    """PTX ISA 9.7.14.5.7 (m16n8k8, tf32) and 9.7.14.5.10 (m16n8k32, 8-bit) for one lane."""
    lane, g, q = 22, 5, 2
    a = fragments.mma("m16n8k8", "tf32").a
    assert a.row[lane].tolist() == [g, g + 8, g, g + 8] and a.col[lane].tolist() == [q, q, q + 4, q + 4]
    b = fragments.mma("m16n8k32", "s8").b
    assert b.row[lane].tolist() == [4 * q + i for i in range(4)] + [4 * q + 16 + i for i in range(4)]
    a = fragments.mma("m16n8k32", "s8").a
    assert a.row[lane, ::4].tolist() == [g, g + 8, g, g + 8] and a.col[lane, ::4].tolist() == [4 * q, 4 * q, 4 * q + 16, 4 * q + 16]


def test_f16_m16n8k8_is_the_first_half_of_k16():
    half, whole = fragments.mma("m16n8k8", "f16"), fragments.mma("m16n8k16", "f16")
    assert (half.a.row == whole.a.row[:, :4]).all() and (half.a.col == whole.a.col[:, :4]).all()
    assert (half.b.row == whole.b.row[:, :2]).all()


def test_ldmatrix_x4_feeds_mma_a_and_trans_feeds_b():
    """Matrices in the order (rows 0-7, k 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15) give the A registers."""
    piece, a = fragments.ldmatrix(), fragments.mma_m16n8k16_a()
    for j in range(4):
        assert (a.row[:, 2 * j : 2 * j + 2] == piece.row + 8 * (j & 1)).all()
        assert (a.col[:, 2 * j : 2 * j + 2] == piece.col + 8 * (j >> 1)).all()
    piece, b = fragments.ldmatrix(trans=True), fragments.mma_m16n8k16_b()
    for j in range(2):
        assert (b.row[:, 2 * j : 2 * j + 2] == piece.row + 8 * j).all() and (b.col[:, 2 * j : 2 * j + 2] == piece.col).all()


def test_ldmatrix_addresses():
    assert fragments.ldmatrix_address_lanes(4).tolist() == [list(range(8 * j, 8 * j + 8)) for j in range(4)]
    with pytest.raises(ValueError, match="num = 3"):
        fragments.ldmatrix_address_lanes(3)


def test_movmatrix_transposes():
    matrix = np.random.default_rng(5).integers(0, 1 << 16, (8, 8))
    at, source = fragments.ldmatrix(), fragments.movmatrix()
    registers = matrix[at.row, at.col]
    out = np.zeros_like(matrix)
    out[at.row, at.col] = registers[source.row, source.col]
    assert (out == matrix.T).all()


def test_a_product_through_fragments():
    """An mma written with fragments only equals the matrix product."""
    rng = np.random.default_rng(9)
    a, b = rng.integers(-8, 8, (16, 32)), rng.integers(-8, 8, (32, 8))
    f = fragments.mma("m16n8k32", "s8")
    a_back, b_back, c = np.zeros_like(a), np.zeros_like(b), np.zeros((16, 8), dtype=int)
    a_back[f.a.row, f.a.col] = a[f.a.row, f.a.col]
    b_back[f.b.row, f.b.col] = b[f.b.row, f.b.col]
    c[f.c.row, f.c.col] = (a_back @ b_back)[f.c.row, f.c.col]
    assert (c == a @ b).all()


def test_wrong_shapes_and_types_are_named():
    with pytest.raises(ValueError, match="'f32'"):
        fragments.mma("m16n8k8", "f32")
    with pytest.raises(ValueError, match="m8n8k4.*m16n8k8, m16n8k16"):
        fragments.mma("m8n8k4", "f16")


def test_maps_cannot_be_written_by_accident():
    with pytest.raises(ValueError):
        fragments.wgmma_d(64).row[0, 0] = 1
