# SPDX-License-Identifier: Apache-2.0
"""Instructions that a compiler has moved (a load hoisted in front of a branch, for instance) stand at line 0: they belong to no one line any more. For reports they are
given the line of what comes next in their block of instructions, else of what came before."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ir import Function, Site

ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})


def give(function: Function) -> None:
    """Fill in `near` where a line is missing and the block has one."""
    body = function.body
    if all(i.site is None or i.site.line for i in body):
        return
    heads = set(function.labels.values()) | {k + 1 for k, i in enumerate(body) if i.op in ENDS}
    for order, first in ((range(len(body) - 1, -1, -1), 1), (range(len(body)), 0)):
        near: Site | None = None
        for k in order:
            if (k + first) in heads:
                near = None
            site = body[k].site
            if site is not None and site.line:
                near = site
            elif site is not None and body[k].near is None:
                body[k].near = near
