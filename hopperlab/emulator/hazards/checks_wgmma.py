# SPDX-License-Identifier: Apache-2.0
"""What a wgmma's descriptors must satisfy, and whether its tiles lie in shared memory as it reads them.

TMA marks each 16-byte granule it writes with its swizzle, its row (modulo 8) and the granule's place in the row. A wgmma
takes eight rows at a time, the same piece of each: where the pieces of such eight differ, or swizzles differ and the rows do
not follow each other, descriptor and tensor map disagree. Granules that anything else has written since have no mark.
The same marks serve tensor stores. PTX ISA 9.7.15.5.1; reference: sm90a.md (a), (b).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...hopper import wgmma as layout
from ...hopper.swizzle import SWIZZLES
from . import findings_registers
from .stamps import MIXED, W_SITE_MASK
from .tile_strides import TileStrides

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .findings import Watched
    from .shared_order import SharedOrder

RESERVED = 0x3FF1_C000_C000_C000 & ~(7 << 49)      # bits no field of a descriptor uses
MARKED, ROW, MODE, PIECE = 0x8000, 10, 8, 0xFF      # a mark: flag, row modulo 8, swizzle, piece of the row


class TileMarks:
    """One mark a granule of the shared memory of all CTAs, for kernels that use both tensor loads and a reader of tiles."""

    def __init__(self, machine: Watched, order: SharedOrder) -> None:
        self.M, self.order = machine, order
        body = machine.body
        self.loads = np.array([*(i.op == "cp" and "tensor" in i.mods and i.mods[-1] != "bulk_group" for i in body), False], bool)
        readers = any(i.op == "wgmma" or i.op == "cp" and "tensor" in i.mods and "bulk_group" in i.mods for i in body)
        self.on = readers and bool(self.loads.any())
        self.marks = np.zeros(machine.slots * machine.stride // 16 if self.on else 0, np.uint16)
        self.serial = 0                                    # grows when marks change
        self.strides = TileStrides(machine, order)
        self.tiles: dict[int, dict[tuple[int, int], tuple[Any, ...]]] = {}  # slot's base -> (first, end) -> layout that is marked there
        self.clean: dict[tuple[Any, ...], int] = {}        # tiles that were in order, by instruction, operand, descriptor and place, and the serial then

    def written(self, fields: Any, place: Any) -> None:
        """A tensor load writes the granules of `place` (copies.Tile)."""
        if self.on and self._new(fields, place):
            mark = MARKED | SWIZZLES.index(fields.swizzle) << MODE
            rows, pieces = place.granules.shape
            marks = mark + ((np.arange(rows) & 7) << ROW)[:, None] + np.arange(pieces)
            self.marks[(place.granules + place.base) >> 4] = marks.astype(np.uint16)

    def _new(self, fields: Any, place: Any) -> bool:
        """False when exactly this tile is marked already, as in a ring whose stages are filled again and again."""
        first = int(place.granules[0, 0])
        span, layout_key = (first, first + place.granules.size * 16), (fields.box_dim, fields.element_strides, fields.swizzle, fields.dtype)
        tiles = self.tiles.setdefault(place.base, {})
        if tiles.get(span) == layout_key:
            return False
        margin = 1024 if first % 1024 else 0
        for other in [t for t in tiles if t[0] < span[1] + margin and span[0] < t[1] + margin]:
            del tiles[other]
        if place.dense:
            tiles[span] = layout_key
        self.serial += 1
        return True

    def _writers(self, granules: np.ndarray) -> np.ndarray:
        stamps = self.order.writes[granules * 4]
        writers: np.ndarray = np.where(stamps == MIXED, len(self.loads) - 1, stamps & W_SITE_MASK)      # MIXED: 1- and 2-byte stores, no tensor load
        return writers

    def read(self, C: Cohort, site: int, operand: str, granules: np.ndarray, tiles: list[tuple[int, int]], lanes: np.ndarray) -> None:
        """A wgmma reads `granules` (groups, rows, pieces); `tiles` (descriptor, first granule) and `lanes`: one of each group."""
        clean, serial = self.clean, self.serial
        new = [g for g, tile in enumerate(tiles) if clean.get((site, operand, *tile)) != serial] if self.on else []
        if not new:
            return
        granules, lanes, descriptors = granules[new], lanes[new], [tiles[g][0] for g in new]
        marks = self.marks[granules]
        eight = marks.reshape(len(marks), -1, 8, marks.shape[-1])
        differ = (eight & PIECE) != (eight[:, :, :1] & PIECE)
        modes = np.array([SWIZZLES.index(layout.decode(d).swizzle) for d in descriptors])[:, None, None, None]
        other = (eight >> MODE & 3) != modes
        if other.any():
            differ |= other & ((eight >> ROW & 7) != (eight[:, :, :1] >> ROW) + np.arange(8)[:, None] & 7)
        if not differ.any():
            clean.update(((site, operand, *tiles[g]), serial) for g in new)
            return
        places = granules.reshape(eight.shape)
        writers = self._writers(places)
        known = ((eight & MARKED) != 0) & self.loads[writers]
        bad = np.argwhere(differ & known & known[:, :, :1])
        if len(bad):
            g = tuple(bad[0])
            desc = layout.decode(descriptors[g[0]])
            reader = (f"{_words(desc.swizzle)} with {desc.stride_bytes} bytes from one group of 8 rows to the next"
                      + (f" and {desc.leading_bytes} from one 16-byte piece to the next" if desc.swizzle == "none" else ""))
            writer = _words(SWIZZLES[int(eight[g]) >> MODE & 3])
            findings_registers.layouts_differ(self.M, site, int(writers[g]), int(C.gids[lanes[g[0]]]), operand, reader, writer, int(places[g]) * 16)

    def stored(self, gid: int, site: int, fields: Any, place: Any) -> None:
        """A tensor store reads `place`: with a swizzle, it must be the one the tile was loaded with."""
        if not self.on:
            return
        granules = (place.granules + place.base) >> 4
        marks, writers = self.marks[granules], self._writers(granules)
        known = ((marks & MARKED) != 0) & self.loads[writers]
        bad = np.argwhere(known & ((marks & PIECE) != np.arange(granules.shape[1])) & ((marks >> MODE & 3) != SWIZZLES.index(fields.swizzle)))
        if len(bad):
            g = tuple(bad[0])
            findings_registers.layouts_differ(self.M, site, int(writers[g]), gid, "a tile", _words(fields.swizzle),
                                   _words(SWIZZLES[int(marks[g]) >> MODE & 3]), int(granules[g]) * 16)


def _words(swizzle: str) -> str:
    return "plain rows" if swizzle == "none" else f"rows swizzled by {swizzle[:-1]} bytes"


def descriptors(M: Watched, C: Cohort, site: int, operand: str, value: np.ndarray, lanes: np.ndarray, group_of: np.ndarray) -> None:
    """One descriptor for the whole warpgroup, no bit set that has no meaning."""
    if value.ndim and not (value == value[0]).all():
        same = np.repeat(value[lanes][group_of], 32) == value
        if not same.all():
            lane = int(np.flatnonzero(~same)[0])
            findings_registers.descriptors_differ(M, site, int(C.gids[lane]), int(value[lane]), operand)
    for desc in {int(value)} if not value.ndim else set(value[lanes].tolist()):
        if desc & RESERVED:
            bits = [b for b in range(64) if desc & RESERVED & 1 << b]
            findings_registers.descriptor_bits(M, site, int(C.gids[0]), desc, operand, bits)


def fed(order: SharedOrder, C: Cohort, site: int, operand: str, granules: np.ndarray, lanes: np.ndarray) -> None:
    """Remember whether an operand's tile was ever written (see shared_order.py, unfed)."""
    if (site, operand) not in order.fed:
        order.strong_stores.fed((site, operand), granules * 4, int(C.gids[lanes[0]]), int(granules.flat[0]) * 16, bool(order.writes[granules * 4].any()))


def check(marks: TileMarks, C: Cohort, issue: Any) -> None:
    """All of the above for one wgmma (ops/wgmma.Issue)."""
    M, site, lanes = marks.M, issue.info.index, issue.lanes
    for operand, desc, granules in zip("AB", issue.descriptors, issue.granules):
        if granules is not None:
            descriptors(M, C, site, operand, desc, lanes, issue.group_of)
            tiles = list(zip(M.lanes(C, desc)[lanes].tolist(), granules[:, 0, 0].tolist()))
            marks.read(C, site, operand, granules, tiles, lanes)
            marks.strides.read(C, site, operand, granules, tiles, lanes)
            fed(marks.order, C, site, operand, granules, lanes)
