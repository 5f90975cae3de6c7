# SPDX-License-Identifier: Apache-2.0
"""Blocks, their order, and liveness, by example and against slow definitions on random graphs."""

import random

import pytest

from hopperlab.emulator.ptx import cfg


def shape(graph):
    """(start, end, successors, kind) of every block."""
    return [(b.start, b.end, b.succs, b.kind) for b in graph.blocks]


def test_straight_line(kernel):
    graph = cfg.build(kernel("mov.u32 %r1, 1; unused: add.u32 %r2, %r1, 1;"))
    assert shape(graph) == [(0, 3, (), "ret")]
    assert graph.blocks[0].live_in == graph.blocks[0].live_out == frozenset()
    assert graph.block_of_label == {} and graph.block_at == {0: 0}


def test_diamond(kernel):
    graph = cfg.build(
        kernel(
            "mov.u32 %r1, %tid.x; setp.eq.u32 p, %r1, 0; @p bra ELSE; add.u32 %r2, %r1, 1; bra JOIN; ELSE: add.u32 %r2, %r1, 2;"
            "JOIN: st.global.u32 [%rd1], %r2;"
        )
    )
    assert shape(graph) == [(0, 3, (2, 1), "cond"), (3, 5, (3,), "bra"), (5, 6, (3,), "fall"), (6, 8, (), "ret")]
    assert [b.preds for b in graph.blocks] == [(), (0,), (0,), (1, 2)]
    assert graph.blocks[0].live_in == {"%rd1"}
    assert graph.blocks[1].live_in == graph.blocks[2].live_in == {"%r1", "%rd1"}
    assert graph.blocks[3].live_in == graph.blocks[2].live_out == {"%r2", "%rd1"}
    assert graph.block_of_label == {"ELSE": 2, "JOIN": 3}


def test_leaving_blocks(kernel):
    graph = cfg.build(kernel("@p exit; @q ret; @p trap; bra END; mov.u32 %r1, 1; END: exit;"))
    assert [b.kind for b in graph.blocks] == ["leave_if", "leave_if", "leave_if", "bra", "exit"]
    assert [b.succs for b in graph.blocks] == [(1,), (2,), (3,), (4,), ()]


def test_end_without_ret(module):
    function = module(".func f() { .reg .pred p; @p bra E; bar.sync 0; E: }").functions["f"]
    assert shape(cfg.build(function)) == [(0, 1, (2, 1), "cond"), (1, 2, (2,), "fall"), (2, 2, (), "end")]
    empty = cfg.build(module(".func f() { }").functions["f"])
    assert shape(empty) == [(0, 0, (), "end")]


def test_branch_table(kernel):
    graph = cfg.build(kernel("t: .branchtargets A, B, A; @p brx.idx %r1, t; A: bar.sync 0; B: bar.sync 1;"))
    assert graph.blocks[0].kind == "brx" and set(graph.blocks[0].succs) == {1, 2}
    graph = cfg.build(kernel("t: .branchtargets A, A; brx.idx %r1, t; bar.sync 9; A: bar.sync 0;"))
    assert shape(graph) == [(0, 1, (1,), "brx"), (2, 4, (), "ret")]


def test_extra_boundaries(kernel):
    function = kernel("mov.u32 %r1, 1; bar.sync 0; add.u32 %r1, %r1, 1; bar.sync 0;")
    before = cfg.build(function, split_before=lambda i: i.op == "bar")
    assert [(b.start, b.end) for b in before.blocks] == [(0, 1), (1, 3), (3, 5)]
    after = cfg.build(function, split_after=lambda i: i.op == "bar")
    assert [(b.start, b.end) for b in after.blocks] == [(0, 2), (2, 4), (4, 5)]
    both = cfg.build(function, lambda i: i.op == "bar", lambda i: i.op == "bar")
    assert len(both.blocks) == 5 and all(b.kind == "fall" for b in both.blocks[:4])


def test_loop_body_comes_before_what_follows_the_loop(kernel):
    body = """
    bra TEST;
    OUT: st.global.u32 [%rd1], %r1; bra DONE;
    BODY: add.u32 %r1, %r1, 1; @q bra BREAK; bar.sync 0; bra TEST;
    BREAK: mov.u32 %r1, 0; bra OUT;
    TEST: setp.lt.u32 p, %r1, 9; @p bra BODY; bra OUT;
    DONE:"""
    graph = cfg.build(kernel(body))
    at = graph.block_of_label
    assert max(at["TEST"], at["BODY"]) < min(at["BREAK"], at["OUT"]) < at["DONE"]


def test_guarded_write_keeps_the_old_value_alive(kernel):
    graph = cfg.build(kernel("mov.u32 %r1, 1; bra L; L: @p mov.u32 %r1, 2; st.global.u32 [%rd1], %r1;"))
    assert "%r1" in graph.blocks[1].live_in
    assert graph.blocks[0].live_in == {"p", "%rd1"}


def test_accumulators_live_round_a_loop(kernel):
    graph = cfg.build(
        kernel(
            "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; mov.u64 %rd1, 0; mov.u32 %r1, 0;"
            "L: wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd1, 1, 1, 1, 0, 0;"
            "add.u32 %r1, %r1, 1; setp.lt.u32 p, %r1, 4; @p bra L; st.global.f32 [%rd1], %f3;"
        )
    )
    assert graph.blocks[0].live_in == frozenset()
    assert graph.blocks[1].live_in == {"%f1", "%f2", "%f3", "%f4", "%rd1", "%r1"}
    assert graph.blocks[2].live_in == {"%f3", "%rd1"}


def test_register_results_live_at_the_return(module):
    function = module(".func (.reg .b32 r) f (.reg .b32 x) { mov.b32 r, x; bra L; L: ret; }").functions["f"]
    assert cfg.build(function).blocks[1].live_in == {"r"}


def random_text(rng, blocks):
    """A function of labelled blocks with random reads, writes and branches over few registers."""
    lines = [".entry k() { .reg .pred p, q; .reg .b32 %r<6>; .reg .b64 %rd<2>;"]
    for i in range(blocks):
        lines.append(f"L{i}:")
        for _ in range(rng.randrange(4)):
            guard = rng.choice(("", "", "@p "))
            lines.append(f"{guard}add.u32 %r{rng.randrange(6)}, %r{rng.randrange(6)}, %r{rng.randrange(6)};")
        ending = rng.randrange(6)
        target = f"L{rng.randrange(blocks)}"
        if ending < 3:
            lines.append(f"@q bra {target};")
        elif ending == 3:
            lines.append(f"bra {target};")
        elif ending == 4:
            lines.append(rng.choice(("@q exit;", "ret;", "setp.ne.u32 q, %r1, %r2;")))
    return "\n".join([*lines, "ret; }"])


def reachable(succs, start):
    """Nodes one or more edges away."""
    seen, work = set(), list(succs[start])
    while work:
        node = work.pop()
        if node not in seen:
            seen.add(node)
            work.extend(succs[node])
    return seen


def slow_live_in(function):
    """Registers live before every instruction, one instruction at a time."""
    body = function.body
    succs = []
    for i, instr in enumerate(body):
        after = [] if instr.op in ("ret", "exit", "bra") and not instr.guard else [i + 1]
        if instr.op == "bra":
            after.append(function.labels[instr.operands[0].name])
        succs.append([s for s in after if s < len(body)])
    live = [set() for _ in body]
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(body))):
            out = set().union(*(live[s] for s in succs[i]))
            new = (out - {g.name for g in body[i].dsts()}) | {g.name for g in body[i].srcs()}
            changed |= new != live[i]
            live[i] = new
    return live


@pytest.mark.parametrize("seed", range(60))
def test_random_functions(module, seed):
    rng = random.Random(seed)
    function = module(random_text(rng, rng.randrange(1, 16))).functions["k"]
    graph = cfg.build(function, split_before=(lambda i: i.index % 5 == 0) if seed % 2 else None)
    blocks = graph.blocks
    succs = [b.succs for b in blocks]
    assert [b.id for b in blocks] == list(range(len(blocks))) and blocks[0].start == 0
    assert reachable(succs, 0) | {0} == set(range(len(blocks)))
    live = slow_live_in(function)
    reach = [reachable(succs, i) for i in range(len(blocks))]
    for block in blocks:
        if block.start < block.end:
            assert block.live_in == live[block.start]
        assert block.live_out == frozenset().union(*(blocks[s].live_in for s in block.succs))
        for succ in block.succs:
            assert block.id in blocks[succ].preds
            assert succ > block.id or block.id in reach[succ], "an edge backwards that closes no loop"
    for i, found in enumerate(reach):
        loop = {j for j in found if i in reach[j]}
        assert not loop or loop == set(range(min(loop), max(loop) + 1)), "a loop is not contiguous"
