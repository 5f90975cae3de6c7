# SPDX-License-Identifier: Apache-2.0
"""Of the third set of kernels_of_others all of them."""
import numpy as np

from ..case_set import b2f, bf16, D, err, F, FILLED, I, index, normal, out, spread, U, uniform, words
from . import SET

add, pairs = SET.add, SET.pairs


# ---- fusions -----------------------------------------------------------------------------------------------------------------------
def mix(h):
    h = (h ^ h >> U(16)) * U(0x7feb352d)
    h = (h ^ h >> U(15)) * U(0x846ca68b)
    return h ^ h >> U(16)


def dropout(vec, rows, width):
    n = rows * width
    def args(xp, rng):
        return (normal(xp, rng, n), normal(xp, rng, width), normal(xp, rng, n), out(xp, rng, n), I(n // vec), I(width // vec), U(12345), U(int(0.9 * 2**32)), F(1 / 0.9))
    def check(a):
        i = spread(n)
        return err(a[3][i], np.where(mix(i.astype(U) ^ a[6]) < a[7], (a[0][i] + a[1][i % width]) * a[8], 0) + a[2][i])
    return (-(-(n // vec) // 256),), (256,), 0, args, check


for v in (1, 4):
    add(f"dropout_v{v}", "fused.cu", "bias_dropout", lambda rows, width, v=v: dropout(v, rows, width), dict(rows=6000, width=3072),
        dict(rows=3, width=500), (f"-DVEC={v}",))
pairs += [("dropout_v1", "dropout_v4")]


def rmsnorm8(rows):
    def args(xp, rng): return normal(xp, rng, rows, 4096).astype(np.float16), normal(xp, rng, 4096).astype(np.float16), out(xp, rng, rows, 4096, dtype=np.float16)
    def check(a):
        r = spread(rows, 64)
        x = a[0][r].astype(D)
        return err(a[2][r], x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * a[1].astype(D))
    return (rows,), (256,), 0, args, check


add("rmsnorm_half8", "fused.cu", "rmsnorm_half8", rmsnorm8, dict(rows=9000), dict(rows=2), tolerance=1e-3)


def rope(tokens, heads, positions):
    def args(xp, rng):
        at = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(64) / 64)
        table = xp.asarray(np.stack([np.cos(at), np.sin(at)], -1).astype(F))
        return bf16(xp, rng, tokens, heads, 64, 2), table, index(xp, rng, tokens, positions), out(xp, rng, tokens, heads, 64, 2, dtype=np.uint16), I(heads)
    def check(a):
        t = spread(tokens, 64)
        q, cs = b2f(a[0][t]).astype(D), a[1][a[2][t]].astype(D)[:, None]
        x, y, c, s = q[..., 0], q[..., 1], cs[..., 0], cs[..., 1]
        return err(b2f(a[3][t]), np.stack([x * c - y * s, x * s + y * c], -1))
    return (tokens,), (256,), 0, args, check


add("rope_pairs", "fused.cu", "rope_pairs", rope, dict(tokens=8192, heads=40, positions=4096), dict(tokens=3, heads=6, positions=100), tolerance=5e-3)


def adam(blocks, n):
    def full(xp, v):
        a = xp.empty(n, dtype=F)
        a.fill(v)
        return a
    c = [F(v) for v in (1e-2, 0.9, 0.999, 1 - 0.9**5, 1 - 0.999**5, 1e-8, 0.01)]
    def args(xp, rng): return full(xp, 0.5), full(xp, 0.02), full(xp, 0.003), normal(xp, rng, n), I(n), *c
    def check(a):
        i = spread(n)
        g = a[3][i].astype(D)
        m, v = 0.9 * 0.02 + 0.1 * g, 0.999 * 0.003 + 0.001 * g * g
        p = 0.5 - 1e-2 * (m / c[3].astype(D) / (np.sqrt(v / c[4].astype(D)) + 1e-8) + 0.01 * 0.5)
        return max(err(a[0][i], p), err(a[1][i], m), err(a[2][i], v))
    return (blocks,), (512,), 0, args, check


add("adam", "fused.cu", "adam", adam, dict(blocks=132 * 4, n=14_000_000), dict(blocks=2, n=2500), tolerance=1e-4)


def kv(tokens, slots):
    def args(xp, rng):
        slot = np.random.default_rng(9).permutation(slots)[:tokens].astype(I)
        slot[::17] = -1
        cache = lambda: out(xp, rng, slots, 1024, dtype=np.uint16)
        return bf16(xp, rng, tokens, 1024), bf16(xp, rng, tokens, 1024), xp.asarray(slot), cache(), cache()
    def check(a):
        t = np.flatnonzero(a[2] >= 0)
        t = t[spread(t.size, 1000)]
        return float(np.count_nonzero(a[3][a[2][t]] != a[0][t]) + np.count_nonzero(a[4][a[2][t]] != a[1][t]))
    return (tokens,), (128,), 0, args, check


add("kv_append", "fused.cu", "kv_append", kv, dict(tokens=9000, slots=30000), dict(tokens=20, slots=50))


def options(n):
    def args(xp, rng):
        u = lambda lo, hi: uniform(xp, rng, n) * F(hi - lo) + F(lo)
        return u(5, 30), u(1, 100), u(0.25, 10), out(xp, rng, n), out(xp, rng, n), F(0.02), F(0.3), I(n)
    def check(a):
        from math import erfc
        i = spread(n)
        s, k, t = (x[i].astype(D) for x in a[:3])
        root = 0.3 * np.sqrt(t)
        d1 = (np.log(s / k) + (0.02 + 0.045) * t) / root
        cdf = np.vectorize(lambda d: 0.5 * erfc(-d / 2**0.5))
        n1, n2, x = cdf(d1), cdf(d1 - root), k * np.exp(-0.02 * t)
        return max(err(a[3][i], s * n1 - x * n2), err(a[4][i], x * (1 - n2) - s * (1 - n1)))
    return (-(-n // 128),), (128,), 0, args, check


add("black_scholes", "fused.cu", "black_scholes", options, dict(n=8_000_000), dict(n=700), tolerance=1e-5)


# ---- layouts and windows -----------------------------------------------------------------------------------------------------------
def dwconv(channels, batch, length):
    rows = channels * batch
    def args(xp, rng): return normal(xp, rng, rows, length), normal(xp, rng, channels, 15), out(xp, rng, rows, length), I(channels), I(length)
    def check(a):
        r = spread(rows, 100)
        x = np.pad(a[0][r].astype(D), ((0, 0), (14, 0)))
        return err(a[2][r], sum(a[1][r % channels, k, None] * x[:, k: k + length] for k in range(15)))
    return (length // 256, rows), (256,), 0, args, check


for kind, options_ in (("global", ()), ("tile", ("-DTILE",))):
    add(f"dwconv_{kind}", "layout.cu", "dwconv1d", dwconv, dict(channels=640, batch=8, length=4096), dict(channels=2, batch=2, length=512), options_)
pairs += [("dwconv_global", "dwconv_tile")]


def im2col(c, h, w):
    def args(xp, rng): return normal(xp, rng, c, h, w), out(xp, rng, c, 9, h, w), I(c), I(h), I(w)
    def check(a):
        s = spread(c, 16)
        x = np.pad(a[0][s], ((0, 0), (1, 1), (1, 1)))
        return float(sum(np.count_nonzero(a[1][s, t] != x[:, t // 3: t // 3 + h, t % 3: t % 3 + w]) for t in range(9)))
    return (-(-c * h * w // 256),), (256,), 0, args, check


add("im2col", "layout.cu", "im2col", im2col, dict(c=96, h=150, w=200), dict(c=2, h=9, w=37))


def max_pool(planes, h, w):
    def args(xp, rng): return normal(xp, rng, planes, h, w), out(xp, rng, planes, h // 2, w // 2), I(planes), I(h), I(w)
    def check(a):
        s = spread(planes, 50)
        x = np.pad(a[0][s], ((0, 0), (1, 1), (1, 1)), constant_values=-9e9)
        return float(np.count_nonzero(a[1][s] != np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, :h: 2, :w: 2].max((3, 4))))
    return (-(-planes * h * w // 4 // 192),), (192,), 0, args, check


add("max_pool", "layout.cu", "max_pool", max_pool, dict(planes=2000, h=112, w=112), dict(planes=2, h=14, w=22))


def blocks16(n):
    def args(xp, rng): return normal(xp, rng, n, 16, 16), out(xp, rng, n, 16, 16)
    def check(a): return float(np.count_nonzero(a[0][spread(n)].transpose(0, 2, 1) != a[1][spread(n)]))
    return (n,), (16, 16), 0, args, check


add("blocks16", "layout.cu", "blocks16", blocks16, dict(n=70000), dict(n=3))


def add_pitch(w, h, pitch):
    def args(xp, rng): return normal(xp, rng, h, pitch), normal(xp, rng, h, pitch), out(xp, rng, h, pitch), I(w), I(h), I(pitch)
    def check(a):
        r = spread(h, 500)
        return float(np.count_nonzero(a[2][r, :w] != a[0][r, :w] + a[1][r, :w]) + np.count_nonzero(a[2][r, w:] != F(FILLED)))
    return (-(-w // 32), -(-h // 8)), (32, 8), 0, args, check


add("add_pitch", "layout.cu", "add_pitch", add_pitch, dict(w=1500, h=9001, pitch=1503), dict(w=70, h=13, pitch=75))


def sobel(w, h):
    def args(xp, rng): return words(xp, rng, h * w // 4).view(np.uint8).reshape(h, w), out(xp, rng, h, w, dtype=np.uint8), I(w), I(h)
    def check(a):
        r = spread(h, 40)
        r = r[(r > 0) & (r < h - 1)]
        p = lambda dy, dx: a[0][r + dy, 1 + dx: w - 1 + dx].astype(int)
        gx = p(-1, 1) + 2 * p(0, 1) + p(1, 1) - p(-1, -1) - 2 * p(0, -1) - p(1, -1)
        gy = p(1, -1) + 2 * p(1, 0) + p(1, 1) - p(-1, -1) - 2 * p(-1, 0) - p(-1, 1)
        return float(np.count_nonzero(np.minimum(255, abs(gx) + abs(gy)) != a[1][r, 1:-1]) + np.count_nonzero(a[1][[0, -1]]) + np.count_nonzero(a[1][:, [0, -1]]))
    return (-(-w // 64), -(-h // 4)), (64, 4), 0, args, check


add("sobel", "layout.cu", "sobel", sobel, dict(w=5000, h=4000), dict(w=100, h=18))


def bilateral(w, h):
    def args(xp, rng): return normal(xp, rng, h, w), out(xp, rng, h, w), I(w), I(h), F(0.06), F(0.7)
    def check(a):
        rows = spread(h, 24)
        x = np.pad(a[0], 3, mode="edge").astype(D)
        c, s, n = a[0][rows].astype(D), 0, 0
        for dy in range(-3, 4):
            for dx in range(-3, 4):
                v = x[rows + 3 + dy][:, 3 + dx: 3 + dx + w]
                k = np.exp(-0.06 * (dx * dx + dy * dy) - 0.7 * (v - c)**2)
                s, n = s + k * v, n + k
        return err(a[1][rows], s / n)
    return (-(-w // 16), -(-h // 16)), (16, 16), 0, args, check


add("bilateral", "layout.cu", "bilateral", bilateral, dict(w=1920, h=1080), dict(w=40, h=20))


# ---- scatters and sums ---------------------------------------------------------------------------------------------------------------
def scatter_add(vec, n, table):
    def args(xp, rng): return normal(xp, rng, n, 64), index(xp, rng, n, table), out(xp, rng, table, 64)
    def check(a):
        order = np.argsort(a[1], kind="stable")
        ends = np.searchsorted(a[1][order], np.arange(table + 1))
        t = spread(table, 300)
        return err(a[2][t], [a[0][order[ends[i]: ends[i + 1]]].sum(0, dtype=D) + FILLED for i in t])
    return (n * 64 // vec // 256,), (256,), 0, args, check


for kind, v, o in (("float", 1, ()), ("float4", 4, ("-DFOUR",))):
    add(f"scatter_{kind}", "indexed.cu", "scatter_add", lambda n, table, v=v: scatter_add(v, n, table), dict(n=320_000, table=60_000), dict(n=64, table=20), o)
pairs += [("scatter_float", "scatter_float4")]


def segments(n, keys):
    def args(xp, rng): return xp.asarray(np.sort(np.random.default_rng(4).integers(0, keys, n)).astype(I)), normal(xp, rng, n), out(xp, rng, keys), I(n)
    def check(a): return err(a[2], np.bincount(a[0], a[1].astype(D), minlength=keys) + FILLED)
    return (-(-n // 1024),), (128,), 0, args, check


add("segment_sum", "indexed.cu", "segment_sum", segments, dict(n=10_000_000, keys=400_000), dict(n=3000, keys=150))


def compact(n, ring):
    def args(xp, rng): return normal(xp, rng, n), out(xp, rng, ring), xp.zeros(1, dtype=U), F(0.5), U(ring - 1), I(n)
    def check(a):
        kept = np.sort(a[0][a[0] > F(0.5)])
        return float((int(a[2][0]) != kept.size) + np.count_nonzero(np.sort(a[1][:kept.size]) != kept) + np.count_nonzero(a[1][kept.size:] != F(FILLED)))
    return (-(-n // 256),), (256,), 0, args, check


for kind, o in (("block", ()), ("ballot", ("-DBALLOT",))):
    add(f"compact_{kind}", "indexed.cu", "compact", compact, dict(n=8_000_000, ring=1 << 22), dict(n=1000, ring=1 << 10), o)
pairs += [("compact_block", "compact_ballot")]


def ddot(blocks, n):
    def args(xp, rng):
        x, y = rng.standard_normal(n, dtype=D), rng.standard_normal(n, dtype=D)
        x += 0.25
        y += 0.25
        return x, y, xp.zeros(1, dtype=D), I(n // 2)
    def check(a): return err(a[2], [a[0] @ a[1]])
    return (blocks,), (256,), 0, args, check


for b in (1, 8):
    add(f"ddot_b{b}", "indexed.cu", "ddot", lambda n, small=0, b=b: ddot(small or 132 * b, n), dict(n=12_000_000), dict(n=6000, small=b), tolerance=1e-9)
pairs += [("ddot_b1", "ddot_b8")]


# ---- arithmetic ------------------------------------------------------------------------------------------------------------------------
def sgemm(bm, bn, block, m, n, k):
    def args(xp, rng): return normal(xp, rng, m, k), normal(xp, rng, k, n), out(xp, rng, m, n), I(n), I(k)
    def check(a):
        r = spread(m, 64)
        return err(a[2][r], a[0][r] @ a[1])
    return (n // bn, m // bm), block, 0, args, check


add("sgemm_32", "math.cu", "sgemm_32", lambda m, n, k: sgemm(32, 32, (32, 32), m, n, k), dict(m=1024, n=1536, k=1024), dict(m=32, n=64, k=64), tolerance=1e-4)
add("sgemm_96x64", "math.cu", "sgemm_96x64", lambda m, n, k: sgemm(96, 64, (192,), m, n, k), dict(m=1920, n=2048, k=800), dict(m=96, n=128, k=48), tolerance=1e-4)


def fft(each, n):
    def args(xp, rng):
        t = np.exp(-2j * np.pi * np.arange(256) / 256).astype(np.complex64).view(F).reshape(256, 2)
        return normal(xp, rng, n, 256, 2), xp.asarray(t), out(xp, rng, n, 256, 2)
    def check(a):
        i = spread(n, 200)
        z = np.fft.fft(a[0][i, :, 0].astype(D) + 1j * a[0][i, :, 1])
        return err(a[2][i], np.stack([z.real, z.imag], -1))
    return (n // each,), (64, each), 0, args, check


for e in (1, 4):
    add(f"fft256_e{e}", "math.cu", "fft256", lambda n, e=e: fft(e, n), dict(n=40000), dict(n=4), (f"-DEACH={e}",))
pairs += [("fft256_e1", "fft256_e4")]


def lu(n):
    def args(xp, rng): return normal(xp, rng, n, 16, 16) + 20 * xp.eye(16, dtype=F), out(xp, rng, n, 16, 16)
    def check(a):
        i = spread(n, 500)
        x = a[1][i].astype(D)
        return err((np.tril(x, -1) + np.eye(16)) @ np.triu(x), a[0][i])
    return (n // 8,), (128,), 0, args, check


for kind, o in (("shuffle", ()), ("shared", ("-DSHARED",))):
    add(f"lu16_{kind}", "math.cu", "lu16", lu, dict(n=80000), dict(n=16), o)
pairs += [("lu16_shuffle", "lu16_shared")]


def waterman(n, length):
    def args(xp, rng):
        queries, targets = (index(xp, rng, n * columns, 4).astype(np.int8).reshape(n, columns) for columns in (128, length))
        return queries, targets, out(xp, rng, n, dtype=I), I(length)
    def check(a):
        i = spread(n, 40)
        q, t = a[0][i], a[1][i]
        h, best = np.zeros((i.size, 129), int), np.zeros(i.size, int)
        for j in range(length):
            new = np.zeros_like(h)
            for r in range(128):
                new[:, r + 1] = np.maximum.reduce([h[:, r] + np.where(q[:, r] == t[:, j], 2, -1), h[:, r + 1] - 1, new[:, r] - 1, 0 * best])
            h = new
            best = np.maximum(best, h.max(1))
        return float(np.count_nonzero(best != a[2][i]))
    return (n,), (128,), 0, args, check


add("smith_waterman", "math.cu", "smith_waterman", waterman, dict(n=1500, length=400), dict(n=2, length=60))


QUEENS = {8: 92, 13: 73712, 14: 365596}


def queens(n):
    def args(xp, rng): return out(xp, rng, 1, dtype=U), I(n)
    def check(a): return float(int(a[0][0]) - 0x41414141 != QUEENS[n])
    return (-(-n**4 // 64),), (64,), 0, args, check


add("queens", "math.cu", "queens", queens, dict(n=13), dict(n=8))


# ---- the tensor core and bulk copies -----------------------------------------------------------------------------------------------------
def gemm_s8(m, n, k):
    def args(xp, rng): return words(xp, rng, m, k // 4).view(np.int8), words(xp, rng, n, k // 4).view(np.int8), out(xp, rng, m, n, dtype=I), I(n), I(k)
    def check(a):
        r = spread(m, 32)
        return float(np.count_nonzero(a[0][r].astype(D) @ a[1].astype(D).T != a[2][r]))
    return (n // 64, m // 64), (128,), 0, args, check


for kind, o in (("plain", ()), ("ahead", ("-DAHEAD",))):
    add(f"gemm_s8_{kind}", "tensor.cu", "gemm_s8", gemm_s8, dict(m=3072, n=2560, k=2048), dict(m=64, n=128, k=192), o)
pairs += [("gemm_s8_plain", "gemm_s8_ahead")]


def bulk_rows(blocks, n, table):
    def args(xp, rng): return normal(xp, rng, table, 2048), index(xp, rng, n, table), out(xp, rng, n, 2048), I(n)
    def check(a): return float(np.count_nonzero(a[0][a[1][spread(n, 400)]] != a[2][spread(n, 400)]))
    return (blocks,), (512,), 16 * 8192, args, check


add("bulk_rows", "tensor.cu", "bulk_rows", bulk_rows, dict(blocks=132, n=11000, table=14000), dict(blocks=2, n=70, table=50))
