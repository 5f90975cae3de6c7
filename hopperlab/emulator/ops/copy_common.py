# SPDX-License-Identifier: Apache-2.0
"""What the copy engine's instructions share: their decoded form, tensor maps, and where a box lies in shared memory."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...hopper import interleave, tensormap, tile
from ...hopper.tensormap import TensorMapError
from ..machine.machine_constants import PARAM_WINDOW
from .common import SHARED_TAG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ...hopper.tensormap_fields import TensorMapFields
    from ...hopper.tile import GlobalRows
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine


@dataclass
class Info:
    """index: of the instruction; rank: dimensions of a tensor copy (0: plain bulk copy); cluster: the destination is named
    by a shared::cluster address; multicast: a mask operand names the CTAs that get the data; mode: 'tile', 'im2col' or
    'im2col_no_offs'; op and kind: a reduction's operation ('' for a copy) and, for plain bulk ones, its PTX type."""

    index: int
    rank: int = 0
    cluster: bool = False
    multicast: bool = False
    mode: str = "tile"
    op: str = ""
    kind: str = ""


def tensor_map(M: Machine, C: Cohort, info: Info, lane: int, address: int) -> TensorMapFields:
    """The fields of the tensor map at a generic address; an unusable one is an error that says why."""
    if address % 64:
        raise M.fault(C, info.index, lane, f"a tensor map at {address:#x}: its address must be a multiple of 64", "misaligned", address)
    if address >> 40 == SHARED_TAG:
        raise M.fault(C, info.index, lane, f"a tensor map at {address:#x}, in shared memory: the copy engine reads maps from parameters, "
                      "constant and global memory only (tensormap.cp_fenceproxy copies one there)", "out-of-bounds", address)
    start = address - PARAM_WINDOW
    if 0 <= start < len(M.params):
        image = M.params[start:start + 128]
    else:
        allocation = M.memory.find(address)
        if allocation is None or address + 128 > allocation.end:
            raise M.fault(C, info.index, lane, f"no tensor map at {address:#x}: {M.memory.nearest(address)}", "out-of-bounds", address)
        offset = address - allocation.address
        image = allocation.view(1)[offset:offset + 128].tobytes()
        M.tell.map_used(int(C.gids[lane]), allocation, offset, info.index)
    try:
        return _usable(M, C, info, lane, tensormap.load(image))
    except TensorMapError as error:
        raise M.fault(C, info.index, lane, f"the tensor map: {error}", "illegal-descriptor", address) from None


def _usable(M, C, info: Info, lane: int, fields):
    """The map, if this instruction may use it."""
    if fields.rank != info.rank:
        raise M.fault(C, info.index, lane, f"a {info.rank}-D copy with a tensor map of rank {fields.rank}", "illegal-descriptor", 0)
    if (fields.mode == "im2col") != info.mode.startswith("im2col"):
        raise M.fault(C, info.index, lane, f"a copy in {info.mode} mode with a tensor map in {fields.mode} mode", "out-of-bounds", 0)
    return fields


def shared_offset(M: Machine, C: Cohort, info: Info, lane: int, address: int, nbytes: int, align: int) -> int:
    """The CTA's own byte offset of a shared address, if `nbytes` lie there and it is aligned."""
    offset = address & 0xFFFFFF
    if offset % align:
        raise M.fault(C, info.index, lane, f"shared address {offset:#x} is not a multiple of {align}, which this copy needs",
                      "misaligned", offset)
    if offset < 0x400 or offset + nbytes > M.shared_limit:
        raise M.fault(C, info.index, lane, f"{nbytes} bytes at shared address {offset:#x}, but this CTA's shared memory is "
                      f"0x400 to {M.shared_limit:#x}", "out-of-bounds", offset)
    return offset


class Tile:
    """Where one tensor copy touches shared memory: byte positions of its 16-byte granules in M.smem."""

    __slots__ = ("granules", "spans", "nbytes", "dense", "base")

    def __init__(self, M, fields, slot: int, offset: int):
        base = slot * M.stride
        self.granules, width = geometry(fields, offset)
        self.base = base
        self.nbytes = tile.tile_bytes(fields) if fields.interleave == "none" else interleave.tile_bytes(fields)
        self.dense = width == interleave.row_bytes(fields)
        if self.dense:
            self.spans = [(base + offset, smem_bytes(fields))]
        else:
            places = np.unique(self.granules) + base
            self.spans = [(int(p), 16) for p in places]


def smem_bytes(fields: TensorMapFields) -> int:
    """Bytes of shared memory that the box of a map occupies."""
    return tile.smem_bytes(fields) if fields.interleave == "none" else interleave.tile_bytes(fields)


_GEOMETRY: dict = {}


def geometry(fields: TensorMapFields, offset: int) -> tuple[NDArray[Any], int]:
    """(granule addresses (rows, granules), row pitch), remembered by map layout and address."""
    key = (fields.dtype, fields.box_dim or (fields.channels_per_pixel, fields.pixels_per_column), fields.mode, fields.element_strides,
           fields.swizzle, fields.interleave, offset)
    known = _GEOMETRY.get(key)
    if known is None:
        if len(_GEOMETRY) > 4096:
            _GEOMETRY.clear()
        if fields.interleave == "none":
            known = tile.granule_addresses(fields, offset), tile.row_pitch(fields)
        else:
            known = interleave.granule_addresses(fields, offset), interleave.pixel_bytes(fields)
        _GEOMETRY[key] = known
    return known


def rows_of(M: Machine, C: Cohort, info: Any, lane: int, fields: TensorMapFields, where: Sequence[int], offsets: Sequence[int] = (),
            store: bool = False) -> GlobalRows:
    """Where the box at `where` lies; coordinates that the copy engine rejects are a fault with block, thread and line."""
    try:
        if fields.interleave != "none" and info.mode == "tile":
            return interleave.global_rows(fields, where, store)
        if info.mode == "tile":
            return (tile.store_rows if store else tile.global_rows)(fields, where)
        _check_offsets(fields, offsets)
        if fields.interleave != "none":
            return interleave.column_rows(fields, where, offsets)
        rows = tile.im2col_rows(fields, where, offsets)
        piece = 16 // fields.elem_bytes                     # stores clip channels in pieces of 16 bytes (measured on an H200)
        return rows._replace(last=min(-(-rows.last // piece) * piece, fields.inner_elements)) if store else rows
    except TensorMapError as error:
        raise M.fault(C, info.index, lane, str(error), "misaligned", 0) from None


def _check_offsets(fields, offsets) -> None:
    """im2col offsets are 16, 8 or 5 bits wide (PTX ISA 5.5.4.2)."""
    most = {3: 0xFFFF, 4: 0xFF, 5: 0x1F}[fields.rank]
    if offsets and max(offsets) > most:
        raise TensorMapError(f"im2col offsets {tuple(offsets)}: for a map of rank {fields.rank} each is 0 to {most}")


def check_size(M: Machine, C: Cohort, info: Any, lane: int, nbytes: int, address: int) -> None:
    """Bulk copies move multiples of 16 bytes from and to multiples of 16."""
    if nbytes % 16 or address % 16:
        raise M.fault(C, info.index, lane, f"a bulk copy of {nbytes} bytes at global address {address:#x}: size and both "
                      "addresses are multiples of 16", "misaligned", address)
