# SPDX-License-Identifier: Apache-2.0
"""Of the second set of kernels_of_others what computes: by numbers, by tensor cores; and bulk copies."""
import numpy as np

from ..case_set import b2f, bf16, D, err, F, FILLED, I, index, normal, out, spread, U, uniform
from . import SET

add, pairs = SET.add, SET.pairs


# ---- arithmetic -----------------------------------------------------------------------------------------------------------------
def mat4(n):
    def args(xp, rng): return normal(xp, rng, n, 4, 4), normal(xp, rng, n, 4, 4), out(xp, rng, n, 4, 4)
    def check(a): return err(a[2][spread(n)], a[0][spread(n)] @ a[1][spread(n)])
    return (n // 64,), (64,), 0, args, check


add("mat4", "compute.cu", "mat4", mat4, dict(n=1 << 20), dict(n=128))


def jacobi(tx, ty, steps):
    def args(xp, rng): return normal(xp, rng, ty * 64 + 2, tx * 64 + 2), out(xp, rng, ty * 64, tx * 64), I(tx * 64), I(steps)
    def check(a):
        worst = 0.
        for x, y in {(0, 0), (tx - 1, ty - 1), (tx // 2, ty // 3)}:
            t = a[0][y * 64: y * 64 + 66, x * 64: x * 64 + 66].copy()
            for _ in range(steps):
                t[1:-1, 1:-1] = F(0.25) * (t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:])
            worst = max(worst, err(a[1][y * 64: y * 64 + 64, x * 64: x * 64 + 64], t[1:-1, 1:-1]))
        return worst
    return (tx, ty), (64, 8), 0, args, check


add("jacobi_tile", "compute.cu", "jacobi_tile", jacobi, dict(tx=24, ty=22, steps=100), dict(tx=2, ty=1, steps=3))


def monte_carlo(blocks, draws):
    def args(xp, rng): return out(xp, rng, blocks * 256, dtype=U), out(xp, rng, 1, dtype=U), I(draws)
    def check(a):
        t = spread(blocks * 256, 1000).astype(U)
        s, n = (t + U(1)) * U(2654435761) | U(1), np.zeros(t.size, U)
        def following(s):
            s = s ^ s << U(13)
            s ^= s >> U(17)
            return s ^ s << U(5)
        for _ in range(draws):
            x = following(s)
            s = following(x)
            n += ((x >> U(21)) ** U(2) + (s >> U(21)) ** U(2)) < 4194304
        return float(np.count_nonzero(n != a[0][t]) + abs((int(a[0].sum(dtype=np.int64)) + 0x41414141 & 0xFFFFFFFF) - int(a[1][0])))
    return (blocks,), (256,), 0, args, check


add("monte_carlo", "compute.cu", "monte_carlo", monte_carlo, dict(blocks=132 * 4, draws=1000), dict(blocks=2, draws=20))


def mandelbrot(w, h, limit):
    step = F(3.0 / w)
    def args(xp, rng): return out(xp, rng, h, w, dtype=np.uint16), I(w), F(-2.2), F(-1.1), step, I(limit)
    def check(a):
        rows = spread(h, 16)
        cx, cy = F(-2.2) + np.arange(w).astype(F) * step, (F(-1.1) + rows.astype(F) * step)[:, None]
        x, y, n = np.zeros((rows.size, w), F), np.zeros((rows.size, w), F), np.zeros((rows.size, w), int)
        on = np.ones(x.shape, bool)
        for _ in range(limit):
            on &= ~(x * x + y * y >= 4)
            n += on
            x, y = np.where(on, x * x - y * y + cx, x), np.where(on, 2 * x * y + cy, y)
        return float(np.mean(n != a[0][rows]))
    return (w // 32, h // 4), (32, 4), 0, args, check


add("mandelbrot", "compute.cu", "mandelbrot", mandelbrot, dict(w=3072, h=2048, limit=400), dict(w=64, h=48, limit=30), tolerance=0.03)


def horner(n):
    def args(xp, rng): return uniform(xp, rng, n, 4), normal(xp, rng, 192), out(xp, rng, n, 4)
    def check(a): return err(a[2][spread(n)], np.polyval(a[1].astype(D), a[0][spread(n)].astype(D)))
    return (n // 128,), (128,), 0, args, check


for u in (1, 16):
    add(f"horner_u{u}", "compute.cu", "horner", horner, dict(n=3 << 20), dict(n=256), (f"-DU={u}",), 1e-4)
pairs += [("horner_u1", "horner_u16")]


def fourier(n, terms):
    def args(xp, rng): return uniform(xp, rng, n) * F(6.28), normal(xp, rng, terms, 2), out(xp, rng, n), I(terms)
    def check(a):
        x, k = a[0][spread(n)], np.arange(1, terms + 1).astype(F)
        at = (x[:, None] * k).astype(D)
        return err(a[2][spread(n)], (a[1][:, 0] * np.sin(at) + a[1][:, 1] * np.cos(at)).sum(1))
    return (n // 256,), (256,), 0, args, check


add("fourier", "compute.cu", "fourier", fourier, dict(n=3 << 20, terms=16), dict(n=512, terms=3), tolerance=1e-4)


def uneven(ordered, n, below):
    def args(xp, rng):
        steps = index(xp, rng, n, below)
        return xp.sort(steps) if ordered else steps, normal(xp, rng, n), out(xp, rng, n)
    def check(a):
        k = np.asarray(a[0][spread(n)], D)
        return err(a[2][spread(n)], a[1][spread(n)] * (1 - (-0.75) ** (k + 1)) / 1.75)
    return (n // 128,), (128,), 0, args, check


for kind in ("mixed", "sorted"):
    add(f"uneven_{kind}", "compute.cu", "uneven_steps", lambda n, below, kind=kind: uneven(kind == "sorted", n, below), dict(n=2 << 20, below=1000),
        dict(n=512, below=50))
pairs += [("uneven_mixed", "uneven_sorted")]


def decode(heads, length, chunks):
    def args(xp, rng): return normal(xp, rng, heads, 128), bf16(xp, rng, heads, length, 128), out(xp, rng, heads, length), I(length), I(length // chunks), F(0.0884)
    def check(a):
        h, t = spread(heads, 6), spread(length, 500)
        return err(a[2][h][:, t], 0.0884 * np.einsum("hd,htd->ht", a[0][h].astype(D), b2f(a[1][h][:, t])))
    return (heads, chunks), (256,), 0, args, check


add("decode_scores", "compute.cu", "decode_scores", decode, dict(heads=40, length=8192, chunks=2), dict(heads=2, length=128, chunks=2))


def matvec_split(rows, k):
    def args(xp, rng): return normal(xp, rng, rows, k), normal(xp, rng, k), out(xp, rng, rows), I(k // 4)
    def check(a): return err(a[2][spread(rows, 500)], a[0][spread(rows, 500)].astype(D) @ a[1] + FILLED)
    return (rows // 64, k // 512), (256,), 0, args, check


add("matvec_split", "compute.cu", "matvec_split", matvec_split, dict(rows=6144, k=6144), dict(rows=64, k=1024))


# ---- asynchronous copies and the tensor core ------------------------------------------------------------------------------------
def total(kind, stages, n, blocks):
    def args(xp, rng): return normal(xp, rng, n) + F(0.25), out(xp, rng, 1), I(n // 4 if kind == "async" else n // 3072)
    def check(a): return err(a[1], [a[0].sum(dtype=D) + FILLED])
    return (blocks,), (512 if kind == "async" else 288,), stages * 12288, args, check


add("async_sum", "async.cu", "async_sum", lambda n, blocks: total("async", 0, n, blocks), dict(n=30_000_000, blocks=132 * 3), dict(n=30000, blocks=2), tolerance=2e-4)
for s in (2, 6):
    add(f"bulk_sum_s{s}", "async.cu", "bulk_sum", lambda n, blocks, s=s: total("bulk", s, n, blocks), dict(n=3072 * 11000, blocks=132 * 2), dict(n=3072 * 15, blocks=2),
        (f"-DSTAGES={s}",), 2e-4)
pairs += [("bulk_sum_s2", "bulk_sum_s6")]


def gemm(tile, m, n, k):
    def args(xp, rng): return normal(xp, rng, m, k).astype(np.float16), normal(xp, rng, n, k).astype(np.float16), out(xp, rng, m, n, dtype=np.float16), I(n), I(k)
    def check(a):
        r = spread(m, 48)
        return err(a[2][r], a[0][r].astype(F) @ a[1].astype(F).T)
    return (m // tile, n // tile), (128,), 3 * 2 * tile * 128, args, check


for t in (64, 128):
    add(f"gemm_mma_{t}", "gemm.cu", "gemm_mma", lambda m, n, k, t=t: gemm(t, m, n, k), dict(m=3072, n=4096, k=2048), dict(m=128, n=128, k=320), (f"-DTILE={t}",), 2e-3)
pairs += [("gemm_mma_64", "gemm_mma_128")]
