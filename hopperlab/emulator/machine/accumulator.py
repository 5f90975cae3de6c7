# SPDX-License-Identifier: Apache-2.0
"""Accumulators of wgmma: tiles that belong to operations in flight until wait_group, seen by registers as references.

An Accumulator holds 16 rows per warp (four consecutive warps make the 64-row tile of a warpgroup) and the multiplications
issued on it that have not landed. A register that holds part of it is an AccRef: `mov` copies the reference; any other
use asks for its value, which is a hazard while an operation is in flight. Layout of D: PTX ISA 9.7.15.5.2.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..isa import operand_values

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from .cohort import Cohort


@dataclass
class Product:
    """One wgmma of a cohort's warps, issued and perhaps not landed.

    a: (warps, 16, K) values already in registers, or None; a_index: (groups, ...) granule ids of A; b_index likewise.
    group_of: (warps,) which row of the group arrays is a warp's; number: (warps,) wgmma group each belongs to.
    quarter: (warps,) which 16 rows of the 64 a warp holds. keep: (warps,) False where scale-d is false (D = A*B). form: (K elements, dtypes, majors, sign, saturates).
    places: (warps, 16, K/2) columns at which the stored elements of a sparse A stand, or None.
    """

    a: np.ndarray | None
    a_index: np.ndarray | None
    b_index: np.ndarray
    group_of: np.ndarray
    number: np.ndarray
    keep: np.ndarray
    quarter: np.ndarray
    form: tuple
    index: int = -1
    places: np.ndarray | None = None

    def take(self, units: np.ndarray) -> "Product":
        """The same for some of the warps."""
        groups, group_of = np.unique(self.group_of[units], return_inverse=True)
        a = self.a[units] if self.a is not None else None
        a_index = self.a_index[groups] if self.a_index is not None else None
        return Product(a, a_index, self.b_index[groups], group_of, self.number[units], self.keep[units],
                       self.quarter[units], self.form, self.index, self.places[units] if self.places is not None else None)


class Accumulator:
    """`tile`: (warps, 16, n) or None for zeros; of float16, registers hold pairs. `pending`: Products in issue order. `number`: (warps,) newest group that
    accumulates here, or None; it is in flight until wait_group covers it, whenever it lands."""

    __slots__ = ("M", "warps", "n", "tile", "pending", "dtype", "number", "_registers", "_taken", "_merged", "__weakref__")

    def __init__(self, M, warps: np.ndarray, n: int, tile, dtype=np.float32, pending=()):
        self.M = M
        self.warps, self.n, self.tile, self.dtype = warps, n, tile, dtype
        self.pending: list[Product] = list(pending)
        self.number = self.pending[-1].number if self.pending else None
        self._registers = self._taken = self._merged = None

    @property
    def lanes(self) -> int:
        """Threads whose registers hold this."""
        return 32 * len(self.warps)

    def registers(self) -> np.ndarray:
        """(n/2, lanes), or (n/4, lanes) of packed f16: register i of every lane."""
        if self._registers is None:
            if self.tile is None:
                self._registers = np.zeros((self.n // 2, self.lanes), self.dtype)
            else:
                shaped = self.tile.reshape(len(self.warps), 2, 8, self.n // 8, 4, 2)        # warp, half, g, block, q, pair
                self._registers = np.ascontiguousarray(shaped.transpose(3, 1, 5, 0, 2, 4)).reshape(self.n // 2, -1)
            if self.dtype == np.float16:
                pairs = self._registers.reshape(self.n // 4, 2, -1).transpose(0, 2, 1)
                self._registers = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
        return self._registers

    @staticmethod
    def from_registers(M: Any, warps: np.ndarray, values: list, dtype: DTypeLike) -> "Accumulator":
        """An accumulator from n/2 register arrays or scalars (n/4 of packed f16)."""
        packed = dtype == np.float16
        n, lanes = (4 if packed else 2) * len(values), 32 * len(warps)
        if all(not v.ndim for v in values) and not any(v.view(np.uint32) for v in values):
            return Accumulator(M, warps, n, None, dtype)
        stacked = np.empty((len(values), lanes), np.uint32 if packed else dtype)
        for row, value in zip(stacked, values):
            row[:] = value.view(stacked.dtype)
        if packed:
            stacked = np.ascontiguousarray(stacked.view(np.float16).reshape(len(values), lanes, 2).transpose(0, 2, 1))
        shaped = stacked.reshape(n // 8, 2, 2, len(warps), 8, 4).transpose(3, 1, 4, 0, 5, 2)
        return Accumulator(M, warps, n, np.ascontiguousarray(shaped).reshape(len(warps), 16, n), dtype)

    # --- landing ----------------------------------------------------------------------------------------------------
    def land_until(self, done: np.ndarray) -> None:
        """Land every product whose group is complete for some warp (`done`: groups complete, by global warp id)."""
        due = 0
        for k, product in enumerate(self.pending):
            if (product.number <= done[self.warps]).any():
                due = k + 1
        if due:
            self.land(due)

    def land(self, count: int | None = None) -> None:
        """Compute the first `count` products (all by default)."""
        batch = self.pending if count is None else self.pending[:count]
        for product in batch:
            self.M.tell.product_landed(self.warps, product.index)
        self.pending = [] if count is None else self.pending[count:]
        for product in batch:
            self._multiply(self.M, product)

    def _multiply(self, M, product: Product) -> None:
        """D = A*B + D of one wgmma. Each is multiplied and added on its own, always as 64 rows, so that sums of floats are the same whenever it lands
        and whoever lands with it."""
        out = np.matmul(_operand_a(M, product), _operand_b(M, product).transpose(0, 2, 1)).reshape(-1, 4, 16, self.n)
        out = out.reshape(-1, 16, self.n) if _whole_groups(product) else out[product.group_of, product.quarter]
        sign, saturates = product.form[3:]
        out = M.altered.product("wgmma", out if sign == 1 else -out, self.warps % M.warps)
        if self.dtype == np.int32:
            out = out.astype(np.int64) if saturates else out.astype(np.int64).astype(np.int32)
        if self.tile is not None and product.keep.any():
            old = self.tile if product.keep.all() else np.where(product.keep[:, None, None], self.tile, self.dtype(0))
            out = np.add(old, out, out=out if out.dtype == old.dtype == np.float32 else None)
        if saturates:
            out = np.clip(out, -(1 << 31), (1 << 31) - 1)
        self.tile = out if out.dtype == self.dtype else out.astype(self.dtype)
        self._registers = None

    def in_flight(self) -> bool:
        """True while some wgmma on it has not been waited for."""
        return self.number is not None and bool((self.number > self.M.wgmma_done[self.warps]).any())

    # --- lanes ------------------------------------------------------------------------------------------------------
    def take(self, index: np.ndarray) -> "Accumulator | None":
        """The part of whole warps `index` (lane positions), or None when it cuts a warp."""
        if self._taken is not None and self._taken[0] is index:
            return self._taken[1]
        result = None
        if len(index) % 32 == 0:
            rows = index.reshape(-1, 32)
            if ((rows[:, 0] % 32 == 0) & (rows[:, 31] - rows[:, 0] == 31)).all():
                units = rows[:, 0] // 32
                tile = self.tile[units] if self.tile is not None else None
                result = Accumulator(self.M, self.warps[units], self.n, tile, self.dtype, [p.take(units) for p in self.pending])
                result.number = self.number[units] if self.number is not None else None
                if self.pending:
                    self.M.landing.accumulators.add(result)
        self._taken = (index, result)
        return result


def _whole_groups(product: Product) -> bool:
    count = len(product.group_of)
    return count == 4 * len(product.b_index) and (product.group_of == np.arange(count) // 4).all()


def _operand_a(M, product: Product) -> np.ndarray:
    """(groups, 64, K); rows of warps that are not of this cohort hold zeros where A comes from registers or is sparse."""
    kinds, majors = product.form[1:3]
    if product.a is None:
        values = operand_values.operand(M.altered.taken("wgmma", M.smem16[product.a_index]), kinds[0], majors[0])
        if product.places is None:
            return values
        rows = values.reshape(len(values), 4, 16, -1)[product.group_of, product.quarter]
    else:
        rows = product.a
    if product.places is not None:
        dense = np.zeros((len(rows), 16, product.form[0]), rows.dtype)
        np.put_along_axis(dense, product.places, rows, axis=2)
        rows = dense
    if _whole_groups(product):
        return rows.reshape(-1, 64, rows.shape[-1])
    tiles = np.zeros((len(product.b_index), 4, 16, rows.shape[-1]), rows.dtype)
    tiles[product.group_of, product.quarter] = rows
    return tiles.reshape(-1, 64, rows.shape[-1])


def _operand_b(M, product: Product) -> np.ndarray:
    """(groups, n, K)."""
    kinds, majors = product.form[1:3]
    return operand_values.operand(M.altered.taken("wgmma", M.smem16[product.b_index]), kinds[1], majors[1])


class AccRef:
    """Register `i` of an accumulator: looks like a lane vector to cohort.py."""

    __slots__ = ("acc", "i")
    ndim = 1

    def __init__(self, acc: Accumulator, i: int):
        self.acc, self.i = acc, i

    @property
    def dtype(self) -> np.dtype[Any]:
        """dtype of the value."""
        return np.dtype(np.uint32 if self.acc.dtype == np.float16 else self.acc.dtype)

    def take(self, index: Any) -> "AccRef | Held | NDArray[Any]":
        """Lanes `index`: still a reference when they are whole warps."""
        part = self.acc.take(index)
        return AccRef(part, self.i) if part is not None else held(self.acc.M, [self.value()[index]], [self.lane_groups(index)], [np.arange(len(index))])

    def lane_groups(self, index: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """(warp, newest wgmma group) of the lanes `index`."""
        number = self.acc.number if self.acc.number is not None else np.zeros(len(self.acc.warps), np.int64)
        return np.repeat(self.acc.warps, 32)[index], np.repeat(number, 32)[index]

    def value(self) -> np.ndarray:
        """The register's value by lane; what is in flight lands first (an earlier landing than forced, but a legal one)."""
        self.acc.land()
        return self.acc.registers()[self.i]

    def settle(self, M: Any, C: Cohort, index: int) -> np.ndarray:
        """The value for an instruction that uses it; in flight, that is a hazard."""
        if self.acc.in_flight():
            M.tell.accumulator_used(C, index)
        return self.value()

    def combine(self, values: list, places: list, n: int) -> "AccRef | Held | NDArray[Any]":
        """Merge with the same register of other cohorts."""
        refs = [v for v in values if isinstance(v, AccRef)]
        if len(refs) == len(values) and n % 32 == 0 and all(v.i == self.i and v.acc.n == self.acc.n for v in refs):
            merged = _merge([v.acc for v in refs], places, n)
            if merged is not None:
                return AccRef(merged, self.i)
        return _mixed(self.acc.M, values, places)


class Held:
    """One register of lanes that are not all of one accumulator any more (some had not multiplied yet when they met): plain
    values, and for every lane the newest wgmma group that its value waits for."""

    __slots__ = ("M", "array", "warps", "number")
    ndim = 1

    def __init__(self, M, array: np.ndarray, warps: np.ndarray, number: np.ndarray):
        self.M, self.array, self.warps, self.number = M, array, warps, number

    @property
    def dtype(self) -> np.dtype[Any]:
        """dtype of the value."""
        return self.array.dtype

    def take(self, index: Any) -> "Held":
        """Lanes `index`."""
        return Held(self.M, self.array[index], self.warps[index], self.number[index])

    def lane_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """(warp, newest wgmma group) of every lane."""
        return self.warps, self.number

    def value(self) -> np.ndarray:
        """The values by lane."""
        return self.array

    def settle(self, M: Any, C: Cohort, index: int) -> np.ndarray:
        """The values for an instruction that uses them; in flight, that is a hazard."""
        if (self.number > M.wgmma_done[self.warps]).any():
            M.tell.accumulator_used(C, index)
        return self.array

    def combine(self, values: list, places: list, n: int) -> "AccRef | Held | NDArray[Any]":
        """Merge with the same register of other cohorts."""
        return _mixed(self.M, values, places)


def _mixed(M, values: list, places: list):
    """References and plain values of one register, from cohorts that meet."""
    kind = next(v.dtype for v in values if v is not None)
    arrays, groups = [], []
    for value, place in zip(values, places):
        if isinstance(value, (AccRef, Held)):
            arrays.append(value.value())
            groups.append(value.lane_groups())
        else:
            plain = np.zeros(len(place), kind) if value is None else np.broadcast_to(value, len(place))
            arrays.append(plain)
            groups.append((np.zeros(len(place), np.int64), np.zeros(len(place), np.int64)))
    return held(M, arrays, groups, places)


def held(M: Any, arrays: list, groups: list, places: list) -> "AccRef | Held | NDArray[Any]":
    """A plain array, or a Held where some of its lanes wait for a wgmma."""
    n = sum(len(place) for place in places)
    array, warps, number = np.zeros(n, arrays[0].dtype), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for values, (warp, group), place in zip(arrays, groups, places):
        array[place] = values if values.dtype == array.dtype else values.view(array.dtype)
        warps[place], number[place] = warp, group
    return Held(M, array, warps, number) if (number > M.wgmma_done[warps]).any() else array


def _merge(accs: list[Accumulator], places: list, n: int) -> Accumulator | None:
    key = (places, [id(a) for a in accs])
    first = accs[0]
    if first._merged is not None and first._merged[0][0] is places and first._merged[0][1] == key[1]:
        return first._merged[1]
    units = []
    for place in places:
        rows = place.reshape(-1, 32) if len(place) % 32 == 0 else None
        if rows is None or not ((rows[:, 0] % 32 == 0) & (rows[:, 31] - rows[:, 0] == 31)).all():
            return None
        units.append(rows[:, 0] // 32)
    warps = np.empty(n // 32, np.int64)
    tile = np.zeros((n // 32, 16, first.n), first.dtype)
    number = np.zeros(n // 32, np.int64)
    for acc, at in zip(accs, units):
        acc.land()
        warps[at] = acc.warps
        if acc.number is not None:
            number[at] = acc.number
        if acc.tile is not None:
            tile[at] = acc.tile
    result = Accumulator(first.M, warps, first.n, tile, first.dtype)
    result.number = number
    first._merged = (key, result)
    return result
