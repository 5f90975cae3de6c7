# SPDX-License-Identifier: Apache-2.0
"""What only the end of a launch shows: reads that never saw a written byte; and faults as hazards.

uninitialised-read, the rule: an instruction (or one operand of a wgmma) is reported when in the whole launch, in no thread,
it ever read a byte of shared memory that anything had written. Edges of a tile that are loaded and dropped, or a
load that the compiler pulled out of a condition, are thus silent; so is everything in clusters and kernels that call what
is not linked, where writers are not all known, and what another hazard already explains.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import MemoryFault
from ..ptx import places
from . import findings_memory
from .hazard import End, Hazard
from .kinds import Kind

if TYPE_CHECKING:
    from ..ptx.ir import Instr
    from .findings import Watched
    from .shared_order import SharedOrder


def unwritten(M: Watched, order: SharedOrder) -> None:
    """Report instructions that only ever read shared memory nobody had written; order: a SharedOrder."""
    if not order.unfed or M.cluster > 1 or any(_writes_unseen(i) for i in M.body):
        return
    explained = {key[k] for key in M.findings.told for k in (1, 3)}
    for key, (gid, flat) in order.unfed.items():
        site = key[0] if type(key) is tuple else key
        if key not in order.fed and places.place(M.body[site]) not in explained and not _speculative(M, site):
            findings_memory.never_written(M, site, gid, flat)


def _writes_unseen(instr: Instr) -> bool:
    return instr.op == "st" and "async" in instr.mods or instr.op == "call"


def _speculative(M: Watched, site: int) -> bool:
    """A load whose result goes only into selp: the compiler may have moved it before its condition."""
    instr = M.body[site]
    if instr.op != "ld":
        return False
    names = {r.name for r in instr.dsts()}
    users = [i for i in M.body if i.index != site and any(r.name in names for r in i.srcs())]
    return all(i.op == "selp" for i in users)


def fault_as_hazard(M: Watched, fault: MemoryFault) -> None:
    """Add a fault to the launch's hazards, once."""
    where = places.user_site(M.body[fault.index]) if fault.index is not None else None
    if any(h.kind == fault.kind and h.where == where for h in M.findings.hazards):
        return
    kind = Kind(fault.kind)
    here = End.of(M.body[fault.index]) if fault.index is not None else None
    said, detail = ("fault", fault.detail) if fault.detail else ("refused", str(fault).removeprefix(f"{kind}: "))
    M.findings.hazards.append(Hazard(kind, f"{said}-{kind}", here, None, fault.block, fault.thread, address=fault.address, facts={"detail": detail}))
