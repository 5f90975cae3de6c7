# SPDX-License-Identifier: Apache-2.0
"""Findings between launches: two grids, or a grid and the host, at the same bytes of global memory. The later launch is named first."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .findings import in_array, places
from .global_words import COLUMN, LANE, SERIAL
from .hazard import End, Hazard
from .kinds import CASES

if TYPE_CHECKING:
    from ..machine.memory import Allocation
    from ..ptx.ir import Instr
    from ..ptx.places import Place
    from .findings import Watched

SITE = 0xFFFFF
Told = dict[tuple[Any, ...], tuple[list[Hazard], Hazard]]        # what has been reported: the list that it stands in, and it
DOES, DID = {"read": "reads", "write": "writes"}, {"read": "read", "write": "wrote"}


@dataclass(frozen=True)
class Access:
    """One of the two: its grid (emulator/grids.py), what it did ('read', 'write'), with which instruction, and who."""

    grid: Any
    verb: str
    instr: Instr
    block: tuple[int, int, int] | None
    thread: int | None


def between(M: Watched, verb: str, site: int, other_verb: str, who: np.ndarray, when: np.ndarray, gids: np.ndarray, allocation: Allocation,
            offset: np.ndarray) -> None:
    """Instruction `site` of this launch and instructions of others touch the same words with no order between them: one finding a pair of instructions."""
    pairs = np.stack([M.grid.table.numbers(who >> SERIAL), when & SITE], axis=-1).reshape(-1, 2)
    for number, other in np.unique(pairs, axis=0).tolist():
        k = int(np.flatnonzero((pairs[:, 0] == number) & (pairs[:, 1] == other))[0])
        gid = int(gids.reshape(-1)[k])
        mine = Access(M.grid, verb.removeprefix("async "), M.body[site], M.block_index(gid), gid % M.T)
        theirs = _known_by_stamp(M.grid.table.grids[number], int(who.reshape(-1)[k]), other_verb, other)
        later, earlier = (mine, theirs) if M.grid.number > number else (theirs, mine)
        _tell(M, later, earlier, allocation, int(offset.reshape(-1)[k]))


def _known_by_stamp(grid: Any, who: int, verb: str, site: int) -> Access:
    """An access of another grid, of which only its stamp is left."""
    column, block, thread = who >> COLUMN & 0xFFFF, None, None
    if grid.cluster == 1:
        block = grid.block_index(int(grid.table.cta[who >> SERIAL]))
        thread = column * 32 + (who >> LANE & 31) if column < grid.warps else None
    return Access(grid, verb, grid.body[site], block, thread)


def _tell(M: Watched, later: Access, earlier: Access, allocation: Allocation, offset: int) -> None:
    grid, other = later.grid, earlier.grid
    facts = {"kernel": grid.title, "other": other.title, "verb": DOES[later.verb], "other_verb": DID[earlier.verb]}
    if other.number in grid.held_back():
        case = "read-before-grid-wait" if later.verb == "read" else "race-before-grid-wait"
        front = grid.front.title if grid.front is not None and grid.front.number != other.number else ""
        facts |= {"absent": not any(i.op == "griddepcontrol" and "wait" in i.mods for i in grid.body), "through": front}
    elif grid.device != other.device:
        case = "race-of-devices"
        facts |= {"device": grid.device, "other_device": other.device, "narrow": _below(later, earlier, ("gpu", "gl", "cta", "cluster"))}
    else:
        case = "race-of-grids"
        facts |= {"narrow": _below(later, earlier, ("cta",)), "reduction": earlier.instr.op in ("atom", "red")}
    facts["loads"] = places([one.instr for one in (later, earlier) if one.verb == "read" and one.instr.op == "cp"])
    _add(M.findings.hazards, M.grid.table.told, case, later, earlier, facts, in_array(allocation, offset))


def _add(hazards: list[Hazard], told: Told, case: str, here: Access, there: Access | None, facts: dict[str, Any], where: dict[str, Any]) -> None:
    """Keep a finding, of each pair of lines of two launches the one at the lowest word: which was looked at first depends on the compiler."""
    ends = [None if one is None else End.of(one.instr) for one in (here, there)]
    key = (case, here.grid.title, *(None if end is None else (end.place.text(), end.opcode) for end in ends), None if there is None else there.grid.title)
    kept, before = told.get(key, (hazards, None))
    if before is not None and (before.array, before.address) <= (where["array"], where["address"]):
        return
    found = Hazard(CASES[case].kind, case, ends[0], ends[1], here.block, here.thread, **where, agent="plain", facts=facts)
    if before is None:
        kept.append(found)
    else:
        kept[:] = [found if hazard is before else hazard for hazard in kept]
    told[key] = kept, found


def _below(one: Access, other: Access, scopes: tuple[str, ...]) -> tuple[Place, ...]:
    """Fences, releases, acquires and atomics of too small a scope in either kernel."""
    def small(instr: Instr) -> bool:
        flag = instr.op in ("atom", "red") or instr.op in ("st", "ld") and any(m in instr.mods for m in ("release", "acquire", "relaxed"))
        unsaid = instr.op in ("atom", "red") and "gpu" in scopes and "sys" not in instr.mods
        return (instr.op in ("fence", "membar") and "proxy" not in instr.mods or flag) and any(s in instr.mods for s in scopes) or unsaid
    return tuple(dict.fromkeys(p for access in (one, other) for p in places([i for i in access.grid.body if small(i)][:4])))


def unfenced(M: Watched, site: int, who: int, when: int, gid: int, allocation: Allocation, offset: int) -> None:
    """A copy reads what threads of another grid stored, with a flag between them and no proxy fence."""
    other = M.grid.table.grids[int(M.grid.table.owner[who >> SERIAL])]
    mine = Access(M.grid, "read", M.body[site], M.block_index(gid), gid % M.T)
    facts = {"kernel": M.grid.title, "other": other.title}
    _add(M.findings.hazards, M.grid.table.told, "proxy-fence-of-grids", mine, _known_by_stamp(other, who, "write", when & SITE), facts, in_array(allocation, offset))


def host(hazards: list[Hazard], told: Told, grid: Any, who: int, when: int, verb: str, allocation: Allocation, offset: int, writes: bool) -> None:
    """The host reads (writes: overwrites) an array of which a grid that nobody has waited for reads or writes a word; verb: what the grid does."""
    access = _known_by_stamp(grid, who, verb, when & SITE)
    facts = {"kernel": grid.title, "verb": DOES[verb], "array": allocation.name}
    _add(hazards, told, "host-write-too-early" if writes else "host-read-too-early", access, None, facts, in_array(allocation, offset))
