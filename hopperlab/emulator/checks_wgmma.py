"""What a wgmma's descriptors must satisfy, and whether its tiles lie in shared memory as it reads them.

TMA marks each 16-byte granule it writes with its swizzle, its row (modulo 8) and the granule's place in the row. A wgmma
takes eight rows at a time, the same piece of each: where the pieces of such eight differ, or swizzles differ and the rows do
not follow each other, descriptor and tensor map disagree. Granules that anything else has written since have no mark.
The same marks serve tensor stores. PTX ISA 9.7.15.5.1; reference: sm90a.md (a), (b).
"""
from __future__ import annotations

import numpy as np

from ..hopper import wgmma as layout
from ..hopper.swizzle import SWIZZLES
from . import reports_misuse as reports
from .shadow import W_SITE_MASK

RESERVED = 0x3FF1_C000_C000_C000 & ~(7 << 49)      # bits no field of a descriptor uses
MARKED, ROW, MODE, PIECE = 0x8000, 10, 8, 0xFF      # a mark: flag, row modulo 8, swizzle, piece of the row


class TileMarks:
    """One mark a granule of the shared memory of all CTAs, for kernels that use both tensor loads and a reader of tiles."""

    def __init__(self, machine):
        self.M = machine
        body = machine.body
        self.loads = np.array([i.op == "cp" and "tensor" in i.mods and i.mods[-1] != "bulk_group" for i in body], bool)
        readers = any(i.op == "wgmma" or i.op == "cp" and "tensor" in i.mods and "bulk_group" in i.mods for i in body)
        self.on = machine.shadow is not None and readers and bool(self.loads.any())
        self.marks = np.zeros(machine.slots * machine.stride // 16 if self.on else 0, np.uint16)
        self.serial = 0                                    # grows when marks change
        self.tiles: dict[int, dict[tuple, tuple]] = {}     # slot's base -> (first, end) -> layout that is marked there
        self.clean: dict[tuple, int] = {}                  # reads that were in order, and the serial then

    def written(self, fields, place) -> None:
        """A tensor load writes the granules of `place` (copies.Tile)."""
        if self.on and self._new(fields, place):
            mark = MARKED | SWIZZLES.index(fields.swizzle) << MODE
            rows, pieces = place.granules.shape
            marks = mark + ((np.arange(rows) & 7) << ROW)[:, None] + np.arange(pieces)
            self.marks[(place.granules + place.base) >> 4] = marks.astype(np.uint16)

    def _new(self, fields, place) -> bool:
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
        return self.M.shadow.writes[granules * 4] & W_SITE_MASK

    def read(self, C, site: int, operand: str, granules: np.ndarray, descriptors: np.ndarray, lanes: np.ndarray) -> None:
        """A wgmma reads `granules` (groups, rows, pieces); `descriptors`, `lanes`: one of each group."""
        if not self.on:
            return
        key = (site, operand, descriptors.tobytes(), granules[:, 0, 0].tobytes())
        if self.clean.get(key) == self.serial:
            return
        marks = self.marks[granules]
        eight = marks.reshape(len(marks), -1, 8, marks.shape[-1])
        differ = (eight & PIECE) != (eight[:, :, :1] & PIECE)
        modes = np.array([SWIZZLES.index(layout.decode(int(d)).swizzle) for d in descriptors])[:, None, None, None]
        other = (eight >> MODE & 3) != modes
        if other.any():
            differ |= other & ((eight >> ROW & 7) != (eight[:, :, :1] >> ROW) + np.arange(8)[:, None] & 7)
        if not differ.any():
            self.clean[key] = self.serial
            return
        places = granules.reshape(eight.shape)
        writers = self._writers(places)
        known = ((eight & MARKED) != 0) & self.loads[writers]
        bad = np.argwhere(differ & known & known[:, :, :1])
        if len(bad):
            g = tuple(bad[0])
            desc = layout.decode(int(descriptors[g[0]]))
            reader = (f"{_words(desc.swizzle)} with {desc.stride_bytes} bytes from one group of 8 rows to the next"
                      + (f" and {desc.leading_bytes} from one 16-byte piece to the next" if desc.swizzle == "none" else ""))
            writer = _words(SWIZZLES[int(eight[g]) >> MODE & 3])
            reports.layouts_differ(self.M, site, int(writers[g]), int(C.gids[lanes[g[0]]]), operand, reader, writer, int(places[g]) * 16)

    def stored(self, gid: int, site: int, fields, place) -> None:
        """A tensor store reads `place`: with a swizzle, it must be the one the tile was loaded with."""
        if not self.on:
            return
        granules = (place.granules + place.base) >> 4
        marks, writers = self.marks[granules], self._writers(granules)
        known = ((marks & MARKED) != 0) & self.loads[writers]
        bad = np.argwhere(known & ((marks & PIECE) != np.arange(granules.shape[1])) & ((marks >> MODE & 3) != SWIZZLES.index(fields.swizzle)))
        if len(bad):
            g = tuple(bad[0])
            reports.layouts_differ(self.M, site, int(writers[g]), gid, "a tile", _words(fields.swizzle),
                                   _words(SWIZZLES[int(marks[g]) >> MODE & 3]), int(granules[g]) * 16)


def _words(swizzle: str) -> str:
    return "plain rows" if swizzle == "none" else f"rows swizzled by {swizzle[:-1]} bytes"


def descriptors(M, C, site: int, operand: str, value: np.ndarray, lanes: np.ndarray, group_of: np.ndarray) -> None:
    """One descriptor for the whole warpgroup, no bit set that has no meaning."""
    if value.ndim and not (value == value[0]).all():
        same = np.repeat(value[lanes][group_of], 32) == value
        if not same.all():
            lane = int(np.flatnonzero(~same)[0])
            reports.descriptor(M, site, int(C.gids[lane]), int(value[lane]), f"of {operand} is not that of the other threads: all 128 threads of a "
                               "warpgroup give the same descriptor (it names the whole tile). Compute it from values that are equal in "
                               "the warpgroup, not from the thread, lane or warp.")
    for desc in {int(value)} if not value.ndim else set(value[lanes].tolist()):
        if desc & RESERVED:
            bits = [b for b in range(64) if desc & RESERVED & 1 << b]
            reports.descriptor(M, site, int(C.gids[0]), desc, f"of {operand} sets bits {bits}, which have no meaning: start, leading and stride offset "
                               "are 14 bits each, in units of 16 bytes ((x & 0x3FFFF) >> 4), at bits 0, 16 and 32; the swizzle is at 62.")


def fed(M, C, site: int, operand: str, granules: np.ndarray, lanes: np.ndarray) -> None:
    """Remember whether an operand's tile was ever written (see shadow.py, unfed)."""
    key, shadow = (site, operand), M.shadow
    if key not in shadow.fed:
        if shadow.writes[granules * 4].any():
            shadow.fed.add(key)
        else:
            shadow.unfed.setdefault(key, (int(C.gids[lanes[0]]), int(granules.flat[0]) * 16))


def check(M, C, info, lanes, group_of, desc_a, desc_b, a_index, b_index) -> None:
    """All of the above for one wgmma; desc_a and a_index are None when A lies in registers."""
    for operand, desc, index in (("A", desc_a, a_index), ("B", desc_b, b_index)):
        if index is not None:
            descriptors(M, C, info.index, operand, desc, lanes, group_of)
            M.marks.read(C, info.index, operand, index, M.lanes(C, desc)[lanes], lanes)
            fed(M, C, info.index, operand, index, lanes)
