# SPDX-License-Identifier: Apache-2.0
"""Findings about accesses to memory: from two instructions, an agent and a place to the data of a hazard."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .clocks import X
from .findings import in_array, places, shared
from .global_words import COLUMN, LANE

if TYPE_CHECKING:
    from ..machine.memory import Allocation
    from ..ptx.ir import Instr
    from ..ptx.places import Place
    from .findings import Watched

READS = {"read": "reads", "async read": "reads", "write": "writes"}
DID = {"read": "read", "write": "wrote"}


def agent_kind(M: Watched, column: int) -> str:
    """'plain', 'wgmma', 'bulk', 'cp.async' or 'copy' (a bulk or tensor copy that signals an mbarrier)."""
    clocks = M.findings.clocks
    if column < clocks.wgmma0:
        return "plain"
    if column < clocks.bulk0:
        return "wgmma"
    if column < clocks.cp0 or clocks.written0 <= column < clocks.bar0:
        return "bulk"
    return "cp.async" if column < clocks.bar0 else "copy"


def unordered(M: Watched, verb: str, site: int, other_verb: str, other: int, column: int, gid: int, flat: int, lane: int = 0, epoch: int = 0) -> None:
    """Two accesses to the same bytes of shared memory with no order between them. verb: 'read', 'write', 'async read', 'async write'; column, lane, epoch:
    of the other access."""
    agent, then = agent_kind(M, column), M.body[other]
    known = {"agent": agent, **shared(M, flat)}
    if then.op == "mbarrier" and "inval" not in then.mods:
        if not verb.endswith("read"):
            M.findings.add("barrier-overwritten", site, other, gid, **known)
    elif verb.endswith("read") and agent in ("copy", "cp.async"):
        barrier = {"barrier": M.barriers.text(M.barriers.offsets[M.findings.clocks.barrier_number(column)])} if agent == "copy" else {}
        M.findings.add(f"read-before-{agent}{'-arrives' * (agent == 'cp.async' and _signals(M))}", site, other, gid, **known, **barrier)
    elif other_verb == "read" and (agent in ("wgmma", "bulk", "copy") or verb == "async write"):
        M.findings.add(f"overwrite-read-by-{agent}", site, other, gid, **known, spoke=_spoke(M, gid, column, epoch))
    elif other_verb == "write" and agent in ("copy", "cp.async") or verb == "async write":
        M.findings.add("overwrite-written", site, other, gid, **known)
    else:
        known |= {"verb": "reads" if verb.endswith("read") else "writes", "other_verb": DID[other_verb]}
        if column == (gid >> 5) % M.findings.clocks.warps:
            M.findings.add("race-lanes", site, other, gid, **known, lane=gid & 31, other_lane=lane)
        else:
            M.findings.add("race-threads", site, other, gid, **known, spoke=_spoke(M, gid, column, epoch), reduction=_reduces(then), relaxed=_relaxed(M))


def _signals(M: Watched) -> bool:
    """True where cp.async tells mbarriers alone that it is done: nobody waits for a group of them."""
    after = {i.mods[1] for i in M.body if i.op == "cp" and len(i.mods) > 1 and i.mods[0] == "async"}
    return "mbarrier" in after and not after & {"wait_group", "wait_all"}


def _spoke(M: Watched, gid: int, column: int, epoch: int) -> str:
    """The lane of another warp of whose present the thread knows, where it knows it of that lane alone."""
    clocks = M.findings.clocks
    if column >= clocks.wgmma0:
        return ""
    times = clocks.lanes.times(clocks.K[clocks.row_of[[gid]], X, column])[0]
    return "" if epoch <= 0 or times.max() < epoch else f"Lane {int(times.argmax())}" if (times >= epoch).sum() == 1 else "A part"


def _relaxed(M: Watched) -> tuple[Place, ...]:
    """Arrivals and waits that order no memory, where the kernel has any."""
    return places([i for i in M.body if "relaxed" in i.mods and (i.op == "mbarrier" and i.mods[0] != "expect_tx" or "cluster" in i.mods[:1])][:4])


def _narrow(M: Watched) -> tuple[Place, ...]:
    """Fences, releases and acquires of CTA scope, where the kernel has any."""
    return places([i for i in M.body if "cta" in i.mods and i.op in ("fence", "membar", "st", "ld", "atom", "red")][:4])


def _reduces(then: Instr) -> bool:
    return then.op in ("atom", "red")


def read_too_early(M: Watched, site: int, other: int, gid: int, flat: int) -> None:
    """`other` read bytes that nothing had written; `site` is the copy that writes them only now."""
    M.findings.add("read-of-nothing", other, site, gid, **shared(M, flat))


def global_race(M: Watched, verb: str, site: int, other_verb: str, other: int, column: int, gid: int, allocation: Allocation, offset: int, lane: int, epoch: int,
                near: bool) -> None:
    """Two accesses to the same bytes of global memory with no order between them. column, lane, epoch: of the other access; near: in the same cluster."""
    agent, then = agent_kind(M, column), M.body[other]
    known = {"agent": agent, **in_array(allocation, offset)}
    if agent in ("copy", "cp.async"):
        barrier = {"barrier": M.barriers.text(M.barriers.offsets[M.findings.clocks.barrier_number(column)])} if agent == "copy" else {}
        M.findings.add(f"global-overwrite-{agent}", site, other, gid, **known, **barrier)
    elif agent == "bulk" and verb.endswith("read"):
        M.findings.add("global-read-before-bulk", site, other, gid, **known)
    elif agent == "bulk" or verb == "async write":
        M.findings.add("global-overwrite", site, other, gid, **known, other_verb=other_verb)
    elif near and column == (gid >> 5) % M.findings.clocks.warps:
        M.findings.add("global-race-lanes", site, other, gid, **known, verb=READS[verb], other_verb=DID[other_verb], lane=gid & 31, other_lane=lane,
                       reduction=_reduces(then))
    else:
        M.findings.add("global-race", site, other, gid, **known, verb=READS[verb], other_verb=DID[other_verb], spoke=_spoke(M, gid, column, epoch) if near else "",
                       reduction=_reduces(then), narrow=_narrow(M))


def global_races(M: Watched, verb: str, site: int, other_verb: str, gids: np.ndarray, allocation: Allocation, who: np.ndarray, when: np.ndarray, at: np.ndarray,
                 near: np.ndarray) -> None:
    """`global_race` once for each instruction of the others: stamps `who`, `when` (global_words.py) of words `at`; near: in the same cluster. Told of another warp,
    if there is one."""
    sites, columns, warps = when & 0xFFFFF, who >> COLUMN & 0xFFFF, M.findings.clocks.warps
    for other in np.unique(sites).tolist():
        here = np.flatnonzero(sites == other)
        k = int(here[np.argmax(~near[here] | (columns[here] != (gids[here] >> 5) % warps))])
        global_race(M, verb, site, other_verb, other, int(columns[k]), int(gids[k]), allocation, int(at[k]) * 4, int(who[k] >> LANE & 31), int(when[k] >> 20),
                    bool(near[k]))


def narrow_atomics(M: Watched, site: int, other: int, gid: int, allocation: Allocation, offset: int) -> None:
    """Two blocks update one word, one of them atomically for its own block alone."""
    M.findings.add("narrow-atomics", site, other, gid, **in_array(allocation, offset))


def global_fence(M: Watched, site: int, other: int, gid: int, allocation: Allocation, offset: int) -> None:
    """A generic write of this kernel is read by the copy engine without a proxy fence."""
    M.findings.add("global-proxy-fence", site, other, gid, **in_array(allocation, offset))


def missing_fence(M: Watched, site: int, other: int, gid: int, flat: int, verb: str = "async read") -> None:
    """A generic write is ordered before an async-proxy access, but was never made visible to that proxy. verb: 'async read' or 'async write'.
    Every byte of a tile shows it, so that it may be asked millions of times: two instructions are told of once, before anything is made of them."""
    pair = ("shared-proxy-fence", site, other)
    if pair in M.findings.places:
        return
    M.findings.places.add(pair)
    verb = "reads" if verb == "async read" else "updates" if "reduce" in M.body[site].mods else "overwrites"
    M.findings.add("shared-proxy-fence", site, other, gid, **shared(M, flat), verb=verb)


def unfenced_overwrite(M: Watched, site: int, other: int, gid: int, flat: int) -> None:
    """A copy overwrites what ordinary loads have read: in the order of threads, but with no proxy fence on the way."""
    M.findings.add("overwrite-unfenced", site, other, gid, **shared(M, flat))


def stale_constant(M: Watched, site: int, other: int, gid: int, allocation: Allocation, offset: int) -> None:
    """ld.global.nc of data that this kernel wrote."""
    M.findings.add("stale-constant", site, other, gid, **in_array(allocation, offset))


def lanes_collide(M: Watched, site: int, gid: int, where: dict[str, Any]) -> None:
    """Lanes of one warp store different values to one address in one instruction."""
    M.findings.add("lanes-collide", site, None, gid, **where)


def warps_collide(M: Watched, site: int, gid: int, where: dict[str, Any]) -> None:
    """Threads of different warps store different values to one address, with no order between them."""
    M.findings.add("warps-collide", site, site, gid, **where)


def scope(M: Watched, site: int, other: int, gid: int, where: dict[str, Any]) -> None:
    """What another CTA wrote is known only through arrivals or waits of CTA scope."""
    narrow = places([i for i in M.body if i.op == "mbarrier" and "relaxed" not in i.mods and "cluster" not in i.mods
                     and any(m in i.mods for m in ("arrive", "arrive_drop", "try_wait", "test_wait"))])
    M.findings.add("scope", site, other, gid, **where, narrow=narrow[:5] or "")


def map_not_released(M: Watched, site: int, other: int, gid: int, allocation: Allocation, offset: int) -> None:
    """A tensor map was changed in global memory and not published to the tensormap proxy."""
    M.findings.add("map-not-released", site, other, gid, **in_array(allocation, offset), map=allocation.name)


def map_not_acquired(M: Watched, site: int, other: int, gid: int, allocation: Allocation, offset: int) -> None:
    """A tensor map was changed and published, but the user of it has not acquired it."""
    M.findings.add("map-not-acquired", site, other, gid, **in_array(allocation, offset), map=allocation.name)


def never_written(M: Watched, site: int, gid: int, flat: int) -> None:
    """An instruction only ever read shared memory that nothing had written."""
    M.findings.add("never-written", site, None, gid, **shared(M, flat))
