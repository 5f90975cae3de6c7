# SPDX-License-Identifier: Apache-2.0
"""Whether the data went by the mechanism asked for: a second run in which only what this mechanism delivers is altered, and the result must follow.

Counters say that a mechanism was used; they do not say that anything used what it brought. A ring that nobody reads, a product that is thrown
away, loads by the back door: their counts are right, and the altered run shows them, whatever else the code does.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..emulator.machine.altered import LOADS, PRODUCTS, STORES, WAYS, Altered
from ..emulator.machine.memory import default
from ..runtime.tensor_map import TensorMap
from . import exponentials

PROGRAMS = {"ex2": exponentials.halved}
"""Ways that stand in the program itself, which is altered before it runs."""

TOLD = {
    "tma": "while the copy engine found the inputs as they are, every other load found noise in them, and the result was wrong: it comes, in part or "
           "whole, from loads of your own. Compute from what the tensor copies brought into shared memory",
    "bulk": "while the copy engine found the inputs as they are, every other load found noise in them, and the result was wrong: it comes, in part or "
            "whole, from loads of your own. Compute from what the bulk copies brought into shared memory",
    "cp.async": "while cp.async found the inputs as they are, every other load found noise in them, and the result was wrong: it comes, in part or whole, "
                "from loads of your own. Compute from what cp.async brought into shared memory",
    "wgmma": "every product of wgmma was negated, and the result did not follow: it comes, in part or whole, from other arithmetic. Store what the "
             "accumulators of wgmma hold",
    "mma": "every product of mma.sync was negated, and the result did not follow: it comes, in part or whole, from other arithmetic. Store what the "
           "accumulators of mma.sync hold",
    "ldmatrix": "the words that ldmatrix returns were enciphered, and the result did not follow: it comes, in part or whole, from other loads. Use the "
                "registers that ldmatrix filled",
    "stmatrix": "the words that stmatrix writes were enciphered, and the result did not follow: it comes, in part or whole, from other stores. Store what "
                "stmatrix put into shared memory",
    "store": "the words that the bulk stores write were enciphered, and the result did not follow: it was written, in part or whole, by other stores. Let the "
             "bulk stores write all of it, and nothing after them",
    "ld.shared": "the numbers that ld.shared returned were doubled, and the result did not follow: it comes, in part or whole, from elsewhere. Compute from what "
                 "you read from shared memory",
    "st.shared": "the numbers that st.shared wrote were doubled, and the result did not follow: it comes, in part or whole, from what went another way. Put into "
                 "shared memory by st what you read from there",
    "late stores": "whoever stores to global memory had to wait until nobody else could go on, and too little had been begun by then",
    "slow warps": "some warps went on only when nobody else could, and the others had not done by then what they can do without them",
    "ex2": "every exponential (ex2) of anything but 0 was halved, and the result did not follow: it comes, in part or whole, from other arithmetic. Compute the "
           "weights, their sum and the factor of the rescale by ex2",
    "reduce": "the reductions of some blocks took their share away instead of adding it, and the result did not follow: each block's reduction must bring the share "
              "of that block",
}
assert set(TOLD) == {*WAYS, *PROGRAMS}
UNITS = {"wgmma": "wgmma", "mma": "mma.sync"}


def _everywhere(_block: tuple[int, int, int]) -> bool:
    return True


@dataclass(frozen=True)
class Carried:
    """The result must come by `way` (one of WAYS, emulator/machine/altered.py, or of PROGRAMS).

    arrays:   of a load, the inputs that must come by it (none: those behind the tensor maps of a launch that are no outputs)
    expected: outputs of the altered run by name; None: as without, where loads are altered; negated, where products are; enciphered,
              where stores are
    blocks:   of a reduction, which blocks (blockIdx) take their share away; of slow warps, whose are slow
    to:       of a load, 'wgmma' or 'mma': what it brings is legible to this unit alone, so that the products must be its own as well
    warps:    of products and of loads and stores of shared memory: whose are altered, by number in their CTA (None: everybody's); of slow warps: which
    beside:   of those loads and stores: only while the warp holds what it has loaded from global memory
    own:      a trial of its own, whose inputs show more in the altered run than those of the exercise's shapes
    judged:   judged(run) says what is wrong with the altered run, or ''; instead of a comparison of the outputs. The run is traced with accesses
    says:     what a result that did not follow means, instead of TOLD
    kernel:   of a load, the only kernel that is altered, where another one writes the arrays; '': all
    """

    way: str
    arrays: tuple[np.ndarray, ...] = ()
    expected: Mapping[str, Any] | None = None
    blocks: Callable[[tuple[int, int, int]], bool] = _everywhere
    to: str = ""
    warps: Collection[int] | None = None
    beside: bool = False
    own: Any = None
    judged: Callable[[Any], str] | None = None
    says: str = ""
    kernel: str = ""

    @property
    def alone(self) -> bool:
        """Whether a launch must end before the next one begins, which finds other surroundings."""
        return self.way in LOADS

    @property
    def told(self) -> str:
        """What a result that did not follow means, in words that go on after 'In a second run'."""
        if not self.to:
            return self.says or TOLD[self.way]
        return (f"only {UNITS[self.to]} could read what {self.way} brought, every other instruction found it enciphered, and the result was wrong: it comes, in part "
                f"or whole, from other arithmetic. Let {UNITS[self.to]} multiply the tiles, and store what its accumulators hold")

    def altered(self, key: int) -> Altered:
        """What the emulator changes. key: draws ciphers and noise."""
        if self.way in PROGRAMS:
            return Altered(key=key)
        return Altered(self.way, self.blocks, to=self.to, key=key, warps=self.warps, beside=self.beside)

    def program(self, ptx: str) -> str:
        """The program that runs: the answer's own, or altered itself."""
        return PROGRAMS[self.way](ptx) if self.way in PROGRAMS else ptx

    def expects(self, usual: Mapping[str, Any], how: Altered) -> Mapping[str, Any]:
        """What the outputs must be in the altered run, where they are `usual` without."""
        if self.expected is not None:
            return self.expected
        if self.way in PRODUCTS:
            return {name: -np.asarray(value) for name, value in usual.items()}
        return {name: how.cipher.hide(np.asarray(value)) for name, value in usual.items()} if self.way in STORES else usual

    @contextmanager
    def around(self, how: Altered, outputs: Iterable[np.ndarray], args: Sequence[Any], kernel: str = "") -> Iterator[None]:
        """The surroundings of one launch of the altered run."""
        arrays = self._inputs(list(outputs), args) if self.way in LOADS and self.kernel in ("", kernel) else []
        with how.only_seen_by_the_engine(default(), arrays, np.random.default_rng(how.key)):
            yield

    def _inputs(self, outputs: Sequence[np.ndarray], args: Sequence[Any]) -> list[np.ndarray]:
        mapped = [arg.array for arg in args if isinstance(arg, TensorMap)]
        return [array for array in self.arrays or mapped if not any(np.shares_memory(array, output) for output in outputs)]


def first_short(events: Iterable[Any], key: Callable[[Any], Any], slow: Callable[[Any], Collection[Any]],
                owed: Callable[[Any], Mapping[Any, int]]) -> tuple[Any, int, int] | None:
    """Who had done less than `owed` when the slow ones began, how much, and how much it should be; None where nobody had. key: whose deed an event is; slow: the keys
    of the slow ones if it is one of theirs; owed: what the others owe by then."""
    done = Counter[Any]()
    for event in events:
        theirs = slow(event)
        if theirs and not any(done[one] for one in theirs):
            for other, amount in owed(event).items():
                if done[other] < amount:
                    return other, done[other], amount
        done[key(event)] += 1
    return None


def _slow_warps(run: Any, what: str, warps: Collection[int], owed: Callable[[int], Mapping[int, int]]) -> tuple[int, int, int, int] | None:
    """Block, warp, count and what it should be, of the first warp that had done less of `what` than it owes when the first of `warps` in its block began.
    owed: of a block."""
    short = first_short((event for event in run.timeline if event.what == what), lambda event: (event.block, event.warp),
                        lambda event: [(event.block, warp) for warp in warps] if event.warp in warps else (),
                        lambda event: {(event.block, warp): amount for warp, amount in owed(event.block).items()})
    return short and (*short[0], *short[1:])


def alone_ahead(warps: Collection[int], others: Mapping[int, int], ahead: int, who: str, loading: int = 0) -> Carried:
    """A run in which these warps of each CTA are slow: before they issue their first wgmma, each warpgroup of `others` (its first warp: how many wgmma it has
    to issue in all) must have issued `ahead` of them, or all. who: 'consumer warpgroup 1', in the message. loading: the same where one of these warps fills slots again,
    so that the others wait for nobody (0: `ahead`)."""
    def judged(run: Any) -> str:
        mine = [event.what for event in run.timeline if event.warp in warps and event.what in ("issue wgmma", "issue cp")]
        refills = "issue wgmma" in mine and "issue cp" in mine[mine.index("issue wgmma"):]
        amount = loading if loading and refills else ahead
        short = _slow_warps(run, "issue wgmma", warps, lambda block: {warp: min(amount, total) for warp, total in others.items()})
        return "" if short is None else ("in block {}, warp {} had issued {} wgmma when the slow one issued its first, and it should be {}".format(*short))
    return Carried("slow warps", warps=warps, judged=judged, says=(
        f"{who} went on only when nobody else could, and another one waited for it. The warpgroup that is ahead must go on as far as the slots of the ring let it. What "
        "they owe each other goes by the mbarriers of the ring, and by nothing beside them"))


def released_ahead(warps: Collection[int], others: Mapping[int, Callable[[int], int]], who: str) -> Carried:
    """A run in which these warps of each CTA are slow: before they arrive on an mbarrier for the first time, each warp of `others` (by number: how often, in a block)
    must have arrived as often as the slots of the ring let it. who: 'team 0', in the message."""
    def judged(run: Any) -> str:
        short = _slow_warps(run, "arrive mbarrier", warps, lambda block: {warp: amount(block) for warp, amount in others.items()})
        return "" if short is None else ("in block {}, warp {} had handed back {} slots when the slow one handed back its first, and it should be {}".format(*short))
    return Carried("slow warps", warps=warps, judged=judged, says=(
        f"{who} went on only when nobody else could, and others waited for it. Who consumes waits for the copy on `full` and hands back the slot on `empty`, "
        "and waits for no other consumer"))


def shared_out(output: np.ndarray, expected: np.ndarray, parts: Sequence[Any], warps: Collection[int], what: str) -> Carried:
    """A run in which these warps alone read doubled numbers from shared memory: in each of `parts` (indices of the output) some elements must become other ones, and
    some stay, since others than these warps make them. what: says whose share it is, and of what, in the message."""
    def judged(_run: Any) -> str:
        for part in parts:
            changed = np.asarray(output[part] != expected[part])[np.asarray(expected[part]) != 0]
            if changed.size > 1 and (changed.all() or not changed.any()):
                return f"of {changed.size} elements that are not 0, {int(changed.sum())} changed in a part that several warps share"
        return ""
    return Carried("ld.shared", warps=warps, judged=judged, says=(
        f"every second warp read doubled numbers from shared memory, and all of the result followed, or nothing of it: {what}"))


def own_share(changed: Callable[[], np.ndarray], parts: Sequence[Any], most: int, warp: int, what: str, wholly: Callable[[], np.ndarray] | None = None) -> Carried:
    """A run in which this warp alone reads doubled numbers from shared memory: in each of `parts` (indices of the output) some element must change.

    changed: which elements of the output have; wholly: which ones come from this warp's reads alone (None: those); of them there may be `most`.
    what: whose share it is, in the message.
    """
    def judged(_run: Any) -> str:
        found = changed()
        for part in parts:
            if not found[part].any():
                return f"the elements {_words(part)} are what they were"
        count = int((found if wholly is None else wholly()).sum())
        return f"{count} elements come from what warp {warp} read, and it should be {most} at the most" if count > most else ""
    return Carried("ld.shared", warps=(warp,), judged=judged, says=(
        f"warp {warp} of each block alone read doubled numbers from shared memory, and its share of the result did not follow, or more than its share: {what}"))


def _words(part: Any) -> str:
    """An index of slices and numbers as in a program."""
    return ", ".join(f"{one.start or 0}:{one.stop}" if isinstance(one, slice) else str(one) for one in (part if isinstance(part, tuple) else (part,)))
