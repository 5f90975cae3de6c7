# SPDX-License-Identifier: Apache-2.0
"""Of the second set of kernels_of_others what moves data: copies, layouts, rows, reductions, indices."""
import numpy as np

from ..case_set import b2f, D, err, F, FILLED, I, index, normal, out, spread, U, words
from . import SET

add, pairs = SET.add, SET.pairs


# ---- copies, axpys, layouts ----------------------------------------------------------------------------------------------------
def gs_copy(blocks, n4):
    def args(xp, rng): return normal(xp, rng, n4, 4), out(xp, rng, n4, 4), I(n4)
    def check(a): return float(np.count_nonzero(a[0] != a[1]))
    return (blocks,), (512,), 0, args, check


for b in (1, 2, 4):
    add(f"gs_copy_b{b}", "stream.cu", "gs_copy", lambda n4, small=0, b=b: gs_copy(small or 132 * b, n4), dict(n4=5 << 20), dict(n4=4500, small=b))
pairs += [("gs_copy_b1", "gs_copy_b4")]


def saxpy(blocks):
    n = blocks * 2048
    def args(xp, rng): return normal(xp, rng, n), out(xp, rng, n), F(1.75)
    def check(a): return err(a[1][::7], a[0][::7].astype(D) * 1.75 + FILLED)
    return (blocks,), (256,), 0, args, check


for u in (1, 8):
    add(f"saxpy_u{u}", "stream.cu", "saxpy_eight", saxpy, dict(blocks=10000), dict(blocks=2), (f"-DU={u}",))
pairs += [("saxpy_u1", "saxpy_u8")]


def from_columns(rows, cols):
    def args(xp, rng): return normal(xp, rng, cols, rows), out(xp, rng, rows, cols), I(rows), I(cols)
    def check(a): return float(np.count_nonzero(a[0].T[spread(rows, 64)] != a[1][spread(rows, 64)]))
    return (cols // 32, rows // 8), (32, 8), 0, args, check


add("from_columns", "stream.cu", "from_columns", from_columns, dict(rows=3072, cols=4096), dict(rows=24, cols=64))


def aos(n):
    def args(xp, rng): return normal(xp, rng, n, 7), out(xp, rng, 7, n), I(n)
    def check(a): return float(np.count_nonzero(a[0][spread(n)].T != a[1][:, spread(n)]))
    return (-(-n // 128),), (128,), 0, args, check


add("aos_to_soa", "stream.cu", "aos_to_soa", aos, dict(n=3_000_000), dict(n=500))


def grey(n):
    def args(xp, rng): return words(xp, rng, n * 3 // 4).view(np.uint8), out(xp, rng, n, dtype=np.uint8), I(n)
    def check(a):
        p = a[0].reshape(-1, 3)[spread(n)].astype(U)
        return float(np.count_nonzero((77 * p[:, 0] + 150 * p[:, 1] + 29 * p[:, 2] + 128) >> 8 != a[1][spread(n)]))
    return (-(-n // 256),), (256,), 0, args, check


add("rgb_to_grey", "stream.cu", "rgb_to_grey", grey, dict(n=24 << 20), dict(n=1000))


def daxpy(blocks):
    n = blocks * 2048
    def args(xp, rng): return rng.standard_normal(n, dtype=D), out(xp, rng, n, dtype=D), D(1e6)
    def check(a): return err(a[1][spread(n)], a[0][spread(n)] * 1e6 + np.full(8, 0x41, np.uint8).view(D)[0])
    return (blocks,), (1024,), 0, args, check


add("daxpy", "stream.cu", "daxpy", daxpy, dict(blocks=6000), dict(blocks=2), tolerance=1e-14)


def haxpy(vec, n):
    def args(xp, rng): return normal(xp, rng, n).astype(np.float16), out(xp, rng, n, dtype=np.float16), F(0.5)
    def check(a): return err(a[1][spread(n)], a[0][spread(n)].astype(F) * F(0.5) + F(np.full(2, 0x41, np.uint8).view(np.float16)[0]))
    return (n // 2 // vec // 256,), (256,), 0, args, check


for v in (1, 4):
    add(f"haxpy_v{v}", "stream.cu", "haxpy", lambda n, v=v: haxpy(v, n), dict(n=48 << 20), dict(n=4096), (f"-DVEC={v}",), 1e-3)
pairs += [("haxpy_v1", "haxpy_v4")]


def fan_out(n):
    def args(xp, rng): return normal(xp, rng, 2, n), normal(xp, rng, 16), out(xp, rng, 8, n), I(n)
    def check(a):
        s = spread(n)
        return err(a[2][:, s], a[1][:8, None] * a[0][0, s] + a[1][8:, None] * a[0][1, s])
    return (n // 128,), (128,), 0, args, check


for kind, options in (("restrict", ()), ("alias", ("-DALIAS",))):
    add(f"fan_out_{kind}", "stream.cu", "fan_out", fan_out, dict(n=4 << 20), dict(n=512), options)
pairs += [("fan_out_restrict", "fan_out_alias")]


# ---- pictures ------------------------------------------------------------------------------------------------------------------
def box7(shared, w, h):
    def args(xp, rng): return normal(xp, rng, h, w), out(xp, rng, h, w), I(w), I(h)
    def check(a):
        rows = spread(h, 32)
        x = np.pad(a[0], 3, mode="edge")
        return err(a[1][rows], sum(x[rows + dy][:, dx: dx + w].astype(D) for dy in range(7) for dx in range(7)) / 49)
    return (-(-w // 32), -(-h // 8)), (32, 8), shared, args, check


for s in (0, 100):
    add(f"box7_s{s}", "image.cu", "box7", lambda w, h, s=s: box7(s << 10, w, h), dict(w=3840, h=2160), dict(w=70, h=20))
pairs += [("box7_s0", "box7_s100")]


WEIGHTS = (np.arange(144) * 37 % 101 - 50).reshape(4, 4, 9) / 64


def conv(w, h):
    def args(xp, rng): return normal(xp, rng, 4, h + 2, w + 2), out(xp, rng, 4, h, w), I(w), I(h)
    def check(a):
        rows = spread(h, 24)
        want = sum(WEIGHTS[:, c, t][:, None, None] * a[0][c][rows + t // 3][:, t % 3: t % 3 + w] for c in range(4) for t in range(9))
        return err(a[1][:, rows], want)
    return (w // 64, h // 4), (64, 4), 0, args, check


add("conv3x3", "image.cu", "conv3x3", conv, dict(w=2048, h=1600), dict(w=64, h=8))


def resize(w, h, ow, oh):
    step = F(w / ow)
    def args(xp, rng): return words(xp, rng, h * w).view(np.uint8).reshape(h, w, 4), out(xp, rng, oh, ow, 4, dtype=np.uint8), I(w), I(h), I(ow), I(oh), step
    def check(a):
        ys, xs = spread(oh, 24), np.arange(ow)
        place = lambda i, n: (f := np.maximum((i + F(0.5)).astype(F) * step - F(0.5), 0).astype(F), i0 := np.minimum(f.astype(int), n - 1),
                              np.minimum(i0 + 1, n - 1), (f - i0).astype(F))
        _, x0, x1, u = place(xs, w)
        _, y0, y1, v = place(ys, h)
        p = lambda y, x: a[0][y[:, None], x[None]].astype(F)
        u, v = u[None, :, None], v[:, None, None]
        t, m = p(y0, x0) + u * (p(y0, x1) - p(y0, x0)), p(y1, x0) + u * (p(y1, x1) - p(y1, x0))
        return float(np.abs((t + v * (m - t) + F(0.5)).astype(np.uint8).astype(int) - a[1][ys]).max())
    return (-(-ow // 16), -(-oh // 16)), (16, 16), 0, args, check


add("resize", "image.cu", "resize", resize, dict(w=3000, h=1800, ow=5000, oh=3000), dict(w=33, h=21, ow=55, oh=35), tolerance=1)


def sat(w, h):
    def args(xp, rng): return normal(xp, rng, h, w), out(xp, rng, h, w), I(w)
    def check(a):
        r = spread(h // 64, 4)
        tile = lambda x: x.reshape(h // 64, 64, w // 64, 64)[r]
        return err(tile(a[1]), tile(a[0]).astype(D).cumsum(1).cumsum(3))
    return (w // 64, h // 64), (64,), 0, args, check


for p in (0, 1):
    add(f"tile_sat_pad{p}", "image.cu", "tile_sat", sat, dict(w=4096, h=3072), dict(w=128, h=64), (f"-DPAD={p}",), 1e-5)
pairs += [("tile_sat_pad0", "tile_sat_pad1")]


# ---- rows ----------------------------------------------------------------------------------------------------------------------
def argmax(rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width), out(xp, rng, rows, dtype=I), I(width // 4)
    def check(a): return float(np.count_nonzero(a[0][spread(rows, 400)].argmax(1) != a[1][spread(rows, 400)]))
    return (rows,), (256,), 0, args, check


add("argmax_row", "rows.cu", "argmax_row", argmax, dict(rows=4096, width=8000), dict(rows=2, width=3000))


def cross_entropy(rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width) * F(3), index(xp, rng, rows, width), out(xp, rng, rows), I(width // 2)
    def check(a):
        r = spread(rows, 64)
        x = a[0][r].astype(D)
        m = x.max(1)
        return err(a[2][r], np.log(np.exp(x - m[:, None]).sum(1)) + m - x[np.arange(r.size), a[1][r]])
    return (rows,), (1024,), 0, args, check


add("cross_entropy", "rows.cu", "cross_entropy", cross_entropy, dict(rows=1100, width=32000), dict(rows=1, width=5000), tolerance=1e-5)


def batch_stats(channels, images, hw):
    def args(xp, rng): return normal(xp, rng, images, channels, hw) + F(0.5), out(xp, rng, channels), out(xp, rng, channels), I(images), I(hw // 4)
    def check(a):
        c = spread(channels, 8)
        x = a[0][:, c].astype(D)
        return max(err(a[1][c], x.mean((0, 2))), err(a[2][c], 1 / np.sqrt(x.var((0, 2)) + 1e-5)))
    return (channels,), (1024,), 0, args, check


add("batch_stats", "rows.cu", "batch_stats", batch_stats, dict(channels=96, images=32, hw=64 * 64), dict(channels=2, images=3, hw=500), tolerance=1e-4)


def group_norm(images, groups, channels, hw):
    def args(xp, rng):
        c = groups * channels
        return (normal(xp, rng, images * groups, channels, hw), normal(xp, rng, c), normal(xp, rng, c), out(xp, rng, images * groups, channels, hw), I(groups),
                I(channels), I(hw // 2))
    def check(a):
        b = spread(images * groups, 24)
        x = a[0][b].astype(D)
        c = (b % groups)[:, None] * channels + np.arange(channels)
        want = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5) * a[1][c][..., None] + a[2][c][..., None]
        return err(a[3][b], want)
    return (images * groups,), (256,), 0, args, check


add("group_norm", "rows.cu", "group_norm", group_norm, dict(images=40, groups=32, channels=10, hw=28 * 28), dict(images=1, groups=2, channels=3, hw=200), tolerance=1e-4)


def cumsum(threads, rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width), out(xp, rng, rows, width), I(width)
    def check(a): return err(a[1][spread(rows, 64)], a[0][spread(rows, 64)].astype(D).cumsum(1))
    return (rows // (threads // 32),), (threads,), 0, args, check


for t in (64, 512):
    add(f"cumsum_t{t}", "rows.cu", "cumsum_warp", lambda rows, width, t=t: cumsum(t, rows, width), dict(rows=6144, width=2048), dict(rows=16, width=96), tolerance=1e-5)
pairs += [("cumsum_t64", "cumsum_t512")]


def quantise(rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width).astype(np.float16), out(xp, rng, rows, width, dtype=np.int8), out(xp, rng, rows), I(width // 4)
    def check(a):
        r = spread(rows, 64)
        x = a[0][r].astype(F)
        most = np.abs(x).max(1, keepdims=True)
        if err(a[2][r], most[:, 0] / 127) > 1e-6:
            return 99.
        return float(np.abs(np.rint(x * (F(127) / most)) - a[1][r]).max())
    return (rows,), (128,), 0, args, check


add("quantise_row", "rows.cu", "quantise_row", quantise, dict(rows=10000, width=4096), dict(rows=2, width=1200), tolerance=1)


def unpack(n):
    def args(xp, rng): return words(xp, rng, n) * U(2) + U(1), normal(xp, rng, -(-n // 8)).astype(np.float16), out(xp, rng, n, 8, dtype=np.uint16), I(n)
    def check(a):
        i = spread(n)
        return err(b2f(a[2][i]), ((a[0][i, None] >> (U(4) * np.arange(8, dtype=U)) & U(15)).astype(F) - 8) * a[1][i // 8].astype(F)[:, None])
    return (-(-n // 192),), (192,), 0, args, check


add("unpack_int4", "rows.cu", "unpack_int4", unpack, dict(n=7_000_000), dict(n=1000), tolerance=4e-3)


def top32(rows, width):
    def args(xp, rng): return normal(xp, rng, rows, width), out(xp, rng, rows, 32), I(rows), I(width)
    def check(a): return float(np.count_nonzero(np.sort(a[0][spread(rows, 200)], 1)[:, :-33:-1] != a[1][spread(rows, 200)]))
    return (-(-rows // 4),), (128,), 0, args, check


add("top32", "rows.cu", "top32", top32, dict(rows=12000, width=1024), dict(rows=6, width=128))


# ---- indexed --------------------------------------------------------------------------------------------------------------------
def starts(xp, lengths):
    return xp.concatenate([xp.zeros(1, dtype=I), xp.cumsum(lengths, dtype=I)]).astype(I)


def spmv(rows, cols, least, spread_):
    def args(xp, rng):
        start = starts(xp, index(xp, rng, rows, spread_) + I(least))
        n = int(start[-1])
        return start, index(xp, rng, n, cols), normal(xp, rng, n), normal(xp, rng, cols), out(xp, rng, rows), I(rows)
    def check(a):
        r = spread(rows, 2000)
        return err(a[4][r], [(a[2][s:e].astype(D) * a[3][a[1][s:e]]).sum() for s, e in zip(a[0][r], a[0][r + 1])])
    return (-(-rows // 8),), (256,), 0, args, check


add("spmv_csr", "indexed.cu", "spmv_csr", spmv, dict(rows=150_000, cols=150_000, least=10, spread_=90), dict(rows=20, cols=300, least=10, spread_=90))


def bags(table, n, least, spread_):
    def args(xp, rng):
        start = starts(xp, index(xp, rng, n, spread_) + I(least))
        return normal(xp, rng, table, 128), index(xp, rng, int(start[-1]), table), start, out(xp, rng, n, 128), I(n)
    def check(a):
        b = spread(n, 500)
        return err(a[3][b], [a[0][a[1][s:e]].astype(D).sum(0) for s, e in zip(a[2][b], a[2][b + 1])])
    return (-(-n // 2),), (64,), 0, args, check


add("embedding_bag", "indexed.cu", "embedding_bag", bags, dict(table=300_000, n=16384, least=5, spread_=40), dict(table=100, n=5, least=3, spread_=10))


def probe(bits, keys, n):
    def args(xp, rng):
        made = np.random.default_rng(5)
        h = np.sort(made.integers(1, 1 << 32, keys, dtype=np.int64).astype(U))
        h = h[np.append(True, h[1:] != h[:-1])]                     # hashes, in order; the multiplication has an inverse
        key, home = h * U(pow(0x9E3779B1, -1, 1 << 32)), (h >> U(32 - bits)).astype(np.int64)
        place = np.arange(key.size)
        place = place + np.maximum.accumulate(home - place)
        slots = np.zeros(((1 << bits) + 4096, 2), U)
        slots[place, 0], slots[place, 1] = key, key ^ U(0x55AA55AA)
        query = np.where(made.random(n) < 0.5, key[made.integers(0, key.size, n)], made.integers(1, 1 << 32, n, dtype=np.int64).astype(U))
        return xp.asarray(slots), xp.asarray(query), out(xp, rng, n, dtype=U), I(n), I(32 - bits)
    def check(a):
        known = np.sort(a[0][:, 0])
        i = spread(n, 20000)
        q = a[1][i]
        there = known[np.minimum(np.searchsorted(known, q), known.size - 1)] == q
        return float(np.count_nonzero(np.where(there, q ^ U(0x55AA55AA), U(0xFFFFFFFF)) != a[2][i]))
    return (-(-n // 256),), (256,), 0, args, check


add("hash_probe", "indexed.cu", "hash_probe", probe, dict(bits=23, keys=5_000_000, n=4_000_000), dict(bits=10, keys=600, n=700))


def murmur(n):
    def args(xp, rng): return words(xp, rng, n, 4), out(xp, rng, n, dtype=U), I(n)
    def check(a):
        i = spread(n)
        w = a[0][i]
        total = np.zeros(i.size, U)
        rot = lambda t, s: t << U(s) | t >> U(32 - s)
        for seed in range(8):
            h = np.full(i.size, seed * 0x3C6EF372 & 0xFFFFFFFF, U)
            for j in range(4):
                h = rot(h ^ (rot(w[:, j] * U(0xCC9E2D51), 15) * U(0x1B873593) + U(seed)), 13) * U(5) + U(0xE6546B64)
            h ^= U(16)
            h = (h ^ h >> U(16)) * U(0x85EBCA6B)
            h = (h ^ h >> U(13)) * U(0xC2B2AE35)
            total += (h ^ h >> U(16)) >> U(seed)
        return float(np.count_nonzero(total != a[1][i]))
    return (-(-n // 256),), (256,), 0, args, check


add("murmur", "indexed.cu", "murmur", murmur, dict(n=6_000_000), dict(n=700))


def bit_count(n4, blocks):
    def args(xp, rng): return words(xp, rng, n4, 4), out(xp, rng, 1, dtype=U), I(n4)
    def check(a):
        bits = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(1).astype(np.uint8)
        return float(abs((int(bits[a[0].view(np.uint16)].sum(dtype=np.int64)) + 0x41414141 & 0xFFFFFFFF) - int(a[1][0])))
    return (blocks,), (256,), 0, args, check


for kind, options in (("threads", ()), ("blocks", ("-DBLOCK_FIRST",))):
    add(f"bit_count_{kind}", "indexed.cu", "bit_count", bit_count, dict(n4=6 << 20, blocks=132 * 8), dict(n4=1500, blocks=2), options)
pairs += [("bit_count_threads", "bit_count_blocks")]


def count(bins, n, blocks):
    def args(xp, rng): return words(xp, rng, n), out(xp, rng, bins, dtype=U), U(bins - 1), I(n)
    def check(a): return float(np.count_nonzero(np.bincount(a[0] & U(bins - 1), minlength=bins) + 0x41414141 != a[1]))
    return (blocks,), (256,), 0, args, check


add("count_16", "indexed.cu", "count_global", count, dict(bins=16, n=1 << 20, blocks=132 * 4), dict(bins=16, n=2000, blocks=3))
add("count_million", "indexed.cu", "count_global", count, dict(bins=1 << 20, n=6 << 20, blocks=132 * 8), dict(bins=1 << 10, n=2000, blocks=3))
