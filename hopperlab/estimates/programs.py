# SPDX-License-Identifier: Apache-2.0
"""From what each warp did (trace.py) to programs that sm.py runs: warps of a warpgroup that do the same become one actor, blocks become costs."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from ..emulator.ptx.instruction_operands import Reg, Vec
from . import trace as T
from .boards import Board
from .l2_and_memory import store_parts
from .costs import BACK, PRECISE, Cost, Priced, alone, precise, priced
from .trace import Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..emulator.ptx.ir import Instr
    from .sample import Sample

COMPUTE = 100        # (COMPUTE, Cost, instructions, warps): spans of the program that stand one after the other, as (first, behind the last)
COUNTED = (T.ARRIVE, T.CP_ARRIVE, T.NAMED, T.CLUSTER)      # entries that say of how many lanes they are
WARP = 32
NEAR = 16.0          # issue slots between a wait and an arrival that ptxas moves with it
PREDICATED = 7       # instructions of the machine that a branch skips at most, and no other branch, if ptxas makes predicates of it
PIECE = 256.0        # issue slots after which others get their turn,
STORED = 1000.0      # and bytes of each warp's stores
BETWEEN = 40.0       # issue slots between products that follow each other, at most
SLIVER = 2.0         # issue slots of an arrival itself
ROWS = 2             # of a product that a thread has
SPARED = 0.3         # of integer arithmetic, what the pipe for floats does in kernels whose lanes move all data: multiplications, and moves, shifts and sums as such
MANY, MANY_ALONE = 80, 90      # maxima of a block, of more than which more chains of them cost time beside others: where products of two groups are under way, and of one


@dataclass
class Actor:
    """Warps that go together. slot: of their CTA among the sampled ones; first, warps: which of it; steps: entries of trace.py and COMPUTE, each with its warps last;
    multiplies: by wgmma; turns: in turn with other warpgroups; followed: steps that are products behind which, without turns, others follow at once;
    split: takes maxima in several chains (`_split`) while others do, too; beside: how many others of its CTA multiply as it does; crowded: one of three or more that hand
    over one group of products a turn; output: what cut.py makes of them."""

    slot: int
    first: int
    warps: int
    steps: list[Step]
    output: tuple[int, float, float] | None = None
    multiplies: bool = False
    turns: bool = False
    followed: frozenset[int] = frozenset()
    split: bool = False
    beside: int = 0
    crowded: bool = False


def asked_at_once(actor: Actor) -> float:
    """Bytes that an actor loads before it waits for anybody."""
    first = next((k for k, step in enumerate(actor.steps) if step[0] == T.WAIT and step[3] > 0), len(actor.steps))
    return float(sum(step[2] for step in actor.steps[:first] if step[0] == T.LOAD))


def programs(sample: Sample, board: Board) -> list[Actor]:
    """All actors of a sample."""
    pricer, width = Pricer(sample, board), sample.machine.warps
    actors = []
    for slot in range(len(sample.ctas)):
        traces = sample.trace.warps[slot * width:(slot + 1) * width]
        for first in range(0, width, 4):
            groups = together(traces[first:first + 4])
            if sample.lanes is not None and sample.lanes.alone and len(groups) > 1:
                groups = [(_leads(groups), groups[0][1]), *groups[1:]]
            for start, merged in groups:
                steps = pricer.steps(merged)
                if sample.done < 1:
                    steps.insert(len(steps) // 2, (T.MARK,))
                multiplies = any(step[0] == T.WGMMA for step in steps)
                turns = multiplies and any(step[0] == T.NAMED and step[4] > 4 * WARP for step in steps)
                actors.append(Actor(slot, first + start, max((n for _, n in merged), default=1), steps, multiplies=multiplies, turns=turns))
    if sum(actor.multiplies for actor in actors) <= len(sample.ctas):
        return actors
    split = max(_split(sample.machine.body[start:end]) for start, end in sample.machine.translation.spans)
    others = sum(actor.multiplies for actor in actors) // len(sample.ctas) - 1
    return [_beside_others(actor, split, others) if actor.multiplies else actor for actor in actors]


def _leads(groups: list[tuple[int, list[tuple[Step, int]]]]) -> int:
    """Of the warps of a warpgroup that go together, the one from which on they follow each other, if they do: each is on a part of the SM of its own. groups: theirs
    first, then those of others alone."""
    others = {start for start, _ in groups[1:]}
    mine = [warp for warp in range(4) if warp not in others]
    return next((warp for warp in mine if (warp - 1) % 4 in others and all((warp + k) % 4 in mine for k in range(len(mine)))), groups[0][0])


def _beside_others(actor: Actor, split: int, others: int) -> Actor:
    """One of several actors that multiply. split: how many maxima they take in several chains; of two of them that take turns, one multiplies while the other takes
    maxima, and of three that hand over two groups a turn they are kept apart by the time of both."""
    followed = _followed(actor.steps)
    many = split > (MANY if followed else MANY_ALONE)
    if actor.turns:
        return replace(actor, split=many and others != 1, crowded=others > 1 and not followed, beside=others)
    return replace(actor, followed=followed, split=many, beside=others)


def _split(block: Sequence[Instr]) -> int:
    """Maxima that are taken in more chains than a thread of a warpgroup has rows; 0 where they are not."""
    maxima = [i for i in block if i.op == "max" and i.mods[-1] == "f32"]
    written = {reg.name for i in maxima for reg in i.dsts()}
    return len(maxima) * (sum(written.isdisjoint(reg.name for reg in i.srcs()) for i in maxima) > ROWS)


def _followed(steps: list[Step]) -> frozenset[int]:
    """Products of groups that are handed over one behind the other, without a wait for any, but the last of them."""
    found: list[int] = []
    mine, groups, closed, slots = list[int](), 0, True, 0.0
    for place, step in enumerate([*steps, (T.PRODUCTS,)]):
        slots += step[1].issue if step[0] == COMPUTE else 0.0
        if step[0] == T.WGMMA:
            mine, groups, closed, slots = [*mine, place], groups + closed, False, 0.0
        elif step[0] not in (COMPUTE, T.COMMIT, T.WAIT, T.ARRIVE) or slots > BETWEEN:
            found += mine[:-1] if groups > 1 else []
            mine, groups, closed, slots = [], 0, True, 0.0
        closed = closed or step[0] == T.COMMIT
    return frozenset(found)


def together(traces: list[list[Step]]) -> list[tuple[int, list[tuple[Step, int]]]]:
    """Traces of a warpgroup's warps as (first warp, entries with the number of warps that make each): one list where the shorter ones are parts of the longest, or
    where all multiply at the same places."""
    traces = [_whole_warps(trace) for trace in traces]
    longest = max(range(len(traces)), key=lambda k: len(traces[k]))
    counts, more = [1] * len(traces[longest]), dict[int, int]()
    left = []
    for k, other in enumerate(traces):
        if k == longest:
            continue
        places = _inside(other, traces[longest])
        if places is None:
            left.append((k, [(entry, 1) for entry in other]))
            continue
        for place, entry in zip(places, other, strict=True):
            counts[place] += 1
            if entry[0] == T.ARRIVE:                     # by other lanes than those of the longest: one has arrived elsewhere
                more[place] = more.get(place, 0) + entry[3] - traces[longest][place][3]
    if left:
        parts = [_parts(trace) for trace in traces]
        seen = min(map(len, parts)) - 1
        if seen and all(len({part[-1][:2] for part in some}) == 1 for some in zip(*(mine[:seen] for mine in parts))):
            ends = 1 if len(set(map(len, parts))) == 1 else 0        # of a sample that is cut, warps may have come to different places
            return [(longest, [entry for some in zip(*(mine[:seen + ends] for mine in parts)) for entry in _woven(some)])]
    whole = [(*entry[:3], entry[3] + more[k] / counts[k], *entry[4:]) if more.get(k) else entry for k, entry in enumerate(traces[longest])]
    return [(longest, list(zip(whole, counts, strict=True))), *left]


def _whole_warps(trace: list[Step]) -> list[Step]:
    """A trace in which lanes that came to a named barrier one after the other come with the last of them, and wait for it once."""
    found: list[Step | None] = []
    parted: dict[tuple[int, int], int] = {}              # barriers at which some lanes of the warp are: where that is told
    for entry in trace:
        if entry[0] == T.NAMED and entry[3] < WARP:
            before = parted.pop(entry[1:3], None)
            if before is not None:
                entry, found[before] = (*entry[:3], entry[3] + found[before][3], *entry[4:]), None          # type: ignore[index]
            if entry[3] < WARP:
                parted[entry[1:3]] = len(found)
        elif entry[0] == T.NAMED_WAIT and found and found[-1] == entry:
            continue
        found.append(entry)
    return [entry for entry in found if entry is not None]


def _parts(trace: list[Step]) -> list[list[Step]]:
    """A trace up to each of its products, and the rest."""
    ends = [k + 1 for k, entry in enumerate(trace) if entry[0] in (T.WGMMA, T.PRODUCTS)]
    return [trace[start:end] for start, end in zip([0, *ends], [*ends, len(trace)], strict=True)]


def _key(entry: Step) -> Step:
    """What tells entries apart that several warps make."""
    return entry[:4] if entry[0] in COUNTED else entry[:3]


def _woven(parts: Sequence[list[Step]]) -> list[tuple[Step, int]]:
    """Short pieces of several warps as one, each entry with the number of warps that make it; what the longest lacks is where others have it."""
    longest = max(range(len(parts)), key=lambda k: len(parts[k]))
    whole, counts = list(parts[longest]), [1] * len(parts[longest])
    for k, part in enumerate(parts):
        if k == longest:
            continue
        moved = 0                                        # what was put into `whole` by this part
        for way, start, end, first, last in SequenceMatcher(None, list(map(_key, whole)), list(map(_key, part)), autojunk=False).get_opcodes():
            if way == "equal":
                for place, entry in zip(range(start + moved, end + moved), part[first:last], strict=True):
                    counts[place] += 1
                    if entry[0] == T.WAIT and entry[3] < whole[place][3]:
                        whole[place] = entry             # what it found was further than what it waited for
            else:
                whole[start + moved:start + moved] = part[first:last]
                counts[start + moved:start + moved] = [1] * (last - first)
                moved += last - first
    return list(zip(whole, counts, strict=True))


def _inside(part: list[Step], whole: list[Step]) -> list[int] | None:
    """Where the entries of `part` stand in `whole`, in order; None where one of them does not."""
    places, at, end = [], 0, len(whole)
    for entry in part:
        key = entry[:3]
        while at < end and whole[at][:3] != key:
            at += 1
        if at == end:
            return None
        places.append(at)
        at += 1
    return places


def _holds(instr: Instr) -> bool:
    """Whether ptxas moves no wait over an instruction: a barrier of lanes that are not known before."""
    return instr.op == "bar" and "warp" in instr.mods and isinstance(instr.operands[0], Reg)


class Pricer:
    """Costs of pieces of basic blocks, each worked out once."""

    def __init__(self, sample: Sample, board: Board):
        self.body, self.spans = sample.machine.body, sample.machine.translation.spans
        board = board.having(alu_spared=SPARED) if sample.lanes is not None and sample.lanes.alone else board
        self.counts, self.board = sample.counts, board.having(store_parts=store_parts(sample, board)) if sample.apart else board
        blocks = Counter(entry[2] for warp in sample.trace.warps for entry in warp if entry[0] == T.BLOCK)
        self._runs = {at: often for block, often in blocks.items() for at in range(*self.spans[block])}
        self._known: dict[tuple[int, int], tuple[Cost, list[Priced]]] = {}
        self._merged: dict[tuple[tuple[tuple[int, int], ...], int], list[Step]] = {}
        self._computed: dict[tuple[int, int, int], list[Step]] = {}
        self.labels = sample.machine.translation.function.labels
        self._joins = {self.labels[self.body[at].operands[0].name] for at in range(len(self.body)) if self._turns(at)}

    def piece(self, start: int, end: int) -> tuple[Cost, list[Priced]]:
        """What instructions from `start` to before `end` cost together, and each of them."""
        known = self._known.get((start, end))
        if known is None:
            runs = [priced(i, self._counted(i, at), self.board, self._turns(at)) for at, i in enumerate(self.body[start:end], start)
                    if not (i.op == "wgmma" and i.mods[0] in ("mma_async", "wait_group"))]
            known = self._known[(start, end)] = sum((one.cost for one in runs), Cost()), runs
        return known

    def each(self) -> list[Cost]:
        """What each instruction of the program costs."""
        return [priced(i, self._counted(i, at), self.board, self._turns(at)).cost for at, i in enumerate(self.body)]

    def _counted(self, instr: Instr, at: int) -> Mapping[str, int]:
        """What an instruction cost; lanes of a warp that had come apart in the emulator are one request on the chip."""
        counts, runs = self.counts.get(instr.index, {}), self._runs.get(at, 0)
        for way in ("load", "store"):
            more = counts.get(f"global_{way}_requests", 0) - runs
            if runs and more > 0:                                # sectors that two parts touch are touched once
                counts = {**counts, f"global_{way}_requests": runs, f"global_{way}_sectors": max(runs, counts[f"global_{way}_sectors"] - more)}
        return counts

    def alone(self, spans: tuple[tuple[int, int], ...]) -> list[float]:
        """How long a warp takes for instructions that stand together, if it meets no other: by span of them."""
        again = [BACK if after[0] <= before[0] else 0.0 if after[0] in self._joins else None for before, after in pairwise(spans)]
        return alone([self.piece(*span)[1] for span in spans], [*again, None], self.board)

    def _turns(self, at: int) -> bool:
        """Whether an instruction is a branch in the machine code, too."""
        branch = self.body[at]
        if branch.op != "bra" or branch.guard is None:
            return False
        skipped = self.body[at + 1:self.labels[branch.operands[0].name]]
        return sum(PRECISE if precise(i) else 1 for i in skipped) > PREDICATED or any(i.op == "bra" and i.guard is not None for i in skipped)

    def steps(self, merged: list[tuple[Step, int]]) -> list[Step]:
        """Entries as steps: what is computed before an event stands before it."""
        out: list[Step] = []
        at, end, warps, floor = 0, 0, 1, 0
        early: tuple[int, int] | None = None            # behind a wait that was moved, and the steps when it was
        moved, closed = False, 0                        # whether products were begun there since, and the steps when the last one was
        for entry, count in merged:
            if entry[0] == T.BLOCK:
                self._compute(out, at, end, warps)
                if end and (self.body[end - 1].op == "bra" or any(map(_holds, self.body[at:end]))):
                    floor = len(out)
                (at, end), warps = self.spans[entry[2]], count
                continue
            start, at = at, min(max(self._place(entry, at, end), at), end)
            self._compute(out, start, at, warps)
            if any(map(_holds, self.body[start:at])):
                floor = len(out)
            if early and entry[0] == T.WGMMA and self._free(entry[1], out[early[0]:]):
                out.insert(early[0], (*entry, count))
                early, moved, closed = (early[0] + 1, len(out)), True, len(out)
                continue
            if early and moved and entry[0] == T.PRODUCTS:        # what ends their group stands with them
                commits = [step for step in out[closed:] if step[0] == T.COMMIT]
                out[closed:] = [step for step in out[closed:] if step[0] != T.COMMIT]
                out[early[0]:early[0]] = commits
            if entry[0] == T.PRODUCTS:
                place = self._amid(out, early[0]) if early and moved else self._early(out, floor)
                out.insert(place, (*entry, count))
                early, moved = (place + 1, len(out)) if place < len(out) - 1 else None, False
            else:
                out.append((*entry, count))
                early = _behind(out, *early) if early and entry[0] == T.ARRIVE else None
                moved = moved and early is not None
            floor = len(out)
        self._compute(out, at, end, warps)
        return self._pieces(out)

    def _pieces(self, steps: list[Step]) -> list[Step]:
        """Steps in which what the same warps compute one after the other is one, as long as it is short."""
        out: list[Step] = []
        ends: list[Step] = [(T.BLOCK,)]
        steps = [step for before, step, after in zip(ends + steps, steps, steps[1:] + ends, strict=False) if not _sliver(before, step, after)]
        for (computes, warps), some in groupby(steps, lambda step: (step[0] == COMPUTE, step[-1])):
            if not computes:
                out.extend(some)
                continue
            out.extend(self._one_after_the_other(tuple(step[2] for step in some), warps))
        return out

    def _one_after_the_other(self, spans: tuple[tuple[int, int], ...], warps: int) -> list[Step]:
        """What the same warps compute without anything between, in pieces."""
        known = self._merged.get((spans, warps))
        if known is None:
            known = self._merged[spans, warps] = []
            for span, cycles in zip(spans, self.alone(spans), strict=True):
                cost = replace(self.piece(*span)[0], alone=cycles)
                begins = not known or cost.stored and not 0 < known[-1][1].stored <= STORED
                if not begins and (known[-1][1].issue + cost.issue < PIECE or cycles < max(cost.issue, cost.alu, cost.special)):
                    known[-1] = (COMPUTE, known[-1][1] + cost, (*known[-1][2], span), warps)
                else:
                    known.append((COMPUTE, cost, (span,), warps))
        return known

    def _early(self, out: list[Step], floor: int) -> int:
        """Where ptxas puts a wait for products: as early as it may, over arithmetic that does not use them, but over no memory and no branch. The machine code of
        attention/forward.cu has the wait for the values before the softmax that stands before it in the source."""
        at = len(out)
        while at > floor and out[at - 1][0] == COMPUTE and not (out[at - 1][1].port or out[at - 1][1].loaded or out[at - 1][1].stored):
            at -= 1
        return at

    def _amid(self, out: list[Step], since: int) -> int:
        """Where ptxas puts the wait for products that it has begun early: in the middle of what is computed since, as in the machine code of
        attention/forward_fp8.cu (WIDE=64), so that what needs them fills its gaps."""
        half = sum(step[1].issue for step in out[since:] if step[0] == COMPUTE) / 2
        for place, step in enumerate(out[since:], since):
            if step[0] != COMPUTE:
                continue
            if half <= step[1].issue:
                (start, end), warps = step[2:]
                at = start
                while at < end and half > 0:
                    half, at = half - self.piece(at, at + 1)[0].issue, at + 1
                out[place:place + 1] = [(COMPUTE, self.piece(*span)[0], span, warps) for span in ((start, at), (at, end)) if span[0] < span[1]]
                return place + int(start < at)
            half -= step[1].issue
        return len(out)

    def _free(self, index: int, since: list[Step]) -> bool:
        """Whether a product may begin before what was computed `since`: A lies in registers that were not written."""
        operand = self.body[index].operands[1]
        reads = {reg.name for reg in operand.items if isinstance(reg, Reg)} if isinstance(operand, Vec) else set()
        return bool(reads) and all(reads.isdisjoint(one.writes) for step in since if step[0] == COMPUTE for one in self.piece(*step[2])[1])

    def _place(self, entry: Step, at: int, end: int) -> int:
        """The instruction of an entry in the rest of its block; `end` for one that stands at the head of the next."""
        if entry[1] >= 0:
            return entry[1] if at <= entry[1] < end else end
        wanted = {T.COMMIT: ("commit_group",), T.GROUPS: ("wait_group", "wait_all", "read"), T.CLUSTER: ("arrive",)}.get(entry[0], ())
        return next((i.index for i in self.body[at:end] if i.op in ("cp", "barrier") and any(m in i.mods for m in wanted)), end)

    def _compute(self, out: list[Step], start: int, end: int, warps: int) -> None:
        if start >= end:
            return
        known = self._computed.get((start, end, warps))
        if known is None:
            cost, runs = self.piece(start, end)
            known = [(COMPUTE, cost, (start, end), warps)] if cost.issue or cost.chain or any(one.turns for one in runs) else []
            known += [(T.COMMIT, -1, "wgmma", warps)] * sum(i.op == "wgmma" and i.mods[0] == "commit_group" for i in self.body[start:end])
            self._computed[start, end, warps] = known
        out.extend(known)


def _sliver(before: Step, step: Step, after: Step) -> bool:
    """What fewer warps compute, nearly nothing, between what all of them do: an arrival's own instruction, of which ptxas makes no branch."""
    return before[0] == step[0] == after[0] == COMPUTE and bool(step[1].issue <= SLIVER and step[-1] < before[-1] == after[-1])


def _behind(out: list[Step], place: int, since: int) -> tuple[int, int] | None:
    """Moves an arrival behind a wait that was moved to before `place` when there were `since` steps, if nearly nothing is computed between the two: what is read no more
    is handed back at once. Where the next one may go to."""
    more = out[since:]
    if sum(step[1].issue for step in more if step[0] == COMPUTE) > NEAR:
        return None
    del out[since:]
    out[place:place] = more
    return place + len(more), len(out)
