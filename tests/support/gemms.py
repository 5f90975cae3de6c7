# SPDX-License-Identifier: Apache-2.0
"""Launches of the course's GEMMs on exact inputs, for several tests."""
import hopperlab as hl
import ml_dtypes
import numpy as np

SCHEDULES = ("lazy", "eager", "random")
SHAPES = [(1, 8, 8), (130, 200, 72), (129, 257, 136), (256, 128, 320)]


def operands(m, n, k, seed):
    """Small integers, so that every product sum is exact in fp32 and the bf16 result is one rounding away."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, (m, k)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-3, 4, (n, k)).astype(ml_dtypes.bfloat16)
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    return a, b, np.full((m, n), 77, ml_dtypes.bfloat16), exact.astype(ml_dtypes.bfloat16)


def tiles(size):
    return -(-size // 128)


def warp_specialized(m, n, k, schedule="lazy", seed=0, options=(), hazards="raise", trace=True):
    a, b, c, exact = operands(m, n, k, m * 7 + n * 5 + k)
    kernel = hl.load_kernel("gemm/warp_specialized.cu", "gemm", options=options, backend="emulator")
    maps = [hl.TensorMap.tiled(x, box=(128, 64), swizzle="128B") for x in (a, b)]
    with hl.emulate(schedule=schedule, seed=seed, hazards=hazards, trace=trace) as session:
        kernel((tiles(n), tiles(m)), (384,), (*maps, c, np.int32(m), np.int32(n), np.int32(k)), shared_mem=4 * 32768 + 64)
    return c, exact, session


def mma_multistage(m, n, k, schedule="lazy", seed=0, options=(), hazards="raise"):
    a, b, c, exact = operands(m, n, k, m + n + k)
    kernel = hl.load_kernel("gemm/mma_multistage.cu", "gemm", options=options, backend="emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards=hazards) as session:
        kernel((tiles(n), tiles(m)), (256,), (a, b, c, np.int32(m), np.int32(n), np.int32(k)), shared_mem=4 * 16384)
    return c, exact, session
