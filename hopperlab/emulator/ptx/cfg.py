# SPDX-License-Identifier: Apache-2.0
"""Control flow graph of a parsed function: basic blocks in execution order, and which registers live across them.

Block ids follow a topological order of the forward edges in which every loop is contiguous: a block's id is greater
than those of all blocks that lead to it other than by a back edge, and a loop's blocks come before the code after it.
Running the lowest id first therefore brings diverged threads back together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from . import block_order
from .ir import Function, Instr

_LEAVES = frozenset({"ret", "exit", "trap"})
_RETURNS = frozenset({"ret", "leave_if", "end"})
_ENDS_BLOCK = _LEAVES | {"bra", "brx"}


@dataclass(slots=True)
class Block:
    """Instructions [start, end) of the body. `succs` are block ids, the branch target before the fall-through.

    `kind` says how the block ends: 'bra', 'cond' (guarded branch), 'brx', 'ret', 'exit', 'trap', 'leave_if' (guarded
    ret, exit or trap), 'fall' (into the next block) or 'end' (past the last instruction, a return).
    """

    id: int
    start: int
    end: int
    succs: tuple[int, ...] = ()
    kind: str = "fall"
    preds: tuple[int, ...] = ()
    live_in: frozenset[str] = frozenset()
    live_out: frozenset[str] = frozenset()


@dataclass(slots=True)
class Cfg:
    """The reachable blocks of a function; `blocks[i].id == i` and block 0 is the entry. `block_of_label` holds every
    label that starts a reachable block, `block_at` the block that starts at an instruction index."""

    function: Function
    blocks: list[Block] = field(default_factory=list)
    block_of_label: dict[str, int] = field(default_factory=dict)
    block_at: dict[int, int] = field(default_factory=dict)


def build(
    function: Function,
    split_before: Callable[[Instr], bool] | None = None,
    split_after: Callable[[Instr], bool] | None = None,
) -> Cfg:
    """Blocks, order and liveness of a defined function.

    `split_before` and `split_after` ask for a block boundary before or after an instruction besides those that
    branches and their targets make. Blocks that nothing reaches are left out.
    """
    starts = _boundaries(function, split_before, split_after)
    raw = _blocks(function, starts)
    order = block_order.of([block.succs for block in raw], [block_order.begin(function.body[block.start:block.end]) for block in raw])
    new_id = {old: new for new, old in enumerate(order)}
    cfg = Cfg(function)
    for old in order:
        block = raw[old]
        block.id = new_id[old]
        block.succs = tuple(new_id[s] for s in block.succs)
        cfg.blocks.append(block)
        cfg.block_at[block.start] = block.id
    _predecessors(cfg.blocks)
    for label, index in function.labels.items():
        if index in cfg.block_at:
            cfg.block_of_label[label] = cfg.block_at[index]
    _liveness(function, cfg.blocks)
    return cfg


def successors(function: Function) -> tuple[list[int], list[tuple[int, ...]]]:
    """Basic blocks in the order of the text: where each starts, and the numbers of those that follow it. Nothing is left out, and nothing said of registers."""
    starts = _boundaries(function, None, None)
    return starts, [block.succs for block in _blocks(function, starts)]


def _targets(function: Function, instr: Instr) -> tuple[str, ...]:
    if instr.op == "brx":
        return tuple(dict.fromkeys(function.branch_targets[instr.operands[1].name]))
    return (instr.operands[0].name,)


def _boundaries(function: Function, split_before, split_after) -> list[int]:
    """Sorted indices at which a block starts; 0 always is one, and len(body) when a branch goes there."""
    starts = {0}
    for instr in function.body:
        if instr.op in _ENDS_BLOCK:
            starts.add(instr.index + 1)
            if instr.op not in _LEAVES:
                starts.update(function.labels[t] for t in _targets(function, instr))
        if split_before is not None and split_before(instr):
            starts.add(instr.index)
        if split_after is not None and split_after(instr):
            starts.add(instr.index + 1)
    return sorted(starts)


def _blocks(function: Function, starts: list[int]) -> list[Block]:
    """Blocks in text order. A start at the end of the body is an empty block that returns."""
    size = len(function.body)
    number = {start: i for i, start in enumerate(starts)}
    blocks = []
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else size
        block = Block(i, start, end)
        last = function.body[end - 1] if end > start else None
        _terminate(function, block, last, number)
        blocks.append(block)
    return blocks


def _terminate(function: Function, block: Block, last: Instr | None, number: dict[int, int]) -> None:
    """Set how the block ends and where it goes, in text-order numbers."""
    after = (block.id + 1,) if block.end in number and block.end > block.start else ()
    if last is None or last.op not in _ENDS_BLOCK:
        block.kind, block.succs = ("fall", after) if after else ("end", ())
    elif last.op in _LEAVES:
        block.kind, block.succs = ("leave_if", after) if last.guard else (last.op, ())
    else:
        targets = tuple(number[function.labels[t]] for t in _targets(function, last))
        if last.op == "bra":
            block.kind = "cond" if last.guard else "bra"
        else:
            block.kind = "brx"
        block.succs = tuple(dict.fromkeys(targets + after)) if last.guard else targets


def _predecessors(blocks: list[Block]) -> None:
    preds: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for succ in block.succs:
            preds[succ].append(block.id)
    for block, found in zip(blocks, preds, strict=True):
        block.preds = tuple(found)


def _liveness(function: Function, blocks: list[Block]) -> None:
    """Backward data flow on bit sets (Python integers); sets of names are shared where equal."""
    used, defined = [], []
    returned_names = {v.name for v in function.ret if v.space == "reg"}
    for block in blocks:
        reads: set[str] = set()
        writes: set[str] = set()
        for instr in function.body[block.start : block.end]:
            for register in instr.srcs():
                if register.name not in writes:
                    reads.add(register.name)
            for register in instr.dsts():
                writes.add(register.name)
        used.append(reads)
        defined.append(writes)
    names = sorted(returned_names.union(*used))  # only what some block reads before writing can live across
    bit = {name: 1 << i for i, name in enumerate(names)}
    use = [sum(bit[n] for n in reads) for reads in used]
    keep = [~sum(bit[n] for n in writes if n in bit) for writes in defined]
    live_in = list(use)
    live_out = [0] * len(blocks)
    returned = sum(bit[name] for name in returned_names)
    changed = set(range(len(blocks)))
    while changed:
        work, changed = sorted(changed, reverse=True), set()
        for i in work:
            out = returned if blocks[i].kind in _RETURNS else 0
            for succ in blocks[i].succs:
                out |= live_in[succ]
            live_out[i] = out
            before = use[i] | (out & keep[i])
            if before != live_in[i]:
                live_in[i] = before
                changed.update(blocks[i].preds)
    known: dict[int, frozenset[str]] = {}
    for block in blocks:
        block.live_in = _names(live_in[block.id], names, known)
        block.live_out = _names(live_out[block.id], names, known)


def _names(bits: int, names: list[str], known: dict[int, frozenset[str]]) -> frozenset[str]:
    """The names whose bits are set."""
    found = known.get(bits)
    if found is None:
        digits = bin(bits)[:1:-1]  # lowest bit first
        found = known[bits] = frozenset(name for name, digit in zip(names, digits, strict=False) if digit == "1")
    return found
