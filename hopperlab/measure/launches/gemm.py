# SPDX-License-Identifier: Apache-2.0
"""The steps of the product ladder, ready to call: c = a * b^T in bf16 by any kernel of kernels/gemm, in either place.

`LADDER` names the steps in climbing order; `launch(step, a, b, c)` is one function for all. What a kernel needs (grid, shared
memory, boxes) is in its header; here it is written once. a: m x k, b: n x k, c: m x n; ml_dtypes.bfloat16 or uint16 bits.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.arrays import is_cuda_array
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import gemm_choice, gemm_tuned, operand_checks
from .gemm_configurations import Choice, Final, SplitK, StreamK
from .launch import SMS, Launch, mma_multistage, tma_wgmma, warp_specialized

if TYPE_CHECKING:
    from ...runtime.arrays import Array


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _sizes(a, b, c, pitched: bool = False) -> tuple[int, int, int]:
    return operand_checks.product(a, b, c, pitched=pitched)


def _map(array, rows: int, columns: int = 64, promotion: str = "none") -> TensorMap:
    dtype = "bfloat16" if array.dtype == np.uint16 else None
    return TensorMap.tiled(array, box=(rows, columns), swizzle="128B", dtype=dtype, l2_promotion=promotion)


def _whole_lines(array) -> bool:
    """Whether every row begins at a multiple of 128 bytes, as far as the distance of the rows goes."""
    return array.shape[0] == 1 or array.strides[0] % 128 == 0


def _promotion(array, most: int = 256) -> str:
    """Into the L2, of an operand's tensor map: where rows begin inside a 128-byte line, 256B asks the L2 for more than 128B does."""
    return f"{most if _whole_lines(array) else min(most, 128)}B"


def _numbers(m: int, n: int, k: int) -> tuple[np.int32, ...]:
    return np.int32(m), np.int32(n), np.int32(k)


def _module(array):
    """NumPy or CuPy, where the array is."""
    if not is_cuda_array(array):
        return np
    import cupy
    return cupy


def _plain(path: str, rows: int, columns: int, block: tuple[int, ...], a, b, c, options: Sequence[str] = (),
           backend: str | None = None) -> Launch:
    """A kernel without tensor maps: one block a tile of rows x columns."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel(path, "gemm", tuple(options), backend=backend)
    return Launch(kernel, (_ceil(n, columns), _ceil(m, rows)), block, (a, b, c, *_numbers(m, n, k)))


def naive(a: Array, b: Array, c: Array, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/naive.cu: a thread an element of C. Any m, n, k."""
    return _plain("gemm/naive.cu", 8, 32, (32, 8), a, b, c, options, backend)


def shared_tile(a: Array, b: Array, c: Array, options: Sequence[str] = (), backend: str | None = None,
                tile: tuple[int, int, int] = (64, 64, 16)) -> Launch:
    """gemm/shared_tile.cu: tiles (BM, BN, BK) through shared memory. Any m, n, k."""
    sizes = () if tile == (64, 64, 16) else tuple(f"-D{name}={size}" for name, size in zip(("BM", "BN", "BK"), tile, strict=True))
    return _plain("gemm/shared_tile.cu", tile[0], tile[1], (256,), a, b, c, (*sizes, *options), backend)


def register_double_buffer(a: Array, b: Array, c: Array, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/register_double_buffer.cu: Volta's software pipelining. k a multiple of 8."""
    operand_checks.product(a, b, c, k_multiple=8)
    return _plain("gemm/register_double_buffer.cu", 128, 128, (256,), a, b, c, options, backend)


def tma_mma(a: Array, b: Array, c: Array, stages: int = 3, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/tma_mma.cu: TMA and mma.sync. k a multiple of 8."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel("gemm/tma_mma.cu", "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, (_ceil(n, 128), _ceil(m, 128)), (256,), (_map(a, 128), _map(b, 128), c, *_numbers(m, n, k)),
                  stages * 32768 + 64)


def two_consumers_128x256(a: Array, b: Array, c: Array, stages: int = 4, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/two_consumers_128x256.cu: a 128 x 256 tile. k a multiple of 8; at most 4 stages."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel("gemm/two_consumers_128x256.cu", "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, (_ceil(n, 256), _ceil(m, 128)), (384,), (_map(a, 128), _map(b, 256), c, *_numbers(m, n, k)),
                  stages * 49152 + 64)


def cluster_multicast(a: Array, b: Array, c: Array, stages: int = 4, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/cluster_multicast.cu: two CTAs share B. k a multiple of 8; at most 4 stages."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel("gemm/cluster_multicast.cu", "gemm", (f"-DSTAGES={stages}", *options), backend=backend)
    return Launch(kernel, (2 * _ceil(m, 256), _ceil(n, 256)), (384,), (_map(a, 128), _map(b, 128), c, *_numbers(m, n, k)),
                  stages * 49152 + 64)


def _persistent_grid(m: int, n: int, bm: int, bn: int, cluster: int, blocks: int) -> tuple[int]:
    """As few CTAs as make no more waves of tiles than `blocks` of them would: the last wave is as full as the others."""
    tiles = _ceil(m, cluster * bm) * _ceil(n, bn)
    return (cluster * _ceil(tiles, _ceil(tiles, max(1, blocks // cluster))),)


def persistent(a: Array, b: Array, c: Array, stages: int = 4, group: int = 8, blocks: int = SMS, options: Sequence[str] = (),
               backend: str | None = None) -> Launch:
    """gemm/persistent.cu: at most `blocks` CTAs, tiles in groups of `group` rows. k a multiple of 8."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel("gemm/persistent.cu", "gemm", (f"-DSTAGES={stages}", f"-DGROUP={group}", *options), backend=backend)
    return Launch(kernel, _persistent_grid(m, n, 128, 256, 2, blocks), (384,),
                  (_map(a, 128), _map(b, 128), c, *_numbers(m, n, k)), stages * 49152 + 64)


def pingpong(a: Array, b: Array, c: Array, stages: int = 6, group: int = 16, blocks: int = SMS, options: Sequence[str] = (),
             backend: str | None = None) -> Launch:
    """gemm/pingpong.cu: the two consumers on different 128 x 128 tiles. k a multiple of 8."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel("gemm/pingpong.cu", "gemm", (f"-DSTAGES={stages}", f"-DGROUP={group}", *options), backend=backend)
    return Launch(kernel, _persistent_grid(m, n, 128, 128, 1, blocks), (384,),
                  (_map(a, 128), _map(b, 128), c, *_numbers(m, n, k)), stages * 32768 + 128)


def overlapped_store(a: Array, b: Array, c: Array, stages: int = 3, slots: int = 4, group: int = 8, blocks: int = SMS, options: Sequence[str] = (),
                     backend: str | None = None) -> Launch:
    """gemm/overlapped_store.cu: C by stmatrix and TMA. k and n multiples of 8."""
    m, n, k = _sizes(a, b, c)
    kernel = load_kernel("gemm/overlapped_store.cu", "gemm",
                         (f"-DSTAGES={stages}", f"-DGROUP={group}", f"-DC_SLOTS={slots}", *options), backend=backend)
    return Launch(kernel, _persistent_grid(m, n, 128, 256, 2, blocks), (384,),
                  (_map(a, 128), _map(b, 128), _map(c, 64), *_numbers(m, n, k)), stages * 49152 + slots * 16384 + 64)


def stream_k(a: Array, b: Array, c: Array, choice: StreamK | None = None, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/stream_k.cu: k-blocks dealt out evenly over `choice.blocks` CTAs. k a multiple of 8.

    The launch owns a workspace of fp32 sums, zero between launches; launches of one `Launch` must not overlap.
    """
    m, n, k = _sizes(a, b, c, pitched=True)
    choice = choice or StreamK()
    rows, columns = _ceil(m, 128), _ceil(n, choice.bn)
    blocks = min(choice.blocks, rows * columns * _ceil(k, 64))
    xp = _module(c)
    sums, counters = xp.zeros((rows * 128, columns * choice.bn), np.float32), xp.zeros(2 * rows * columns, np.int32)
    kernel = load_kernel("gemm/stream_k.cu", "gemm", (*choice.options, *options), backend=backend)
    maps = (_map(a, 128), _map(b, choice.bn), _map(sums, 64, 32))
    return Launch(kernel, (blocks,), (384,), (*maps, sums, counters, c, *_numbers(m, n, k)), choice.shared_bytes)


def split_k(a: Array, b: Array, c: Array, choice: SplitK | None = None, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """gemm/split_k.cu: a cluster shares a tile, each CTA multiplies a part of k. k a multiple of 8.

    Where n is no multiple of 8, C is stored by plain stores.
    """
    m, n, k = _sizes(a, b, c, pitched=True)
    choice = choice or SplitK()
    if n % 8:
        choice = choice.without_tma_store()
    kernel = load_kernel("gemm/split_k.cu", "gemm", (*choice.options, *options), backend=backend)
    a_map, b_map = _map(a, 128, promotion=_promotion(a)), _map(b, choice.bn, promotion=_promotion(b))
    c_map = _map(c, 64) if choice.tma_store else a_map          # a map is needed, though nobody reads it
    return Launch(kernel, (choice.split * _ceil(m, 128), _ceil(n, choice.bn)), (384,),
                  (a_map, b_map, c_map, c, *_numbers(m, n, k)), choice.shared_bytes)


def _c_map(c, choice: Final, unused: TensorMap) -> TensorMap:
    """The map by which a configuration stores C; `unused` (a map is needed, though nobody reads it) where it does not."""
    rows, columns = choice.c_box
    return TensorMap.tiled(c, box=(rows, columns), swizzle=f"{2 * columns}B", dtype="bfloat16" if c.dtype == np.uint16 else None) \
        if choice.tma_store else unused


def final(a: Array, b: Array, c: Array, choice: Choice | None = None, options: Sequence[str] = (), backend: str | None = None,
          promotion: str | None = None, dependent: bool = False) -> Launch:
    """gemm/final.cu with the given choice; None takes what `measure.tune` found on this GPU, else what the cost model picks.

    k a multiple of 8. b may be the transpose of a k x n array (`weights.T`), then n is a multiple of 8 and a given choice has b_mn. Where n is
    none, each warp stores its part of C. a and b may be views of wider arrays. promotion: of their tensor maps, into the L2; None: the
    choice's, and 128B at most where rows begin inside a line. Launches of one `Launch` must not overlap, but for what `dependent` launches
    overlap by themselves: each begins as SMs become free, and waits for the one in front of it before it loads (other kernels than final.cu are launched as usual).
    """
    m, n, k = operand_checks.product(a, b, c, pitched=True, b_mn=True)
    b_mn = operand_checks.transposed(b)
    stored = b.T if b_mn else b
    picked: Choice | None = choice
    if picked is None and is_cuda_array(c):
        picked = gemm_tuned.remembered(m, n, k, b_mn)
    if picked is None:
        picked = gemm_choice.choose(m, n, k, (_whole_lines(a), _whole_lines(stored)), b_mn)
    if b_mn != bool(getattr(picked, "b_mn", 0)):
        raise ValueError(f"{' '.join(picked.named)}: b is stored {'k x n' if b_mn else 'n x k'}, the choice is for the other way")
    if isinstance(picked, StreamK):
        return stream_k(a, b, c, picked, options, backend)
    if isinstance(picked, SplitK):
        return split_k(a, b, c, picked, options, backend)
    if n % 8:
        picked = picked.without_tma_store()
    kernel = load_kernel("gemm/final.cu", "gemm", (*picked.options, *(("-DDEPENDENT=1",) if dependent else ()), *options), backend=backend)
    sides = (stored, a) if picked.swapped else (a, stored)
    maps = tuple(_map(side, *box, promotion=promotion or _promotion(side, picked.promotion)) for side, box in zip(sides, picked.boxes, strict=True))
    grid, xp = picked.grid(m, n, k), _module(c)
    mailboxes = grid[0] if picked.stream else 0
    counts, mail = xp.zeros(max(1, mailboxes * picked.consumers), np.int32), xp.empty(max(1, mailboxes * picked.bm * picked.bn), np.float32)
    return Launch(kernel, grid, (128 * (picked.consumers + 1),),
                  (*maps, _c_map(c, picked, maps[0]), c, counts, mail, *_numbers(*((n, m) if picked.swapped else (m, n)), k)), picked.shared_bytes, dependent)


def _multistage(a, b, c, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    return mma_multistage(a, b, c, bn=256, options=options, backend=backend)


def _single_stage(a, b, c, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    return tma_wgmma(a, b, c, stages=2, options=options, backend=backend)


def final_dependent(a: Array, b: Array, c: Array, choice: Choice | None = None, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """`final` in dependent launches."""
    return final(a, b, c, choice, options, backend, dependent=True)


LADDER: Mapping[str, Callable[..., Launch]] = {
    "naive": naive, "shared_tile": shared_tile, "register_double_buffer": register_double_buffer,
    "mma_multistage": _multistage, "tma_mma": tma_mma, "tma_wgmma_2": _single_stage, "tma_wgmma": tma_wgmma,
    "warp_specialized": warp_specialized, "two_consumers_128x256": two_consumers_128x256,
    "cluster_multicast": cluster_multicast, "persistent": persistent, "pingpong": pingpong,
    "overlapped_store": overlapped_store, "stream_k": stream_k, "split_k": split_k, "final": final}


def launch(step: str, a: Array, b: Array, c: Array, options: Sequence[str] = (), backend: str | None = None) -> Launch:
    """c = a * b^T by a step of the ladder, with its own defaults. Raises KeyError that lists the steps."""
    if step not in LADDER:
        raise KeyError(f"no step {step!r}; the ladder has {', '.join(LADDER)}")
    return LADDER[step](a, b, c, options=options, backend=backend)
