# SPDX-License-Identifier: Apache-2.0
"""mma.sp against dense products in NumPy: A is compressed here, element by element, with its metadata."""
import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from hopperlab import emulator
from support.emulated import run_ptx

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn}
CASES = [("f16", "f32", 16), ("f16", "f32", 32), ("f16", "f16", 32), ("bf16", "f32", 32), ("bf16", "f32", 16), ("tf32", "f32", 8), ("tf32", "f32", 16),
         ("s8", "s32", 32), ("s8", "s32", 64), ("u8", "s32", 64), ("e4m3", "f32", 64)]


def compressed(rng, kind, k):
    """(dense (16, k), stored (16, k/2), metadata bits a row as integers (16,)): random places, in order."""
    group = 2 if kind == "tf32" else 4
    low = 0 if kind == "u8" else -3
    dense, stored, meta = np.zeros((16, k), int), np.zeros((16, k // 2), int), [0] * 16
    for row in range(16):
        for g in range(k // group):
            places = np.sort(rng.choice(group, group // 2, replace=False))
            for j, place in enumerate(places):
                slot = g * (group // 2) + j
                stored[row, slot] = dense[row, g * group + place] = rng.integers(low, 4)
                code = (0b1110 if place else 0b0100) if kind == "tf32" else int(place)
                meta[row] |= code << (4 if kind == "tf32" else 2) * slot
    return dense, stored, meta


def words(kind, k, meta, selector):
    """The metadata register of 32 lanes (PTX ISA 9.7.14.6.1): words of rows g, g + 8 by chunks, in the lanes the selector names."""
    out = np.full((8, 4), 0xDEADBEEF, np.uint32)
    lanes = k // (8 if kind == "tf32" else 16)
    for g in range(8):
        for lane in range(lanes):
            if kind in ("f16", "bf16", "tf32"):
                value = (meta[g] >> 16 * lane & 0xFFFF) | (meta[g + 8] >> 16 * lane & 0xFFFF) << 16
            else:
                value = meta[g + 8 * (lane % 2)] >> 32 * (lane // 2) & 0xFFFFFFFF
            out[g, lanes * selector + lane] = value
    return out.reshape(32)


def fragment(values, dtype, rows):
    """Registers (count, 32) of an A (rows = 2) or B (rows = 1) operand given as (8 * rows, k)."""
    per = 4 // np.dtype(dtype).itemsize
    k = values.shape[1]
    out = np.zeros((rows * k // (4 * per), 32, per), dtype)
    for i in range(len(out)):
        for lane in range(32):
            for e in range(per):
                out[i, lane, e] = values[lane // 4 + 8 * (i % rows), 4 * per * (i // rows) + per * (lane % 4) + e]
    return np.ascontiguousarray(out).view(np.uint32)[..., 0]


@pytest.mark.parametrize("kind, d_kind, k", CASES)
@pytest.mark.parametrize("selector", [0, 1, 2, 3])
def test_products(kind, d_kind, k, selector):
    if (selector + 1) * k // (8 if kind == "tf32" else 16) > 4:
        return
    rng = np.random.default_rng(k + selector)
    dense, stored, meta = compressed(rng, kind, k)
    b = rng.integers(0, 4, (8, k))
    a_regs, b_regs = fragment(stored.astype(TYPES[kind]), TYPES[kind], 2), fragment(b.astype(TYPES[kind]), TYPES[kind], 1)
    count = 2 if d_kind == "f16" else 4
    group = lambda first, n: "{" + ", ".join(f"%{first + i}" for i in range(n)) + "}"
    na, nb = len(a_regs), len(b_regs)
    source = f"""
    extern "C" __global__ void k(const unsigned* a, const unsigned* b, const unsigned* meta, unsigned* out) {{
        int t = threadIdx.x;
        unsigned d[{count}] = {{}};
        asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k{k}.row.col.{d_kind}.{kind}.{kind}.{d_kind} {group(0, count)}, {group(count, na)}, {group(count + na, nb)}, "
                     "{group(0, count)}, %{count + na + nb}, {selector};" : {", ".join(f'"+r"(d[{i}])' for i in range(count))}
                     : {", ".join(f'"r"(a[{32 * i} + t])' for i in range(na))}, {", ".join(f'"r"(b[{32 * i} + t])' for i in range(nb))}, "r"(meta[t]));
        for (int i = 0; i < {count}; i++) out[32 * i + t] = d[i];
    }}"""
    if d_kind == "f32":
        source = source.replace("unsigned d[4] = {};", "float d[4] = {};").replace('"+r"', '"+f"').replace("out[32 * i + t] = d[i]",
                "out[32 * i + t] = __float_as_uint(d[i])")
    out = np.zeros((count, 32), np.uint32)
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (a_regs, b_regs, words(kind, k, meta, selector), out))
    expected, lane = dense @ b.T, np.arange(32)
    if d_kind == "f16":
        got = out.view(np.float16).reshape(2, 32, 2)
        assert all((got[j, :, e] == expected[lane // 4 + 8 * j, 2 * (lane % 4) + e]).all() for j in range(2) for e in range(2))
        return
    got = out.view(np.float32 if d_kind == "f32" else np.int32)
    assert all((got[i] == expected[lane // 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)]).all() for i in range(4))


@pytest.mark.parametrize("opcode", ["mma.sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "mma.sp.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32"])
def test_shapes_that_do_not_exist(opcode):
    ptx = f""".version 8.5
.target sm_90a
.address_size 64
.visible .entry k() {{ .reg .b32 %r<9>; {opcode} {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%r6, %r7}}, {{%r0, %r1, %r2, %r3}}, %r8, 0; ret; }}
"""
    with pytest.raises(emulator.UnsupportedInstruction):
        hl.RawModule(ptx=ptx, backend="emulator").get_function("k")((1,), (32,), ())


def nibbles(values):
    """(…, count) integers of 4 bits -> (…, count / 8) words, lowest first."""
    return ((values & 15).astype(np.uint32).reshape(*values.shape[:-1], -1, 8) << np.arange(0, 32, 4, np.uint32)).sum(axis=-1).astype(np.uint32)


@pytest.mark.parametrize("k, selector", [(64, 0), (64, 1), (128, 0)])
def test_products_of_4_bits(k, selector):
    """Two pairs in every four pairs of columns are stored; a code of two bits places a pair."""
    rng = np.random.default_rng(4 + k + selector)
    dense, stored, codes = np.zeros((16, k), int), np.zeros((16, k // 2), int), [0] * 16
    for row, chunk in np.ndindex(16, k // 8):
        for j, place in enumerate(np.sort(rng.choice(4, 2, replace=False))):
            pair = rng.integers(-8, 8, 2)
            stored[row, 4 * chunk + 2 * j:4 * chunk + 2 * j + 2] = dense[row, 8 * chunk + 2 * place:8 * chunk + 2 * place + 2] = pair
            codes[row] |= int(place) << 2 * (2 * chunk + j)
    b = rng.integers(0, 16, (8, k))
    lane, lanes = np.arange(32), k // 32
    a_words, b_words = nibbles(stored), nibbles(b)
    a_regs = np.stack([a_words[lane // 4 + 8 * (i & 1), 4 * (i >> 1) + lane % 4] for i in range(k // 32)])
    b_regs = np.stack([b_words[lane // 4, 4 * i + lane % 4] for i in range(k // 32)])
    meta = np.full((8, 4), 0xDEADBEEF, np.uint32)
    for g, q in np.ndindex(8, lanes):
        meta[g, lanes * selector + q] = codes[g + 8 * (q % 2)] >> 32 * (q // 2) & 0xFFFFFFFF
    names = lambda first, count: "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"
    loads = "".join(f"ld.global.b32 %r{10 + i}, [%rd1+{128 * i}];\n" for i in range(2 * lanes + 1))
    body = f"""ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    {loads} mov.b32 %r30, 1; mov.b32 %r31, 2; mov.b32 %r32, 3; mov.b32 %r33, 4;
    mma.sp.sync.aligned.m16n8k{k}.row.col.s32.s4.u4.s32 {{%r0, %r1, %r2, %r3}}, {names(10, lanes)}, {names(10 + lanes, lanes)}, {{%r30, %r31, %r32, %r33}}, %r{10 + 2 * lanes}, {selector};
    st.global.b32 [%rd2], %r0; st.global.b32 [%rd2+128], %r1; st.global.b32 [%rd2+256], %r2; st.global.b32 [%rd2+384], %r3;"""
    out = np.zeros((4, 32), np.int32)
    run_ptx(body, (np.concatenate([a_regs, b_regs, meta.reshape(1, 32)]), out), ".param .u64 in, .param .u64 out")
    expected = dense @ b.T
    assert all((out[i] == expected[lane // 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)] + i + 1).all() for i in range(4))
