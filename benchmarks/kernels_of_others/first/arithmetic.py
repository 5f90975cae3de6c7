# SPDX-License-Identifier: Apache-2.0
"""Of the first set of kernels_of_others what computes: by numbers, by tensor cores; and bulk copies."""
import numpy as np

import hopperlab as hl

from ..case_set import b2f, bf16, err, F, I, normal, out, some, uniform, words
from . import SET

add, pairs = SET.add, SET.pairs


# ---- arithmetic ---------------------------------------------------------------------------------------------------------------------
def sgemm(tile, reg, m, n, k):
    def args(xp, rng): return normal(xp, rng, m, k), normal(xp, rng, k, n), out(xp, rng, m, n), I(m), I(n), I(k)
    def check(a):
        r = some(m, 64)
        return err(a[2][r], a[0][r] @ a[1])
    return (n // tile, m // tile), ((tile // reg) ** 2,), 0, args, check


for tile, reg in ((64, 4), (128, 8)):
    add(f"sgemm_{tile}", "cores.cu", "sgemm", lambda m, n, k, tile=tile, reg=reg: sgemm(tile, reg, m, n, k), dict(m=2048, n=2304, k=1024),
        dict(m=128, n=128, k=32), (f"-DBM={tile}", f"-DBN={tile}", f"-DTM={reg}", f"-DTN={reg}"), 1e-4)
pairs += [("sgemm_64", "sgemm_128")]


def dp4a(m, n, k):
    def args(xp, rng): return words(xp, rng, m, k // 4).view(np.int32), words(xp, rng, n, k // 4).view(np.int32), out(xp, rng, m, n, dtype=np.int32), I(n), I(k // 4)
    def check(a):
        r = some(m, 32)
        x, y = a[0][r].view(np.int8).astype(np.float64), a[1].view(np.int8).astype(np.float64)
        return float(np.count_nonzero(x @ y.T != a[2][r]))
    return (n // 64, m // 64), (256,), 0, args, check


add("dp4a_gemm", "cores.cu", "dp4a_gemm", dp4a, dict(m=2048, n=2048, k=2048), dict(m=64, n=128, k=128))


def nbody(n):
    def args(xp, rng): return uniform(xp, rng, n, 4), out(xp, rng, n, 4), I(n)
    def check(a):
        r = some(n)
        b = a[0].astype(np.float64)
        d = b[None, :, :3] - b[r][:, None, :3]
        return err(a[1][r][:, :3], (d * (b[None, :, 3:] / ((d * d).sum(-1, keepdims=True) + 1e-2) ** 1.5)).sum(1))
    return (n // 256,), (256,), 0, args, check


for u in (1, 16):
    add(f"nbody_u{u}", "cores.cu", "nbody", nbody, dict(n=264 * 256 // 2), dict(n=512), (f"-DINNER={u}",), 1e-3)
pairs += [("nbody_u1", "nbody_u16")]


# ---- tensor cores -------------------------------------------------------------------------------------------------------------------
def sampled_product(a, b, got, m):
    r = some(m, 48)
    return err(got[r], b2f(a[r]) @ b)


def mma_tn(stages, m, n, k):
    def args(xp, rng): return bf16(xp, rng, m, k), bf16(xp, rng, n, k), out(xp, rng, m, n, dtype=np.uint16), I(m), I(n), I(k)
    def check(a): return sampled_product(a[0], b2f(a[1]).T, b2f(a[2][:]), m)
    return (n // 128, m // 128), (256,), stages * 256 * 64, args, check


for s in (2, 4):
    add(f"mma_tn_s{s}", "mma_tn.cu", "mma_tn", lambda m, n, k, s=s: mma_tn(s, m, n, k), dict(m=4096, n=4224, k=1024), dict(m=128, n=256, k=160), (f"-DSTAGES={s}",), 5e-3)
pairs += [("mma_tn_s2", "mma_tn_s4")]


def mma_nn(m, n, k):
    def args(xp, rng): return bf16(xp, rng, m, k), bf16(xp, rng, k, n), out(xp, rng, m, n), I(n), I(k)
    def check(a): return sampled_product(a[0], b2f(a[1]), a[2], m)
    return (n // 64, m // 64), (128,), 0, args, check


add("mma_nn", "mma_nn.cu", "mma_nn", mma_nn, dict(m=2048, n=2048, k=2048), dict(m=64, n=128, k=160), tolerance=1e-4)


def wg(bn, block, stages, tiles_m, tiles_n, k):
    m, n = 128 * tiles_m, bn * tiles_n

    def args(xp, rng):
        return (hl.TensorMap.tiled(bf16(xp, rng, m, k), box=(128, 64), swizzle="128B"), hl.TensorMap.tiled(bf16(xp, rng, n, k), box=(bn, 64), swizzle="128B"),
                out(xp, rng, m, n, dtype=np.uint16), I(n), I(k))

    def check(a): return sampled_product(a[0], b2f(a[1]).T, b2f(a[2]), m)
    return (tiles_n, tiles_m), (block,), 1024 + stages * (128 + bn) * 128, args, check


add("wg_single", "wg.cu", "wg_single", lambda tiles_m, tiles_n, k: wg(128, 128, 1, tiles_m, tiles_n, k), dict(tiles_m=32, tiles_n=32, k=2048),
    dict(tiles_m=1, tiles_n=2, k=192), (), 5e-3)
for s in (2, 3, 4):
    add(f"wg_ring_s{s}", "wg.cu", "wg_ring", lambda tiles_m, tiles_n, k, s=s: wg(256, 256, s, tiles_m, tiles_n, k), dict(tiles_m=32, tiles_n=16, k=4096),
        dict(tiles_m=1, tiles_n=1, k=384), (f"-DSTAGES={s}", "-DBN=256"), 5e-3)
pairs += [("wg_ring_s2", "wg_ring_s4")]
for bn, s in ((128, 4), (256, 4)):
    add(f"wg_roles_n{bn}", "wg.cu", "wg_roles", lambda tiles_m, tiles_n, k, bn=bn, s=s: wg(bn, 384, s, tiles_m, tiles_n, k),
        dict(tiles_m=32, tiles_n=4096 // bn, k=4096), dict(tiles_m=1, tiles_n=1, k=384), (f"-DSTAGES={s}", f"-DBN={bn}"), 5e-3)
pairs += [("wg_roles_n128", "wg_roles_n256")]


# ---- bulk copies --------------------------------------------------------------------------------------------------------------------
def bulk(stages, strips, blocks):
    n = strips * 2048
    def args(xp, rng): return normal(xp, rng, n), out(xp, rng, n), F(0.75), F(1.0), I(strips)
    def check(a): return err(a[1], a[0] * F(0.75) + F(1))
    return (blocks,), (256,), stages * 8192, args, check


for s in (2, 4):
    add(f"bulk_affine_s{s}", "bulk.cu", "bulk_affine", lambda strips, blocks, s=s: bulk(s, strips, blocks), dict(strips=132 * 2 * 60, blocks=132 * 2),
        dict(strips=17, blocks=2), (f"-DSTAGES={s}",))
pairs += [("bulk_affine_s2", "bulk_affine_s4")]


def row_norm(rows):
    def args(xp, rng): return normal(xp, rng, rows, 4096), out(xp, rng, rows)
    def check(a): return err(a[1], np.sqrt((a[0].astype(np.float64) ** 2).sum(1)))
    return (rows,), (128,), 0, args, check


add("bulk_row_norm", "bulk.cu", "bulk_row_norm", row_norm, dict(rows=12000), dict(rows=2))
