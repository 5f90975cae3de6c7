# SPDX-License-Identifier: Apache-2.0
"""Of the first set of kernels_of_others what moves data: copies, layouts, rows, reductions, indices."""
import numpy as np

from ..case_set import b2f, bf16, err, F, I, index, normal, out, some, U, words
from . import SET

add, pairs = SET.add, SET.pairs


# ---- elementwise ------------------------------------------------------------------------------------------------------------------
def axpby(vec, n):
    def args(xp, rng): return normal(xp, rng, n), normal(xp, rng, n), out(xp, rng, n), F(1.5), F(-0.25), I(n)
    def check(a): return err(a[2], a[0] * F(1.5) + a[1] * F(-0.25))
    return (n // vec // 256,), (256,), 0, args, check


for v in (1, 2, 4):
    add(f"axpby_v{v}", "elementwise.cu", "axpby", lambda n, v=v: axpby(v, n), dict(n=24 << 20), dict(n=4096), (f"-DVEC={v}",))
pairs += [("axpby_v1", "axpby_v4")]


def swiglu(n, blocks):
    def args(xp, rng): return normal(xp, rng, n).astype(np.float16), normal(xp, rng, n).astype(np.float16), out(xp, rng, n, dtype=np.float16), I(n // 2)
    def check(a):
        g, u = a[0].astype(np.float32), a[1].astype(np.float32)
        return err(a[2], g / (1 + np.exp(-g)) * u)
    return (blocks,), (256,), 0, args, check


for u in (1, 4):
    add(f"swiglu_u{u}", "elementwise.cu", "swiglu", swiglu, dict(n=32 << 20, blocks=132 * 4), dict(n=10000, blocks=3), (f"-DUNROLL={u}",), 2e-3)
pairs += [("swiglu_u1", "swiglu_u4")]


def copy_bytes(n, blocks):
    def args(xp, rng): return words(xp, rng, n // 4).view(np.uint8), out(xp, rng, n, dtype=np.uint8), I(n)
    def check(a): return float(np.count_nonzero(a[0] != a[1]))
    return (blocks,), (512,), 0, args, check


add("copy_bytes", "elementwise.cu", "copy_bytes", copy_bytes, dict(n=48 << 20, blocks=132 * 4), dict(n=4000, blocks=2))


def rope(positions, heads, dim):
    def args(xp, rng): return normal(xp, rng, positions, heads, dim, 2), out(xp, rng, positions, heads, dim, 2), I(heads), I(dim), F(0.2)
    def check(a):
        p = some(positions)
        at = p[:, None] * np.exp2(-0.2 * np.arange(dim))[None]
        s, c = np.sin(at)[:, None], np.cos(at)[:, None]
        v = a[0][p]
        return err(a[1][p], np.stack([v[..., 0] * c - v[..., 1] * s, v[..., 0] * s + v[..., 1] * c], -1))
    return (positions,), (256,), 0, args, check


add("rope", "elementwise.cu", "rope", rope, dict(positions=4096, heads=32, dim=64), dict(positions=8, heads=4, dim=64), tolerance=3e-3)


def gelu(n):
    def args(xp, rng): return normal(xp, rng, n), out(xp, rng, n), I(n // 4)
    def check(a):
        x = a[0][: 1 << 20]
        from math import erf
        x = x[:2048]
        return err(a[1][:2048], [0.5 * float(v) * (1 + erf(float(v) * 0.70710678)) for v in x])
    return (n // 1024,), (256,), 0, args, check


add("gelu_erf", "elementwise.cu", "gelu_erf", gelu, dict(n=32 << 20), dict(n=4096))


def mixture(n):
    def args(xp, rng): return normal(xp, rng, n), normal(xp, rng, 32, 2), out(xp, rng, n), I(n)
    def check(a):
        x = a[0][-4096:]
        return err(a[2][-4096:], (np.exp(-(x[:, None] - a[1][None, :, 0]) ** 2) * a[1][None, :, 1]).sum(1))
    return (n // 256,), (256,), 0, args, check


add("mixture", "elementwise.cu", "mixture", mixture, dict(n=16 << 20), dict(n=1024), tolerance=1e-4)


def philox(n):
    def args(xp, rng): return words(xp, rng, n, 4), out(xp, rng, n, 4, dtype=np.uint32), U(1234567), I(n)
    def check(a):
        i = some(n, 999)
        c = [i.astype(np.uint64)] + [np.zeros(i.size, np.uint64) for _ in range(3)]
        k0, k1, m = 1234567, 1234567 ^ 0xCAFE, np.uint64(0xFFFFFFFF)
        for _ in range(10):
            p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
            c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & m, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & m]
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        return float(np.count_nonzero((np.stack(c, 1).astype(np.uint32) ^ a[0][i]) != a[1][i]))
    return (n // 256,), (256,), 0, args, check


add("philox_xor", "elementwise.cu", "philox_xor", philox, dict(n=8 << 20), dict(n=1024))


# ---- transposes -------------------------------------------------------------------------------------------------------------------
def transpose(rows, cols):
    def args(xp, rng): return normal(xp, rng, rows, cols), out(xp, rng, cols, rows), I(rows), I(cols)
    def check(a): return float(np.count_nonzero(a[0].T != a[1]))
    return (cols // 32, rows // 32), (32, 8), 0, args, check


for p in (0, 1):
    add(f"transpose32_pad{p}", "transpose.cu", "transpose32", transpose, dict(rows=4096, cols=6144), dict(rows=64, cols=96), (f"-DPAD={p}",))
pairs += [("transpose32_pad0", "transpose32_pad1")]


def transpose16(rows, cols):
    def args(xp, rng): return bf16(xp, rng, rows, cols), out(xp, rng, cols, rows, dtype=np.uint16), I(rows), I(cols)
    def check(a): return float(np.count_nonzero(a[0].T != a[1]))
    return (cols // 64, rows // 64), (256,), 0, args, check


add("transpose_u16", "transpose.cu", "transpose_u16", transpose16, dict(rows=8192, cols=4096), dict(rows=128, cols=192))


# ---- rows -------------------------------------------------------------------------------------------------------------------------
def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_block(rows):
    def args(xp, rng): return normal(xp, rng, rows, 4096), out(xp, rng, rows, 4096)
    def check(a): return err(a[1][some(rows)], softmax(a[0][some(rows)]))
    return (rows,), (256,), 0, args, check


add("softmax_block", "norms.cu", "softmax_block", softmax_block, dict(rows=8192), dict(rows=2), tolerance=1e-4)


def softmax_warp(rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width), out(xp, rng, rows, width), I(rows), I(width)
    def check(a): return err(a[1][some(rows)], softmax(a[0][some(rows)]))
    return (-(-rows // 4),), (128,), 0, args, check


add("softmax_warp", "norms.cu", "softmax_warp", softmax_warp, dict(rows=32768, width=512), dict(rows=6, width=512), tolerance=1e-4)


def layernorm(rows):
    def args(xp, rng): return bf16(xp, rng, rows, 1024), normal(xp, rng, 1024), normal(xp, rng, 1024), out(xp, rng, rows, 1024, dtype=np.uint16), I(rows)
    def check(a):
        r = some(rows)
        x = b2f(a[0][r]).astype(np.float64)
        want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * a[1] + a[2]
        return err(b2f(a[3][r]), want)
    return (-(-rows // 8),), (256,), 0, args, check


add("layernorm_warp", "norms.cu", "layernorm_warp", layernorm, dict(rows=49152), dict(rows=13), tolerance=5e-3)


def rmsnorm(threads, rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width), normal(xp, rng, width), out(xp, rng, rows, width), I(width // 4)
    def check(a):
        x = a[0][some(rows)].astype(np.float64)
        return err(a[2][some(rows)], x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * a[1])
    return (rows,), (threads,), 0, args, check


for t in (128, 512):
    add(f"rmsnorm_t{t}", "norms.cu", "rmsnorm_block", lambda rows, width, t=t: rmsnorm(t, rows, width), dict(rows=6000, width=5120), dict(rows=2, width=5120),
        (f"-DTHREADS={t}",), 1e-4)
pairs += [("rmsnorm_t128", "rmsnorm_t512")]


# ---- reductions and blocks ----------------------------------------------------------------------------------------------------------
def sum_squares(n, blocks):
    def args(xp, rng): return normal(xp, rng, n), out(xp, rng, 1), I(n // 4)
    def check(a): return err(a[1], [(a[0].astype(np.float64) ** 2).sum() + 12.078])
    return (blocks,), (512,), 0, args, check


add("sum_squares", "reduce.cu", "sum_squares", sum_squares, dict(n=48 << 20, blocks=132 * 3), dict(n=1 << 14, blocks=2), tolerance=1e-4)


def column_sums(rows, cols, strip):
    def args(xp, rng): return normal(xp, rng, rows, cols), out(xp, rng, cols), I(cols), I(strip)
    def check(a): return err(a[1], a[0].sum(0, dtype=np.float64) + 12.078)
    return (cols // 128, rows // strip), (128,), 0, args, check


add("column_sums", "reduce.cu", "column_sums", column_sums, dict(rows=8192, cols=4096, strip=128), dict(rows=64, cols=256, strip=16), tolerance=1e-4)


def splitk(splits, rows, width):
    def args(xp, rng): return normal(xp, rng, splits, rows, width), normal(xp, rng, width), out(xp, rng, rows, width), I(splits), I(rows * width // 4), I(width // 4)
    def check(a): return err(a[2], np.maximum(a[0].sum(0) + a[1], 0))
    return (rows * width // 1024,), (256,), 0, args, check


add("splitk_reduce", "reduce.cu", "splitk_reduce", splitk, dict(splits=12, rows=1024, width=4096), dict(splits=3, rows=4, width=512))


def histogram(n, blocks):
    def args(xp, rng): return words(xp, rng, n), out(xp, rng, 256, dtype=np.uint32), I(n)
    def check(a): return float(np.abs(np.bincount(a[0].view(np.uint8), minlength=256).astype(np.int64) + 0x41414141 - a[1].astype(np.int64)).max())
    return (blocks,), (256,), 0, args, check


for c in (1, 8):
    add(f"histogram_c{c}", "reduce.cu", "histogram", histogram, dict(n=16 << 20, blocks=132 * 6), dict(n=2000, blocks=2), (f"-DCOPIES={c}",))
pairs += [("histogram_c1", "histogram_c8")]


def scan(blocks):
    def args(xp, rng): return index(xp, rng, blocks * 1024, 1000), out(xp, rng, blocks * 1024, dtype=np.int32), out(xp, rng, blocks, dtype=np.int32)
    def check(a):
        want = np.cumsum(a[0].reshape(blocks, 1024), 1)
        return float(np.count_nonzero(want != a[1].reshape(blocks, 1024)) + np.count_nonzero(want[:, -1] != a[2]))
    return (blocks,), (256,), 0, args, check


add("scan_blocks", "reduce.cu", "scan_blocks", scan, dict(blocks=24 << 10), dict(blocks=2))


def sort(blocks):
    def args(xp, rng): return words(xp, rng, blocks * 1024), out(xp, rng, blocks * 1024, dtype=np.uint32)
    def check(a): return float(np.count_nonzero(np.sort(a[0].reshape(blocks, 1024), 1) != a[1].reshape(blocks, 1024)))
    return (blocks,), (512,), 0, args, check


add("sort_blocks", "reduce.cu", "sort_blocks", sort, dict(blocks=4096), dict(blocks=1))


# ---- stencils -----------------------------------------------------------------------------------------------------------------------
def star2d(width, height):
    def args(xp, rng): return normal(xp, rng, height, width), out(xp, rng, height, width), I(width), I(height), F(0.5), F(0.1), F(0.025)
    def check(a):
        x = np.pad(a[0], 2, mode="edge")
        h, w = height, width
        s = lambda dy, dx: x[2 + dy: 2 + dy + h, 2 + dx: 2 + dx + w]
        return err(a[1], 0.5 * s(0, 0) + 0.1 * (s(1, 0) + s(-1, 0) + s(0, 1) + s(0, -1)) + 0.025 * (s(2, 0) + s(-2, 0) + s(0, 2) + s(0, -2)))
    return (width // 64, height // 16), (64, 4), 0, args, check


add("star2d", "stencil.cu", "star2d", star2d, dict(width=6144, height=4096), dict(width=128, height=48))


def march3d(nx, ny, nz, depth):
    def args(xp, rng): return normal(xp, rng, nz, ny, nx), out(xp, rng, nz, ny, nx), I(nx), I(ny), I(nz), I(depth), F(0.4), F(0.1)
    def check(a):
        x = np.pad(a[0], 1, mode="edge")
        s = lambda dz, dy, dx: x[1 + dz: 1 + dz + nz, 1 + dy: 1 + dy + ny, 1 + dx: 1 + dx + nx]
        return err(a[1], 0.4 * s(0, 0, 0) + 0.1 * (s(1, 0, 0) + s(-1, 0, 0) + s(0, 1, 0) + s(0, -1, 0) + s(0, 0, 1) + s(0, 0, -1)))
    return (nx // 32, ny // 8, nz // depth), (32, 8), 0, args, check


add("march3d", "stencil.cu", "march3d", march3d, dict(nx=384, ny=256, nz=320, depth=40), dict(nx=64, ny=16, nz=8, depth=4))


def fir(n):
    def args(xp, rng): return normal(xp, rng, n), normal(xp, rng, 64), out(xp, rng, n), I(n)
    def check(a):
        x = np.concatenate([a[0][-3000:].astype(np.float64), np.zeros(63)])
        return err(a[2][-3000:], np.lib.stride_tricks.sliding_window_view(x, 64) @ a[1].astype(np.float64)) if n > 3000 else \
            err(a[2], np.lib.stride_tricks.sliding_window_view(np.concatenate([a[0].astype(np.float64), np.zeros(63)]), 64) @ a[1].astype(np.float64))
    return (n // 1024,), (256,), 0, args, check


add("fir64", "stencil.cu", "fir64", fir, dict(n=16 << 20), dict(n=2048))


# ---- indexed ------------------------------------------------------------------------------------------------------------------------
def gather_words(shared, table, n):
    def args(xp, rng): return normal(xp, rng, table), index(xp, rng, n, table), out(xp, rng, n), I(n)
    def check(a): return float(np.count_nonzero(a[0][a[1]] != a[2]))
    return (n // 256,), (256,), shared, args, check


for s in (0, 100 << 10):
    add(f"gather_words_s{s >> 10}", "gather.cu", "gather_words", lambda table, n, s=s: gather_words(s, table, n), dict(table=64 << 20, n=6 << 20),
        dict(table=5000, n=1024))
pairs += [("gather_words_s0", "gather_words_s100")]


def gather_rows(table, n):
    def args(xp, rng): return normal(xp, rng, table, 256), index(xp, rng, n, table), out(xp, rng, n, 256), I(n)
    def check(a): return float(np.count_nonzero(a[0][a[1]] != a[2]))
    return (n // 4,), (128,), 0, args, check


add("gather_rows", "gather.cu", "gather_rows", gather_rows, dict(table=200_000, n=96 << 10), dict(table=50, n=16))


def matvec(batches, rows):
    def args(xp, rng): return bf16(xp, rng, batches, rows, 1024), normal(xp, rng, batches, 1024), out(xp, rng, batches, rows), I(rows)
    def check(a):
        b = some(batches, 4)
        return err(a[2][b], np.einsum("brk,bk->br", b2f(a[0][b]).astype(np.float64), a[1][b]))
    return (rows // 32, batches), (256,), 0, args, check


add("batched_matvec", "gather.cu", "batched_matvec", matvec, dict(batches=64, rows=1024), dict(batches=2, rows=64), tolerance=1e-4)
