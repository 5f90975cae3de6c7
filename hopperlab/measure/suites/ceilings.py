# SPDX-License-Identifier: Apache-2.0
"""What this GPU reaches at best, the recording `ceilings`. Needs a Hopper GPU, CuPy and PyTorch."""
from __future__ import annotations

from ..machine import peers
from ..machine.timing import interleaved
from ..recordings import Record
from .fields import gb_s, load, tflops, times

COPY_BYTES = 1 << 30            # read, and as much written


def ceilings(rounds: int = 9) -> list[Record]:
    """What this GPU reaches at best: a large device-to-device copy, and cuBLAS products of 8192 in each data type."""
    import cupy
    source = cupy.random.default_rng(1).integers(0, 1 << 30, size=COPY_BYTES // 4, dtype=cupy.int32)
    target = cupy.empty_like(source)
    runs = {"device copy": peers.device_copy(source, target)}
    products = {dtype: peers.torch_product(8192, dtype) for dtype in peers.GEMM_DTYPES}
    runs |= {dtype: run for dtype, run in products.items() if run is not None}
    samples = interleaved(runs, rounds)
    copied = samples.pop("device copy")
    records = [Record("ceilings", "device copy", (), (source.nbytes,), "bytes", gb_s=gb_s(2 * source.nbytes, copied),
                      note="cudaMemcpy, bytes read plus bytes written", **times(copied), **load(runs["device copy"], 1.5))]
    for dtype, sample in samples.items():
        records.append(Record("ceilings", "cuBLAS product", shape=(8192, 8192, 8192), dtype=dtype, **times(sample),
                              tflops=tflops((8192, 8192, 8192), sample), **load(runs[dtype], 1.5)))
    return records
