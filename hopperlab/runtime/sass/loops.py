# SPDX-License-Identifier: Apache-2.0
"""Loops in machine code: basic blocks from branches and labels, dominators, and the natural loop of each backward edge.

Taking the text between a label and a later branch would be wrong: ptxas puts the slow path of a wait behind the kernel's end.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...emulator.ptx.graphs import dominators

_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP", "KILL")


def loops(code: Sequence[tuple[str, str, str]], labels: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Instruction indices of every natural loop, largest first; loops with one header are one loop.

    code: (guard, opcode, operands) of each instruction. labels: index of the instruction behind each label.
    """
    starts, follow = _blocks(code, labels)
    above = dominators(0, follow.__getitem__)
    bodies: dict[int, set[int]] = {}
    before: dict[int, set[int]] = {}
    for block in above:
        for target in follow[block]:
            before.setdefault(target, set()).add(block)
    for block in above:
        for header in follow[block]:
            if header in above[block]:
                bodies.setdefault(header, set()).update(_body(block, header, before))
    ends = dict(zip(starts, [*starts[1:], len(code)], strict=True))
    found = [tuple(sorted(i for block in body for i in range(block, ends[block]))) for body in bodies.values()]
    return tuple(sorted(found, key=lambda loop: (-len(loop), loop)))


def _blocks(code: Sequence[tuple[str, str, str]], labels: Mapping[str, int]) -> tuple[list[int], dict[int, set[int]]]:
    """First instruction of each block, and the blocks that may follow each."""
    ends = [i for i, (_, opcode, _) in enumerate(code) if opcode.split(".")[0] in _ENDS]
    starts = sorted({0, *(i for i in labels.values() if i < len(code)), *(i + 1 for i in ends if i + 1 < len(code))})
    last = dict(zip(starts, [*(s - 1 for s in starts[1:]), len(code) - 1], strict=True))
    follow: dict[int, set[int]] = {}
    for start in starts:
        guard, opcode, operands = code[last[start]]
        word, nexts = opcode.split(".")[0], set()
        if word == "BRA" and (target := _TARGET.search(operands)):
            nexts.add(labels[target[1]])
        conditional = guard or "," in operands          # BRA.U UP0, `(…) and BRA.DIV UR4, `(…) may fall through
        if (word not in _ENDS or conditional) and last[start] + 1 < len(code):
            nexts.add(last[start] + 1)
        follow[start] = {n for n in nexts if n < len(code)}
    return starts, follow


def _body(block: int, header: int, before: Mapping[int, set[int]]) -> set[int]:
    """Blocks from which `block` is reached without passing `header`, with both."""
    body, todo = {header}, [block]
    while todo:
        at = todo.pop()
        if at not in body:
            body.add(at)
            todo.extend(before.get(at, ()))
    return body
