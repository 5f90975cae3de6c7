# SPDX-License-Identifier: Apache-2.0
"""wgmma with packed f16 accumulators, saturating integers and single bits, against NumPy."""
import ml_dtypes
import numpy as np
import pytest
from hopperlab import emulator
from support.emulated import run


def image(rows):
    """K-major without swizzle: (rows, 32 bytes) -> bytes where leading is 128 bytes and stride 256 (PTX ISA 9.7.15.5.1.2.1)."""
    count = len(rows)
    out = np.zeros(count * 32, np.uint8)
    mn, byte = np.meshgrid(np.arange(count), np.arange(32), indexing="ij")
    out[mn // 8 * 256 + mn % 8 * 16 + byte // 16 * 128 + byte % 16] = rows
    return out


def multiply(shape, types, a, b, start, registers, tail="", times=1):
    """D registers (uint32 (registers, 128)) after `times` products of the (64, 32 B) and (n, 32 B) operands."""
    listed = ", ".join(f"%{i}" for i in range(registers))
    outs = ", ".join(f'"+r"(d[{i}])' for i in range(registers))
    source = f"""
    extern "C" __global__ void __launch_bounds__(128) k(const uint4* a, const uint4* b, const unsigned* start, unsigned* out, int bn) {{
        extern __shared__ __align__(1024) unsigned char s[];
        int t = threadIdx.x;
        if (t < 128) ((uint4*)s)[t] = a[t];
        for (int i = t; i < bn; i += 128) ((uint4*)(s + 4096))[i] = b[i];
        fence_proxy_async_shared_cta();
        __syncthreads();
        unsigned d[{registers}];
        for (int i = 0; i < {registers}; i++) d[i] = start[i * 128 + t];
        unsigned long long bits = 8ull << 16 | 16ull << 32;
        unsigned long long da = bits | (shared_address(s) >> 4), db = bits | (shared_address(s + 4096) >> 4);
        wgmma_fence();
        for (int i = 0; i < {times}; i++)
            asm volatile("wgmma.mma_async.sync.aligned.{shape}.{types} {{{listed}}}, %{registers}, %{registers + 1}, 1{tail};"
                         : {outs} : "l"(da), "l"(db) : "memory");
        wgmma_commit_group();
        wgmma_wait_group<0>();
        for (int i = 0; i < {registers}; i++) out[i * 128 + t] = d[i];
    }}"""
    out = np.zeros((registers, 128), np.uint32)
    run(source, (image(a), image(b), start, out, np.int32(len(b) * 2)), block=(128,), shared_mem=4096 + 32 * len(b))
    return out


def places(n):
    """(row, column) of D element i of thread t."""
    i, t = np.meshgrid(np.arange(n // 2), np.arange(128), indexing="ij")
    return 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2


@pytest.mark.parametrize("kind, dtype", [("f16", np.float16), ("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2)])
@pytest.mark.parametrize("n, times", [(8, 1), (64, 2), (256, 1)])
def test_half_precision_accumulators(kind, dtype, n, times):
    rng, k = np.random.default_rng(n + times), 32 // np.dtype(dtype).itemsize
    a, b = (rng.integers(-3, 4, (rows, k)).astype(dtype) for rows in (64, n))
    start = rng.integers(-9, 9, (n // 4, 128, 2)).astype(np.float16)
    tail = ", 1, 1, 0, 0" if kind == "f16" else ", 1, 1"
    out = multiply(f"m64n{n}k{k}", f"f16.{kind}.{kind}", a.view(np.uint8), b.view(np.uint8), start.view(np.uint32)[..., 0], n // 4, tail, times)
    expected = times * (a.astype(np.float32) @ b.astype(np.float32).T)
    row, column = places(n)
    pairs = expected[row, column].reshape(n // 4, 2, 128).transpose(0, 2, 1) + start
    assert (out.view(np.float16).reshape(n // 4, 128, 2) == pairs).all()


def test_half_precision_rounds_after_every_instruction():
    a, b = np.zeros((64, 16), np.float16), np.zeros((8, 16), np.float16)
    a[:, 0] = b[:, 0] = 1
    start = np.full((2, 128, 2), 2048, np.float16)                    # 2048 + 1 is a tie, to even
    out = multiply("m64n8k16", "f16.f16.f16", a.view(np.uint8), b.view(np.uint8), start.view(np.uint32)[..., 0], 2, ", 1, 1, 0, 0", times=3)
    assert (out.view(np.float16) == 2048).all()


@pytest.mark.parametrize("satfinite", [True, False])
def test_integer_overflow(satfinite):
    a, b = np.full((64, 32), 127, np.int8), np.full((16, 32), 127, np.int8)
    b[8:] = -128
    limit = np.iinfo(np.int32)
    start = np.where(np.arange(8)[:, None] < 4, limit.max - 600000, limit.min + 600000) * np.ones((1, 128), int)
    out = multiply("m64n16k32", "s32.s8.s8" + (".satfinite" if satfinite else ""), a.view(np.uint8), b.view(np.uint8), start.astype(np.int32).view(np.uint32), 8, times=2)
    _, column = places(16)
    exact = start.astype(np.int64)
    for _ in range(2):
        exact = exact + np.where(column < 8, 32 * 127 * 127, -32 * 127 * 128)
        exact = np.clip(exact, limit.min, limit.max) if satfinite else (exact - limit.min) % (1 << 32) + limit.min
    assert (out.view(np.int32) == exact).all()


@pytest.mark.parametrize("n", [8, 48, 256])
def test_single_bits(n):
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 256, (64, 32)).astype(np.uint8), rng.integers(0, 256, (n, 32)).astype(np.uint8)
    start = rng.integers(-5, 5, (n // 2, 128)).astype(np.int32)
    out = multiply(f"m64n{n}k256", "s32.b1.b1.and.popc", a, b, start.view(np.uint32), n // 2)
    common = np.unpackbits(a[:, None, :] & b[None, :, :], axis=2).sum(axis=2, dtype=np.int64)
    assert (out.view(np.int32) == common[places(n)] + start).all()


@pytest.mark.parametrize("shape, types", [("m64n8k16", "bf16.bf16.bf16"), ("m64n40k32", "s32.s8.s8"), ("m64n12k16", "f32.f16.f16"), ("m64n8k16", "f32.f16.bf16"),
                                          ("m64n8k256", "s32.b1.b1"), ("m64n8k16", "f32.f16.f16.satfinite"), ("m64n8k64", "s32.s4.s4")])
def test_products_that_do_not_exist(shape, types):
    with_ptx = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k() {{
  .reg .b32 %r<4>; .reg .b64 %d;
  mov.u64 %d, 0;
  wgmma.mma_async.sync.aligned.{shape}.{types} {{%r0, %r1, %r2, %r3}}, %d, %d, 1;
  ret;
}}
"""
    import hopperlab as hl
    with pytest.raises(emulator.UnsupportedInstruction, match="wgmma|bits|satfinite"):
        hl.RawModule(ptx=with_ptx, backend="emulator").get_function("k")((1,), (128,), ())
