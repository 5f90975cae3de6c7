# SPDX-License-Identifier: Apache-2.0
"""Findings about registers, descriptors and tiles of wgmma, and about setmaxnreg."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .findings import shared

if TYPE_CHECKING:
    from .findings import Watched


def register_in_flight(M: Watched, index: int, gid: int, other: int) -> None:
    """An accumulator register is used while a wgmma still owns it."""
    M.findings.add("accumulator-used", index, other, gid, agent="wgmma")


def missing_wgmma_fence(M: Watched, site: int, other: int, gid: int, what: str) -> None:
    """A register of a wgmma was computed after the last wgmma.fence of its warp."""
    M.findings.add("no-fence", site, other, gid, what=what)


def no_first_fence(M: Watched, site: int, gid: int) -> None:
    """A warp's first wgmma with no wgmma.fence before it: constants count as written when the kernel starts."""
    M.findings.add("no-first-fence", site, None, gid)


def result_overwritten(M: Watched, site: int, other: int, gid: int) -> None:
    """A register of D is computed while its wgmma is in flight."""
    M.findings.add("result-overwritten", site, other, gid, agent="wgmma")


def fragment_overwritten(M: Watched, site: int, other: int, gid: int) -> None:
    """Registers that hold A of a wgmma in flight are written."""
    M.findings.add("fragment-overwritten", site, other, gid, agent="wgmma")


def metadata_overwritten(M: Watched, site: int, other: int, gid: int) -> None:
    """The register that holds the metadata of a sparse wgmma in flight is written."""
    M.findings.add("metadata-overwritten", site, other, gid, agent="wgmma")


def unwritten_accumulator(M: Watched, site: int, gid: int, operand: str) -> None:
    """A product adds to registers that nothing has written; operand: 'C' of mma.sync, 'D' of wgmma."""
    M.findings.add(f"unwritten-{operand}", site, None, gid)


def layouts_differ(M: Watched, site: int, other: int, gid: int, operand: str, reader: str, writer: str, flat: int) -> None:
    """A tile is read in another layout than the one TMA wrote."""
    M.findings.add("layouts-differ", site, other, gid, **shared(M, flat), operand=operand, reader=reader, writer=writer)


def strides(M: Watched, case: str, site: int, other: int | None, gid: int, operand: str, fields: str, normal: str, flat: int) -> None:
    """A descriptor's distances repeat or skip rows of a tile; case: 'rows-repeated' or 'rows-skipped'."""
    M.findings.add(case, site, other, gid, **shared(M, flat), operand=operand, fields=fields, normal=normal)


def descriptors_differ(M: Watched, site: int, gid: int, value: int, operand: str) -> None:
    """Threads of a warpgroup give different descriptors."""
    M.findings.add("descriptors-differ", site, None, gid, value=value, operand=operand)


def descriptor_bits(M: Watched, site: int, gid: int, value: int, operand: str, bits: list[int]) -> None:
    """A descriptor sets bits without a meaning."""
    M.findings.add("descriptor-bits", site, None, gid, value=value, operand=operand, bits=bits)


def setmaxnreg(M: Watched, case: str, site: int, gid: int, other: int | None = None, **facts: Any) -> None:
    """setmaxnreg that is ignored, illegal or can never be satisfied; case: one of kinds.REGISTERS."""
    M.findings.add(case, site, other, gid, **facts)
