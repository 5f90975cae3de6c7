# SPDX-License-Identifier: Apache-2.0
"""Directed graphs: strong components and dominators, for blocks of PTX (cfg.py, compile/loops.py) and of machine code (runtime/sass).

A graph is an entry and a function from a node to its successors, so that a caller hides edges and chooses the order. Without recursion:
kernels have thousands of blocks. (networkx has both, but its import takes longer than the first launch of a small kernel may wait.)
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(entry: Node, successors: Callable[[Node], Iterable[Node]]) -> list[list[Node]]:
    """Strong components of what `entry` reaches, in reverse topological order (Tarjan, Depth-first search and linear graph
    algorithms, 1972). Each begins with the node that was entered first; successors are entered in the order given."""
    index = {entry: 0}
    low = {entry: 0}
    path, on_path = [entry], {entry}
    found: list[list[Node]] = []
    walk = [(entry, iter(successors(entry)))]
    while walk:
        node, children = walk[-1]
        for child in children:
            if child not in index:
                index[child] = low[child] = len(index)
                path.append(child)
                on_path.add(child)
                walk.append((child, iter(successors(child))))
                break
            if child in on_path:
                low[node] = min(low[node], index[child])
        else:
            walk.pop()
            if walk:
                parent = walk[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == index[node]:
                at = path.index(node)
                found.append(path[at:])
                del path[at:]
                on_path.difference_update(found[-1])
    return found


def dominators(entry: Node, successors: Callable[[Node], Iterable[Node]]) -> dict[Node, set[Node]]:
    """For each node that `entry` reaches: the nodes that every way from `entry` to it passes, itself included."""
    order = _reverse_postorder(entry, successors)
    before: dict[Node, list[Node]] = {node: [] for node in order}
    for node in order:
        for child in successors(node):
            before[child].append(node)
    above = {node: set(order) for node in order}
    above[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            now = {node} | set.intersection(*(above[b] for b in before[node]))
            if now != above[node]:
                above[node], changed = now, True
    return above


def _reverse_postorder(entry: Node, successors: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """What `entry` reaches, each node before those it leads to other than by a back edge."""
    order, seen = [], {entry}
    walk = [(entry, iter(successors(entry)))]
    while walk:
        node, children = walk[-1]
        child = next((c for c in children if c not in seen), None)
        if child is None:
            order.append(walk.pop()[0])
        else:
            seen.add(child)
            walk.append((child, iter(successors(child))))
    return order[::-1]
