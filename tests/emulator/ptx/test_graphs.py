# SPDX-License-Identifier: Apache-2.0
"""Strong components and dominators, by their definitions on random graphs."""

import random

import pytest

from hopperlab.emulator.ptx import graphs


def reach(entry, successors, without=None):
    """What a walk from `entry` that never enters `without` reaches."""
    seen, todo = set(), [entry]
    while todo:
        node = todo.pop()
        if node not in seen and node != without:
            seen.add(node)
            todo.extend(successors(node))
    return seen


@pytest.fixture(params=range(40))
def graph(request):
    """Successors of up to 14 nodes, some of which node 0 does not reach, with edges from a node to itself."""
    draw = random.Random(request.param)
    count = draw.randint(1, 14)
    return [[draw.randrange(count) for _ in range(draw.randint(0, 3))] for _ in range(count)]


def test_components_are_mutually_reachable_and_come_after_what_they_lead_to(graph):
    found = graphs.components(0, graph.__getitem__)
    reached = {node: reach(node, graph.__getitem__) for node in range(len(graph))}
    assert sorted(node for part in found for node in part) == sorted(reached[0])
    place = {node: k for k, part in enumerate(found) for node in part}
    for a in reached[0]:
        for b in reached[0]:
            assert (place[a] == place[b]) == (a in reached[b] and b in reached[a])
            if b in reached[a]:
                assert place[b] <= place[a]


def test_a_component_begins_where_it_was_entered():
    assert graphs.components(0, {0: [2], 2: [1], 1: [2, 3], 3: []}.__getitem__) == [[3], [2, 1], [0]]
    assert graphs.components(0, {0: [2, 1], 1: [], 2: []}.__getitem__) == [[2], [1], [0]]
    assert graphs.components(0, {0: [1, 2], 1: [], 2: []}.__getitem__) == [[1], [2], [0]]


def test_dominators_are_what_every_way_passes(graph):
    above = graphs.dominators(0, graph.__getitem__)
    everything = reach(0, graph.__getitem__)
    assert set(above) == everything
    for node in everything:
        assert above[node] == {d for d in everything if d == node or node not in reach(0, graph.__getitem__, without=d)}


def test_a_long_chain_needs_no_recursion():
    length = 20_000
    chain = [[n + 1] for n in range(length)] + [[0]]
    assert len(graphs.components(0, chain.__getitem__)) == 1
    short = [[n + 1] for n in range(1500)] + [[]]
    assert len(graphs.dominators(0, short.__getitem__)[1500]) == 1501
