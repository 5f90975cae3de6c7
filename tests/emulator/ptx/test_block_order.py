# SPDX-License-Identifier: Apache-2.0
"""Of the sides of a branch the one further down in the source runs first, wherever a compiler has put it."""
from itertools import permutations

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.emulator.ptx import block_order
from hopperlab.emulator.ptx.parser import parse


def order(graph: dict[str, str], lines: dict[str, tuple[int, ...]], text: str) -> str:
    """The order of a graph's blocks, which stand in the text as in `text`; the first is the entry."""
    at = {name: k for k, name in enumerate(text)}
    found = block_order.of([tuple(at[s] for s in graph.get(name, "")) for name in text], [lines.get(name, block_order.NOWHERE) for name in text])
    return "".join(text[k] for k in found)


@pytest.mark.parametrize("text", ["".join(["e", *rest]) for rest in permutations("abj")])
def test_side_further_down_in_the_source_comes_first_whatever_the_text(text):
    assert order({"e": "ab", "a": "j", "b": "j"}, {"e": (1,), "a": (10,), "b": (20,), "j": (30,)}, text) == "ebaj"


@pytest.mark.parametrize("text", ["epcqx", "ecpqx", "exqpc"])
def test_side_begins_where_its_first_line_is_also_behind_blocks_without_one(text):
    # p and c only compute; q is all that p leads to alone, and x is reached by both
    assert order({"e": "pc", "p": "qx", "c": "x", "q": "x"}, {"q": (5,), "c": (7,), "x": (3,)}, text) == "ecpqx"


@pytest.mark.parametrize(("lines", "found"), [({}, "eabj"), ({"a": (4,), "b": (4,)}, "eabj"), ({"b": (4,)}, "ebaj"), ({"a": (4, 2), "b": (4, 9)}, "ebaj")])
def test_sides_of_no_line_stay_in_the_order_of_the_text_behind_those_that_have_one(lines, found):
    assert order({"e": "ab", "a": "j", "b": "j"}, lines, "eabj") == found


@pytest.mark.parametrize(("text", "found"), [("exb", "exb"), ("ebx", "ebx")])
def test_side_that_ends_where_it_is_written_has_left_before_the_others_go_on(text, found):
    assert order({"e": "xb"}, {"b": (9,)}, text) == found


def test_loops_stay_together_and_go_before_what_follows_them():
    graph = {"e": "h", "h": "abx", "a": "h", "b": "h"}
    assert order(graph, {"a": (3,), "b": (4,), "x": (90,)}, "ehabx") == order(graph, {"a": (3,), "b": (4,), "x": (90,)}, "exbha") == "ehbax"


HEAD = '.version 8.6\n.target sm_90a\n.address_size 64\n.file 1 "two.cu"\n.visible .entry k(.param .u64 p) {\n.reg .pred %p<4>;\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n'


def test_a_block_begins_where_it_touches_memory_or_others():
    text = HEAD + """.loc 1 3 1
mov.u32 %r1, 5;
ld.param.u64 %rd1, [p];
.loc 1 9 1
st.global.u32 [%rd1], %r1;
.loc 1 7 1
bar.sync 0;
ret; }"""
    body = parse(text).functions["k"].body
    assert block_order.begin(body) == (7,) and block_order.begin(body[:3]) == (9,) and block_order.begin(body[:2]) == block_order.NOWHERE


STORE = "PRODUCER: .loc 1 10 1\nst.shared.u32 [tile], %r1;\nbra DONE;"
LOAD = "CONSUMER: .loc 1 20 1\nld.shared.u32 %r2, [tile];\n.loc 1 21 1\nst.global.u32 [%rd1], %r2;\nbra DONE;"


@pytest.mark.parametrize("swapped", [False, True])
def test_report_of_a_broken_kernel_is_the_same_whichever_side_stands_first_in_the_ptx(swapped):
    one, other = (LOAD, STORE) if swapped else (STORE, LOAD)
    branch = "@!%p1 bra CONSUMER;\nbra PRODUCER;" if one is STORE else "@%p1 bra PRODUCER;\nbra CONSUMER;"
    text = HEAD.replace("{\n", "{\n.shared .align 4 .b32 tile;\n", 1) + f"""ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 32;
{branch}
{one}
{other}
DONE: ret; }}"""
    y = np.zeros(1, np.uint32)
    with hl.emulate(hazards="collect") as run:
        hl.RawModule(ptx=text, backend="emulator", name="two").get_function("k")((1,), (64,), (y,))
    assert [(h.kind, h.where.line, h.other and h.other.line) for h in run.hazards if h.kind == "race"] == [("race", 10, 20)]
