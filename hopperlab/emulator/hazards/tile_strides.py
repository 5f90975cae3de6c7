# SPDX-License-Identifier: Apache-2.0
"""Distances in wgmma descriptors that cannot be those of the tile: they name some granule twice, or skip rows that were written with the others and that no
product of the launch reads. Both are legal, so both are warnings. PTX ISA 9.7.15.5.1.

Each tile (instruction, operand, descriptor and place) is looked at once. What is skipped is judged at the end of the launch: panels that lie between each
other's rows are skipped by one product and read by another.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...hopper import wgmma as layout
from . import findings_registers
from .stamps import W_SITE_MASK

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .findings import Watched
    from .shared_order import SharedOrder

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}     # bytes of a row inside a group of eight
LINE = 8                                                    # granules of 128 bytes


@dataclass(frozen=True)
class Skip:
    """A product that jumped over lines which instruction `writer` had written along with what it read."""

    site: int
    operand: str
    gid: int
    first: int            # granule where the operand begins
    lines: np.ndarray
    writer: int
    desc: layout.Descriptor


class TileStrides:
    """Which tiles products read. patterns: by instruction, operand and descriptor, the granules of one tile from its first on; reads: by instruction and operand, the
    (descriptor, first granule) of each; skips: what was jumped over."""

    def __init__(self, machine: Watched, order: SharedOrder) -> None:
        self.M, self.order = machine, order
        self.patterns: dict[tuple[int, str, int], np.ndarray] = machine.translation.once("patterns of tiles", lambda _: {})
        self.reads: dict[tuple[int, str], set[tuple[int, int]]] = {}
        self.skips: list[Skip] = []

    def read(self, C: Cohort, site: int, operand: str, granules: np.ndarray, tiles: list[tuple[int, int]], lanes: np.ndarray) -> None:
        """A wgmma reads `granules` (groups, rows, pieces); `tiles` (descriptor, first granule) and `lanes`: one of each group."""
        known = self.reads.setdefault((site, operand), set())
        if known.issuperset(tiles):
            return
        for g, tile in enumerate(tiles):
            if tile not in known:
                known.add(tile)
                self._looked_at(int(C.gids[lanes[g]]), site, operand, granules[g], tile[0])

    def _looked_at(self, gid: int, site: int, operand: str, tile: np.ndarray, value: int) -> None:
        """A tile that this instruction has not read with such a descriptor."""
        desc, pattern = layout.decode(value), self.patterns.get((site, operand, value))
        if pattern is None:
            pattern = self.patterns[site, operand, value] = np.unique(tile - tile[0, 0])
        if len(pattern) < tile.size:
            findings_registers.strides(self.M, "rows-repeated", site, None, gid, operand, _fields(desc), _normal(desc), int(tile.min()) * 16)
        if desc.swizzle != "none" and desc.stride_bytes > 8 * SPANS[desc.swizzle]:
            self._skipped(site, operand, gid, desc, pattern + tile[0, 0])

    def _skipped(self, site: int, operand: str, gid: int, desc: layout.Descriptor, places: np.ndarray) -> None:
        """Between one group of eight rows and the next lies something: is it of the same tile?"""
        lines, step = np.unique(places // LINE), desc.stride_bytes // (16 * LINE)
        starts = lines[np.isin(lines + step, lines)]
        between = np.setdiff1d(starts[:, None] + np.arange(1, step), lines)
        stamps = self.order.writes
        writer = int(stamps[int(places[0]) * 4])
        if writer <= 0:
            return
        written = stamps[between * LINE * 4]
        same = between[(written > 0) & ((written & W_SITE_MASK) == (writer & W_SITE_MASK))]
        if len(same):
            self.skips.append(Skip(site, operand, gid, int(places[0]), same, writer & W_SITE_MASK, desc))

    def finish(self) -> None:
        """Report skipped rows that no product has read."""
        if not self.skips:
            return
        read: set[int] = set()
        for (site, operand), tiles in self.reads.items():
            for value, first in tiles:
                read.update(((self.patterns[site, operand, value] + first) // LINE).tolist())
        for skip in self.skips:
            if read.isdisjoint(skip.lines.tolist()):
                findings_registers.strides(self.M, "rows-skipped", skip.site, skip.writer, skip.gid, skip.operand, _fields(skip.desc), _normal(skip.desc),
                                           skip.first * 16)


def _fields(desc: layout.Descriptor) -> str:
    """The distances of a descriptor in words."""
    return f"its descriptor says {desc.stride_bytes} bytes from one group of 8 rows to the next and {desc.leading_bytes} bytes as its leading offset"


def _normal(desc: layout.Descriptor) -> str:
    """What they are in an ordinary tile."""
    if desc.swizzle == "none":
        return "Without a swizzle the leading offset goes from one core matrix (8 rows x 16 bytes) to the next along k, the stride offset along m or n"
    rows = 8 * SPANS[desc.swizzle]
    return (f"With the swizzle of {desc.swizzle[:-1]} bytes 8 rows take {rows} bytes, which is the stride offset; "
            "the leading offset goes from one panel to the next where the tile is MN-major, and counts nowhere else")
