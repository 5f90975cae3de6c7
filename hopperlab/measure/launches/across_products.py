# SPDX-License-Identifier: Apache-2.0
"""Products of several devices: all-gather under a product and product under a reduce-scatter, in one kernel each (kernels/peers/).

gathered: A's rows are dealt out, every device has its own B; scattered: k is dealt out, and the sum's rows are. Both as in a transformer's two
products of a block under tensor parallelism.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .across import MOST_DEVICES, Step, World, _a_device, maps, pointers
from .launch import SMS, Launch
from .operands import bf16_bits, bf16_values

if TYPE_CHECKING:
    from ...runtime.arrays import Array

ORDERS = ("own first", "as they lie", "own last", "next first", "in turns")
"""With the rows of which shard the order of tiles begins: the own one, the first, the one behind the own (scattered: then the own comes last) under two names;
in turns (of `scattered` alone): rows of all shards take turns, an own one first."""
IN_TURNS = ORDERS[-1]


@dataclass(frozen=True)
class Tile:
    """What wide_product.cuh is compiled for: a CTA's tile, stages of its ring, CTAs of a cluster, rows of the order, slots of C."""

    bm: int = 128
    bn: int = 256
    stages: int = 4
    cluster_m: int = 2
    group: int = 8
    c_slots: int = 1

    @property
    def rows(self) -> int:
        """Rows of a cluster's tile."""
        return self.bm * self.cluster_m

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return (f"-DBM={self.bm}", f"-DBN={self.bn}", f"-DSTAGES={self.stages}", f"-DCLUSTER_M={self.cluster_m}", f"-DGROUP={self.group}", f"-DC_SLOTS={self.c_slots}")

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a CTA, without slots of chunks."""
        return self.stages * ((self.bm + self.bn) * 128 + 16) + 2 * self.c_slots * 8192


SMALL = Tile(bm=128, bn=64, stages=2, cluster_m=1, group=2)
"""For the emulator: little work, and everything that the wide one does but clusters."""


PARKED: Mapping[str, int] = {"stages": 3, "c_slots": 4}
"""Of the wide tile: room for all of a consumer's sums, so that the next tile begins while TMA still reads them; a stage less pays for it."""


@dataclass(frozen=True)
class Copiers:
    """Who copies under gathered_product: `count` CTAs, each a thread beside its product, or (dedicated) CTAs that do nothing else; slots and bytes of a chunk."""

    count: int = SMS
    dedicated: bool = False
    slots: int = 4
    chunk: int = 4096

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return (f"-DCOPY_SLOTS={self.slots}", f"-DCOPY_BYTES={self.chunk}", f"-DDEDICATED={int(self.dedicated)}")


def gathered(here: World, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array], tile: Tile | None = None, copiers: Copiers | None = None,
             piece_rows: int | None = None,
             order: str = "own first", blocks: int = SMS, options: Sequence[str] = ()) -> Step:
    """c[d] = A * b[d]^T on every device d, by peers/gathered_product.cu. bf16 or their bits.

    a: the gathered A (m x k) of each device, in which its own m / devices rows are set and the others arrive; b: n x k; c: m x n; n a multiple of
    64. piece_rows: rows that one flag tells of; None: a cluster tile's. Raises OperandError.
    """
    m, n, k = _shapes(here, a, b, c, a[0].shape[0])
    tile = tile or widest(m // here.count)
    piece_rows = piece_rows or tile.rows
    _shards(here, m, tile, piece_rows)
    grid = _grid(tile, blocks, m, n)
    copiers = _copiers(copiers or Copiers(), tile, grid)
    kernel = load_kernel("peers/gathered_product.cu", "gathered_product", (*tile.options, *copiers.options, *options), backend=here.backend)
    flags, pieces = here.zeros(2 * MOST_DEVICES, np.uint32), here.zeros(m // piece_rows, np.uint32)
    size, launches = tile.shared_bytes + (0 if copiers.dedicated else copiers.slots * copiers.chunk), []
    for rank in range(here.count):
        numbers = (rank, here.count, m, n, k, piece_rows, copiers.count, _start(order, rank, here, m, tile))
        args = (_map(a[rank], tile.bm), _map(b[rank], tile.bn // tile.cluster_m), _map(c[rank], 64), pointers(a, "A"), pointers(flags, "flags"), pieces[rank],
                *map(np.int32, numbers))
        launches.append(Launch(kernel, (grid,), (384,), args, size))
    return Step(here, tuple(launches), (tuple(a), tuple(b), tuple(c), flags, pieces))


def scattered(here: World, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array], tile: Tile | None = None, order: str = IN_TURNS, blocks: int = SMS,
              options: Sequence[str] = ()) -> Step:
    """c[d] += rows d of the sum over devices of a * b^T, by peers/scattered_product.cu. bf16 or their bits.

    a: m x k, each device's own columns; b: n x k; c: m / devices x n; n a multiple of 64. Raises OperandError.
    """
    m, n, k = _shapes(here, a, b, c, a[0].shape[0] // here.count)
    tile = tile or widest(m // here.count, c_slots=2)                    # no chunks need room
    _shards(here, m, tile, tile.rows)
    turns = ("-DIN_TURNS=1",) if order == IN_TURNS else ()
    kernel = load_kernel("peers/scattered_product.cu", "scattered_product", (*tile.options, *turns, *options), backend=here.backend)
    flags, done = here.zeros(2 * MOST_DEVICES, np.uint32), here.zeros(1, np.uint32)
    grid, targets, launches = _grid(tile, blocks, m, n), maps([_map(one, 64) for one in c]), []
    for rank in range(here.count):
        numbers = (rank, here.count, m, n, k, _start(order, rank, here, m, tile))
        args = (_map(a[rank], tile.bm), _map(b[rank], tile.bn // tile.cluster_m), targets, pointers(flags, "flags"), done[rank], *map(np.int32, numbers))
        launches.append(Launch(kernel, (grid,), (384,), args, tile.shared_bytes))
    return Step(here, tuple(launches), (tuple(a), tuple(b), tuple(c), flags, done))


def widest(shard_rows: int, **choices: int) -> Tile:
    """The wide tile, with choices such as c_slots=2, its order in groups of no more rows than a shard has."""
    tile = Tile(**choices)
    return replace(tile, group=max(1, min(tile.group, shard_rows // tile.rows)))


@dataclass(frozen=True)
class Gather:
    """Operands of `gathered` on all devices. whole: A as it is once everything has arrived, on the host."""

    a: tuple[Array, ...]
    b: tuple[Array, ...]
    c: tuple[Array, ...]
    whole: np.ndarray

    def clear(self) -> None:
        """NaN wherever the kernel writes: in the rows of others and in C. Waits for nothing."""
        rows = self.whole.shape[0] // len(self.a)
        for rank, (a, c) in enumerate(zip(self.a, self.c, strict=True)):
            a[:rank * rows], a[(rank + 1) * rows:], c[...] = 0x7FC0, 0x7FC0, 0x7FC0

    def right(self) -> bool:
        """Whether every device has all of A and its product, exact for operands of small integers."""
        whole = bf16_values(self.whole)
        return all(bool((_host(a) == self.whole).all()) and bool((_host(c) == bf16_bits(whole @ bf16_values(_host(b)).T)).all()) for a, b,
                   c in zip(self.a, self.b, self.c, strict=True))


def gather_operands(here: World, m: int, n: int, k: int, seed: int = 19) -> Gather:
    """Small integers as bits of bf16: every sum is exact; n columns on each device."""
    random = np.random.default_rng(seed)
    whole, rows = bf16_bits(random.integers(-3, 4, (m, k)).astype(np.float32)), m // here.count
    b = here.put(bf16_bits(random.integers(-1, 2, (n, k)).astype(np.float32)) for _ in here.devices)
    shards = []
    for rank in range(here.count):
        shard = np.full((m, k), 0x7FC0, np.uint16)
        shard[rank * rows:(rank + 1) * rows] = whole[rank * rows:(rank + 1) * rows]
        shards.append(shard)
    return Gather(here.put(shards), b, here.zeros((m, n)), whole)


@dataclass(frozen=True)
class Scatter:
    """Operands of `scattered` on all devices."""

    a: tuple[Array, ...]
    b: tuple[Array, ...]
    c: tuple[Array, ...]

    def clear(self) -> None:
        """C is added to: 0. Waits for nothing."""
        for c in self.c:
            c[...] = 0

    def right(self, steps: int = 1) -> bool:
        """Whether every device has its rows of the sum, `steps` times, exact for operands of small integers and few steps."""
        total = steps * sum(bf16_values(_host(a)) @ bf16_values(_host(b)).T for a, b in zip(self.a, self.b, strict=True))
        return bool((np.concatenate([_host(c) for c in self.c]) == bf16_bits(total)).all())


def scatter_operands(here: World, m: int, n: int, k: int, seed: int = 19) -> Scatter:
    """Operands of which every sum is exact in bf16: integers from -2 to 2, and 16 weights of 1 or -1 in a row of B. k on each device."""
    random = np.random.default_rng(seed)
    a = here.put(bf16_bits(random.integers(-2, 3, (m, k)).astype(np.float32)) for _ in here.devices)
    weights = []
    for _ in here.devices:
        w = np.zeros((n, k), np.float32)
        np.put_along_axis(w, random.integers(0, k, (n, 16)), random.choice(np.float32([-1, 1]), (n, 16)), axis=1)
        weights.append(bf16_bits(w))
    return Scatter(a, here.put(weights), here.zeros((m // here.count, n)))


def _host(array: Array) -> np.ndarray:
    bits: np.ndarray = (array.get() if hasattr(array, "get") else np.asarray(array)).view(np.uint16)
    return bits


def _shapes(here: World, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array], c_rows: int) -> tuple[int, int, int]:
    for name, arrays in (("a", a), ("b", b), ("c", c)):
        _a_device(name, arrays, here, 2)
    (m, k), n = a[0].shape, b[0].shape[0]
    wanted = {"a": (m, k), "b": (n, k), "c": (c_rows, n)}
    for name, arrays in (("a", a), ("b", b), ("c", c)):
        if any(array.shape != wanted[name] for array in arrays):
            raise checks.OperandError("shape", f"{name} has shapes {[array.shape for array in arrays]}: {wanted[name]} on every device")
    if n % 64 or k % 8:
        raise checks.OperandError("size", f"n is {n} and k {k}: n is a multiple of 64, k of 8")
    return m, n, k


def _shards(here: World, m: int, tile: Tile, piece_rows: int) -> None:
    if m % here.count or (m // here.count) % piece_rows or piece_rows % tile.rows:
        raise checks.OperandError("size", f"m is {m}, of {here.count} devices, in pieces of {piece_rows} rows, with tiles of "
                                          f"{tile.rows}: a shard (m / devices) is a whole number of pieces, and a piece of cluster tiles")


def _grid(tile: Tile, blocks: int, m: int, n: int) -> int:
    """As few CTAs as make no more waves than `blocks` of them."""
    checks.number("blocks", blocks, tile.cluster_m, SMS)
    at_once, tiles = blocks // tile.cluster_m, m // tile.rows * -(-n // tile.bn)
    return tile.cluster_m * -(-tiles // -(-tiles // at_once))


def _copiers(copiers: Copiers, tile: Tile, grid: int) -> Copiers:
    """No more than there are CTAs, and where they are dedicated whole clusters and one that is none."""
    most = grid - tile.cluster_m if copiers.dedicated else grid
    count = min(copiers.count, most)
    if count < 1 or copiers.dedicated and count % tile.cluster_m:
        raise checks.OperandError("size", f"{copiers.count} CTAs copy, of {grid}: at least one, and dedicated ones leave a cluster and are a multiple of "
                                          f"{tile.cluster_m}")
    return Copiers(count, copiers.dedicated, copiers.slots, copiers.chunk)


def _start(order: str, rank: int, here: World, m: int, tile: Tile) -> int:
    """Row of cluster tiles that comes first."""
    first: Mapping[str, int] = {"own first": rank, IN_TURNS: rank, "as they lie": 0, "own last": rank + 1, "next first": rank + 1}
    if order not in first:
        raise checks.OperandError("array", f"order is {order!r}: one of {', '.join(ORDERS)}")
    return first[order] % here.count * (m // here.count // tile.rows)


def _map(array: Array, rows: int) -> TensorMap:
    return TensorMap.tiled(array, box=(rows, 64), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16 else None, l2_promotion="256B"
                           if array.shape[-1] % 64 == 0 else "128B")


