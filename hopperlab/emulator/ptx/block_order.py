# SPDX-License-Identifier: Apache-2.0
"""The order of a kernel's blocks, in which threads run that a branch has parted: whoever stands at the lowest goes first (machine/scheduler.py).

Of the sides of a branch the one goes first that stands further down in the source. Compilers lay out their blocks as they like, and what a broken kernel
does depends on who comes first: by this rule its report is the same whichever of them made its PTX. Why further down: consumers are written after their
producers, and one that comes before what it should wait for shows that it does not.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from .graphs import components
from .instructions import INSTRUCTIONS
from .ir import Instr

Lines = tuple[int, ...]
Key = Callable[[int, int], tuple[int, ...]]
NOWHERE: Lines = ()
HEARD = frozenset({"memory", "async_copy", "tensor", "mbarrier", "barrier", "warp"})      # compilers leave these on their side, and move arithmetic about
NOT_HEARD = frozenset({"param", "const", "local"})


def of(succs: Sequence[tuple[int, ...]], begins: Sequence[Lines]) -> list[int]:
    """Reachable blocks: forward edges downwards, loops contiguous. succs: of each block in the order of the text; begins: where in the source it begins.

    Where that leaves a choice, as between the sides of a branch, the side comes first that begins further down; of each counts what the others do not
    lead to. A side that only ends, and stands before the others, is gone first. Sides that begin at one line, and behind them those of which no line is
    known, stay in the order of the text.
    """
    text = _order(succs, lambda _, after: (after,))
    by_line = sorted((block for block in text if begins[block] != NOWHERE), key=begins.__getitem__)
    rank = {block: k for k, block in enumerate(by_line)}
    reach: dict[int, int] = {}                            # what one leads to without going back: a bit for each block that has lines
    ahead: dict[int, list[int]] = {}
    for block in reversed(text):
        ahead[block] = [after for after in succs[block] if after in reach]
        reach[block] = 1 << rank[block] if block in rank else 0
        for after in ahead[block]:
            reach[block] |= reach[after]

    def key(block: int, after: int) -> tuple[int, ...]:
        own = reach.get(after, 0)
        for other in ahead[block]:
            own &= -1 if other == after else ~reach[other]
        if not succs[after] and not reach[after] and all(after < other for other in ahead[block] if other != after):
            return (-1, after)                            # an exit that stands where it is written, not a jump to the end: who leaves there has left
        return (0, *(-line for line in begins[by_line[(own & -own).bit_length() - 1]]), after) if own else (1, after)
    return _order(succs, key)


def begin(instrs: Sequence[Instr]) -> Lines:
    """Where in the source these begin: of those that touch memory, barriers or other threads the first line, and behind it the lines inside what is called there."""
    return min((tuple(frame.line for frame in instr.site.chain) for instr in instrs if instr.site is not None and instr.site.line and _heard(instr)),
               default=NOWHERE)


def _heard(instr: Instr) -> bool:
    known = INSTRUCTIONS.get(instr.op)
    return known is not None and known.counts in HEARD and NOT_HEARD.isdisjoint(instr.mods[:1])


def _order(succs: Sequence[tuple[int, ...]], key: Key) -> list[int]:
    """Reachable blocks, forward edges downwards, loops contiguous (Bourdoncle, Efficient chaotic iteration
    strategies, 1993): topologically ordered strong components, each loop's again without the edges to its head.

    Of a block's successors the one with the greatest key(block, successor) is entered first, so that among equals the least comes first."""
    order: list[int] = []
    # Work items: (nodes allowed or None for all, entry, edges into this head are ignored)
    stack: list[tuple[set[int] | None, int, int | None]] = [(None, 0, None)]
    while stack:
        allowed, entry, head = stack.pop()
        if head is None and allowed is not None and len(allowed) == 1:
            order.append(entry)
            continue

        def inside(node: int, allowed=allowed, head=head) -> list[int]:
            found = [s for s in succs[node] if s != head and (allowed is None or s in allowed)]
            return sorted(found, key=lambda s: key(node, s), reverse=True) if len(found) > 1 else found

        # Later components go on the stack first, so that the first is expanded next.
        for component in components(entry, inside):
            first = component[0]
            if len(component) == 1 and first not in succs[first] or first == head:
                stack.append(({first}, first, None))
            else:
                stack.append((set(component), first, first))
    return order
