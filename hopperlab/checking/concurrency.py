# SPDX-License-Identifier: Apache-2.0
"""Requirements on what ran at the same time and on who did it, judged from the events of the run under the lazy schedule.

There a copy lands when nobody can go on without it, and a product when its wait comes: what could be under way is under way, and the order of lines decides nothing.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from ..runtime.tables import counted
from .requires import Requirement, custom, needless

CARRIERS = ("ld.global", "atom or red", "cp.async", "cp.async.bulk loads", "mma.sync", "ld of another CTA's memory", "copies between CTAs")
READS = "read brought"


def nothing_else(instead: str, needed: Container[str] = ()) -> Requirement:
    """None of CARRIERS may run but the counters that are `needed`, and no thread may read what copies brought. instead: what does the work, for the message."""
    others = needless(*CARRIERS, instead=instead, needed=needed)

    def complaint(run: Any) -> str:
        reads = [event for event in run.timeline if event.what == READS]
        if (found := others.complaint(run)) or not reads or READS in needed:
            return found
        where = f" (line {reads[0].line}, {reads[0].opcode})" if reads[0].line else ""
        return f"warps read {len(reads):,} times what a copy had brought into shared memory{where}, which this exercise has no use for: {instead}"
    return custom("nothing else carries the data", complaint, accesses=True)


def loads_ahead(each: int, slots: int, why: str = "") -> Requirement:
    """When the loads of a CTA's i-th tile (or k-block) land, all tiles that find a free slot must have been asked for: 0 .. i + slots - 1, or one fewer while a
    product is still being computed from the slot before. each: loads of a tile, as its CTA issues them (a multicast once a destination)."""
    def complaint(run: Any) -> str:
        total = Counter(event.block for event in run.timeline if event.what == "issue cp")
        issued, landed, multiplying = Counter[int](), Counter[int](), Counter[int]()
        for event in run.timeline:
            block = event.block
            if event.what == "issue cp":
                issued[block] += 1
            elif event.what.endswith(" wgmma"):
                multiplying[block] += 1 if event.kind == "issue" else -1
            elif event.what == "land cp":
                tile = landed[block] // each
                landed[block] += 1
                asked = min(total[block], each * (tile + slots - (multiplying[block] > 0)))
                if issued[block] < asked:
                    return (f"when tile {tile} of block {block} lands, {issued[block] // each} have been asked for, and it should be "
                            f"{asked // each}: a slot is filled again as soon as it has been handed back, in every round of the ring" + (f"; {why}" if why else ""))
        return ""
    return custom(f"{slots} slots are filled again at once", complaint)


def multiplied(run: Any) -> list[Any]:
    """The timeline (with accesses) without the copies whose bytes no wgmma ever reads."""
    read = {event.detail for event in run.timeline if event.what == "multiply cp"}
    return [event for event in run.timeline if event.what not in ("issue cp", "land cp") or event.detail.partition(", ")[2] in read]


def loads_under_products(k_blocks: int) -> Requirement:
    """While products are computed, later loads of the same CTA that others multiply must be in flight: of a tile's `k_blocks`, all but the last one."""
    def complaint(run: Any) -> str:
        events = multiplied(run)
        total = Counter(event.block for event in events if event.what == "issue cp")
        issued, landed, beside, alone = (Counter[int]() for _ in range(4))
        for event in events:
            block = event.block
            if event.what == "issue cp":
                issued[block] += 1
            elif event.what == "land cp":
                landed[block] += 1
            elif event.what == "land wgmma" and event.warp % 4 == 0 and total[block]:
                (alone if landed[block] == issued[block] < total[block] else beside)[block] += 1
        for block, count in sorted(alone.items()):
            if count * k_blocks >= 2 * (count + beside[block]):
                return (f"in block {block}, {count} of {count + beside[block]} wgmma ended with no load on its "
                        "way although k-blocks were still to come: load ahead in every round, not only in the first")
        return ""
    return custom("loads run under the products", complaint, accesses=True)


def loaded_by(warps: Container[int], who: str) -> Requirement:
    """Every copy must be issued by one of these warps of its block."""
    def complaint(run: Any) -> str:
        other = next((event for event in run.timeline if event.what == "issue cp" and event.warp not in warps), None)
        return "" if other is None else (f"warp {other.warp} of block {other.block} issues copies, and {who} should: the roles are {who} and those "
                                         "who only wait for the data")
    return custom(f"loads by {who}", complaint)


def converged(opcodes: tuple[str, ...], how: str) -> Requirement:
    """No warp may come to these instructions lane by lane. how: what to do."""
    def complaint(run: Any) -> str:
        apart = next((event for event in run.timeline if event.what == "gather lanes" and event.opcode.startswith(opcodes)), None)
        return "" if apart is None else (f"lanes of warp {apart.warp} come to {apart.opcode.split('.sync')[0]} without the rest of their warp, which it "
                                         f"wants whole: {how}")
    return custom("whole warps at collectives", complaint, accesses=True)


def products_in_flight(steps: int, pending: int) -> Requirement:
    """When a warp begins the products of a k-block (`steps` wgmma), those of the `pending` k-blocks before must be in flight, in every k-block."""
    def complaint(run: Any) -> str:
        issued, landed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for event in run.timeline:
            warp = (event.block, event.warp)
            if event.what == "issue wgmma":
                at, now = issued[warp] // steps, issued[warp] - landed[warp]
                if issued[warp] % steps == 0 and now < steps * min(at, pending):
                    return (f"when a warp begins k-block {at}, {now} of its wgmma are in flight, and it should be {steps * min(at, pending)}: leave "
                            f"{counted(pending, 'k-block')} in flight in every step, not only in the first")
                issued[warp] += 1
            elif event.what == "land wgmma":
                landed[warp] += 1
        return ""
    return custom(f"{pending} k-blocks stay in flight", complaint)


def next_issued(steps: int) -> Requirement:
    """Whenever a wgmma of a warp's k-block (`steps` wgmma) ends, all of the next k-block must have been issued."""
    def complaint(run: Any) -> str:
        total = Counter((event.block, event.warp) for event in run.timeline if event.what == "issue wgmma")
        issued, landed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
        for event in run.timeline:
            warp = (event.block, event.warp)
            if event.what == "issue wgmma":
                issued[warp] += 1
            elif event.what == "land wgmma":
                block = landed[warp] // steps
                landed[warp] += 1
                if issued[warp] < min(total[warp], steps * (block + 2)):
                    return (f"when k-block {block} was waited for, {issued[warp] - steps * (block + 1)} of the {steps} "
                            "wgmma of the next one had been issued: start the whole k-block before you promote the one before")
        return ""
    return custom("the whole next k-block is under way", complaint)


def nobody_stops() -> Requirement:
    """Between a warp's first and last wgmma it must meet no other warpgroup at a barrier of threads."""
    def complaint(run: Any) -> str:
        last = {(event.block, event.warp): place for place, event in enumerate(run.timeline) if event.what == "issue wgmma"}
        begun: set[tuple[int, int]] = set()
        met: dict[tuple[int, str], int] = {}                   # who came to a barrier while multiplying, by block and barrier
        for place, event in enumerate(run.timeline):
            warp = (event.block, event.warp)
            if event.what == "issue wgmma":
                begun.add(warp)
            elif event.what == "meet bar" and warp in begun and place < last[warp] and met.setdefault((event.block, event.detail), event.warp // 4) != event.warp // 4:
                return (f"warp {event.warp} stops at {event.opcode} ({event.detail}) between its products, where another warpgroup stops "
                        "too: the warpgroup that is ahead must not wait for the other one; what they owe each other goes by the mbarriers")
        return ""
    return custom("no barrier of threads in the loop", complaint, accesses=True)


def teams_apart(team_of: Callable[[int], int], when: str, why: str) -> Requirement:
    """Between its first and last arrival on an mbarrier no warp may meet another team at a barrier of threads. team_of: a warp's team; when, why: in the message."""
    def complaint(run: Any) -> str:
        last = {(event.block, event.warp): place for place, event in enumerate(run.timeline) if event.what == "arrive mbarrier"}
        begun: set[tuple[int, int]] = set()
        met: dict[tuple[int, str], int] = {}
        for place, event in enumerate(run.timeline):
            warp = (event.block, event.warp)
            if event.what == "arrive mbarrier":
                begun.add(warp)
            elif event.what == "meet bar" and warp in begun and place < last[warp]:
                if met.setdefault((event.block, event.detail), team_of(event.warp)) != team_of(event.warp):
                    return f"warp {event.warp} of block {event.block} stops at {event.opcode} ({event.detail}) {when}, {why}"
        return ""
    return custom("no team waits for the other", complaint, accesses=True)


def arrivals_by(warps: Mapping[int, Container[int]], amount: Callable[[int], int], who: str) -> Requirement:
    """In every block, the warps of each set must arrive on mbarriers amount(block) times at least. warps: sets of warps by number of who arrives."""
    def complaint(run: Any) -> str:
        found = Counter((event.block, event.warp) for event in run.timeline if event.what == "arrive mbarrier" and "expects" not in event.detail)
        for block in sorted({event.block for event in run.timeline}):
            for number, members in warps.items():
                count = sum(n for (b, warp), n in found.items() if b == block and warp in members)
                if count < amount(block):
                    return f"{who} {number} of block {block} arrives {count} times, and should {amount(block)}: each {who} hands back for itself, none for another"
        return ""
    return custom(f"each {who} arrives for itself", complaint)


def issued_by(warpgroups: Sequence[int], each: int, why: str) -> Requirement:
    """Each of these warpgroups of every block must issue `each` wgmma."""
    def complaint(run: Any) -> str:
        issues = Counter((event.block, event.warp // 4) for event in run.timeline if event.what == "issue wgmma" and event.warp % 4 == 0)
        for block in sorted({event.block for event in run.timeline}):
            for who in warpgroups:
                if issues[block, who] != each:
                    return f"warpgroup {who} of block {block} issues {issues[block, who]} wgmma, and should issue {each}: {why}"
        return ""
    return custom(f"wgmma by each of {len(warpgroups)} warpgroups: {each}", complaint)


def by_each_warp(amounts: Sequence[Sequence[int]], event: str, does: str, why: str) -> Requirement:
    """In block b, warp w must have amounts[b][w] of the events that the timeline names `event`, at least; where nobody has any, others say so. does: 'reads
    shared memory', in the message. Reads that nothing uses count as well: carried.own_share asks whether each warp's reads reach its results.
    Where as many events are asked for as the data needs in all, none is left for show."""
    def complaint(run: Any) -> str:
        found = Counter((one.block, one.warp) for one in run.timeline if one.what == event)
        for block, of_block in enumerate(amounts):
            for warp, least in enumerate(of_block):
                if found and found[block, warp] < least:
                    return f"warp {warp} of block {block} {does} {found[block, warp]} times, and it should be {least} at least: {why}"
        return ""
    return custom(f"each warp {does}", complaint, accesses=True)


def no_cluster_barrier() -> Requirement:
    """Between a block's first and last wgmma none of its warps may meet its cluster."""
    def complaint(run: Any) -> str:
        last = {event.block: place for place, event in enumerate(run.timeline) if event.what == "issue wgmma"}
        begun: set[int] = set()
        for place, event in enumerate(run.timeline):
            if event.what == "issue wgmma":
                begun.add(event.block)
            elif event.what == "meet bar" and event.detail == "the cluster's barrier" and event.block in begun and place < last[event.block]:
                return (f"warp {event.warp} of block {event.block} waits at the cluster's barrier between its products: a slot is handed back by an arrival on `empty` "
                        "of each CTA that writes into it, and nobody waits for the rest of the cluster in the loop")
        return ""
    return custom("no barrier of the cluster in the loop", complaint, accesses=True)
