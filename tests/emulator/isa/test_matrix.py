# SPDX-License-Identifier: Apache-2.0
"""mma.sync against an element-by-element reference built from the layout tables of the PTX ISA (9.7.14.5)."""

import ml_dtypes
import numpy as np
import pytest

from hopperlab.emulator.isa import UnsupportedInstruction, matrix
from hopperlab.emulator.ptx import ir

WARPS = 3
LANES = np.arange(32)
G, Q = LANES // 4, LANES % 4


def instr(text: str) -> ir.Instr:
    op, *mods = text.split(".")
    return ir.Instr(op, tuple(mods), (), None, None, 7, 0)


def encode(values, kind):
    """Small integers as bit patterns (uint64) of an element type, and the pattern's width."""
    if kind == "bf16":
        return values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint64), 16
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64), 16
    if kind == "tf32":
        return (values.astype(np.float32).view(np.uint32) | np.uint32(0x1FFF)).astype(np.uint64), 32
    if kind == "f64":
        return values.astype(np.float64).view(np.uint64), 64
    if kind in ("e4m3", "e5m2"):
        dtype = ml_dtypes.float8_e4m3fn if kind == "e4m3" else ml_dtypes.float8_e5m2
        return values.astype(dtype).view(np.uint8).astype(np.uint64), 8
    width = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}[kind]
    return values.astype(np.int64).view(np.uint64) & np.uint64(2**width - 1), width


def values_of(kind, shape, rng):
    low, high = {"u8": (0, 256), "s8": (-128, 128), "u4": (0, 16), "s4": (-8, 8), "b1": (0, 2)}.get(kind, (-4, 5))
    return rng.integers(low, high, shape)


def pack(matrix_values, kind, rows_of_8):
    """Registers of a (warps, rows, k) matrix (A, or B transposed): one element at a time, by the ISA's formulas."""
    patterns, width = encode(matrix_values, kind)
    per = max(32, width) // width
    count = matrix_values.shape[2] * rows_of_8 * 8 // 32 // per
    registers = []
    for i in range(count):
        word = np.zeros((WARPS, 32), dtype=np.uint64)
        for e in range(per):
            row = G + 8 * (i % rows_of_8)
            k = 4 * per * (i // rows_of_8) + per * Q + e
            word |= patterns[:, row, k] << np.uint64(e * width)
        registers.append(word.view(np.float64) if width == 64 else word.astype(np.uint32))
    return registers


def accumulators(c, kind):
    """Registers of a (warps, m, 8) matrix and a function that reads such registers back."""
    count = c.shape[1] // 4
    place = [(G + 8 * (i >> 1), 2 * Q + (i & 1)) for i in range(count)]
    if kind == "f16":
        halves = [c[:, r, n].astype(np.float16).view(np.uint16).astype(np.uint32) for r, n in place]
        return [halves[2 * j] | halves[2 * j + 1] << 16 for j in range(count // 2)]
    dtype = {"f32": np.float32, "f64": np.float64, "s32": np.int32}[kind]
    return [c[:, r, n].astype(dtype) for r, n in place]


def to_matrix(registers, kind, m):
    out = np.zeros((WARPS, m, 8))
    if kind == "f16":
        registers = [
            half.astype(np.uint16).view(np.float16) for word in registers for half in (word & 0xFFFF, word >> 16)
        ]
    for i, register in enumerate(registers):
        out[:, G + 8 * (i >> 1), 2 * Q + (i & 1)] = register
    return out


CASES = [
    "m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k8.row.col.f32.bf16.bf16.f32",
    "m16n8k16.row.col.f32.f16.f16.f32", "m16n8k8.row.col.f32.f16.f16.f32",
    "m16n8k16.row.col.f16.f16.f16.f16", "m16n8k8.row.col.f16.f16.f16.f16",
    "m16n8k4.row.col.f32.tf32.tf32.f32", "m16n8k8.row.col.f32.tf32.tf32.f32",
    "m8n8k4.row.col.f64.f64.f64.f64", "m16n8k4.row.col.f64.f64.f64.f64",
    "m16n8k8.row.col.f64.f64.f64.f64", "m16n8k16.row.col.f64.f64.f64.f64",
    "m16n8k32.row.col.f32.e4m3.e5m2.f32", "m16n8k32.row.col.f16.e5m2.e4m3.f16",
    "m8n8k16.row.col.s32.s8.u8.s32", "m16n8k16.row.col.s32.u8.s8.s32", "m16n8k32.row.col.s32.s8.s8.s32",
    "m8n8k32.row.col.s32.s4.u4.s32", "m16n8k32.row.col.s32.u4.s4.s32", "m16n8k64.row.col.s32.s4.s4.s32",
    "m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "m16n8k128.row.col.s32.b1.b1.s32.and.popc",
    "m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_mma_equals_matrix_product(case):
    rng = np.random.default_rng(len(case))
    op = matrix.mma(instr("mma.sync.aligned." + case))
    m, n, k = op.shape
    d_kind, a_kind, b_kind, _ = op.types
    a, b = values_of(a_kind, (WARPS, m, k), rng), values_of(b_kind, (WARPS, n, k), rng)
    c = rng.integers(-50, 50, (WARPS, m, n))
    a_regs, b_regs, c_regs = pack(a, a_kind, m // 8), pack(b, b_kind, 1), accumulators(c, d_kind)
    assert (len(a_regs), len(b_regs), len(c_regs)) == op.counts
    before = [r.copy() for r in (*a_regs, *b_regs, *c_regs)]
    d = op.fn(a_regs, b_regs, c_regs)
    if "xor" in case:
        expected = (a[:, :, None, :] ^ b[:, None, :, :]).sum(axis=3) + c
    else:
        expected = np.einsum("wmk,wnk->wmn", a, b) + c
    assert np.array_equal(to_matrix(d, d_kind, m), expected)
    assert all(np.array_equal(x, y) for x, y in zip(before, (*a_regs, *b_regs, *c_regs)))
    assert all(r.shape == (WARPS, 32) for r in d)


def test_integer_accumulators_wrap_or_saturate():
    ones = [np.full((1, 32), 0x7F7F7F7F, np.uint32)] * 4
    c = [np.full((1, 32), 2**31 - 1, np.int32)] * 4
    wrapping = matrix.mma(instr("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"))
    clamped = matrix.mma(instr("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"))
    total = 127 * 127 * 32 + 2**31 - 1
    assert wrapping.fn(ones, ones[:2], c)[0][0, 0] == total - 2**32
    assert clamped.fn(ones, ones[:2], c)[0][0, 0] == 2**31 - 1


@pytest.mark.parametrize(
    "case, word",
    [
        ("m16n8k16.row.col.f32.bf16.f16.f32", "accumulators"),
        ("m16n8k32.row.col.f32.bf16.bf16.f32", "shapes"),
        ("m16n8k16.row.row.f32.bf16.bf16.f32", ".row.col"),
        ("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "sm_120"),
    ],
)
def test_unknown_forms_are_errors(case, word):
    with pytest.raises(UnsupportedInstruction) as error:
        matrix.mma(instr("mma.sync.aligned." + case))
    assert error.value.ptx_line == 7 and case in error.value.opcode
    assert word in error.value.why


def test_ldmatrix_and_stmatrix_are_inverses():
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 256, (WARPS, 4, 8, 16), dtype=np.uint8)
    elements = rows.view(np.uint16)
    for trans in (False, True):
        registers = matrix.ldmatrix_distribute(rows, trans)
        for j, register in enumerate(registers):
            tile = elements[:, j].swapaxes(1, 2) if trans else elements[:, j]
            low, high = tile[:, G, 2 * Q], tile[:, G, 2 * Q + 1]
            assert np.array_equal(register, low.astype(np.uint32) | high.astype(np.uint32) << 16)
        assert np.array_equal(matrix.stmatrix_collect(registers, trans), rows)


def test_movmatrix_transposes():
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 256, (WARPS, 1, 8, 16), dtype=np.uint8)
    plain, transposed = matrix.ldmatrix_distribute(rows)[0], matrix.ldmatrix_distribute(rows, True)[0]
    assert np.array_equal(matrix.movmatrix(plain), transposed)
