# SPDX-License-Identifier: Apache-2.0
"""Answers to the small exercises: what kind is asked for is said in a sentence, and a right number of another type is as good as an int."""
import re
from importlib import import_module

import numpy as np
import pytest
from hopperlab.checking.python_answers import AnswerFailed, run
from hopperlab.lessons.given import Unfit, function, told, whole, wholes

CONSUMER = {"threads": 384, "rows of C": 128, "stage bytes": 32768, "full arrivals": 1, "empty arrivals": 2, "consumer registers": 232}
SLICE = {"start": 0x500, "stride": 32, "swizzle": 2, "second k-step": 0x502}
PANELS = {"start": 0x600, "leading": 256, "stride": 64, "swizzle": 1, "second k-step": 0x680}
COUNTS = {"TMA bytes": 262144, "wgmma": 64, "wavefronts": 3072}


def split(s, blocks, k):
    return s * k // blocks


def row(rank, rows, cols):
    return sum(1 << rank // cols * cols + c for c in range(cols))


def column(rank, rows, cols):
    return sum(1 << r * cols + rank % cols for r in range(rows))


UNFIT = [
    ("l07_tma_stores", "check_split_k", (split, 0, 4096), "reduced_bytes is 4096, and a function is asked for"),
    ("l07_tma_stores", "check_split_k", (lambda s, blocks, k: s * k / blocks, 0, lambda blocks: 4096 * blocks), "first(1, 4, 50) returned 12.5"),
    ("l07_tma_stores", "check_split_k", (lambda s: s, 0, lambda blocks: 4096), "first(0, 1, 40) raised TypeError"),
    ("l08_wgmma", "check_descriptor", (SLICE | {"start": "0x500"},), "start is '0x500', and a whole number"),
    ("l08x_wgmma_operands", "check_mn_descriptor", (PANELS | {"leading": "256"},), "leading is '256', and a whole number"),
    ("l09_multistage", "check_later_release", (2, "i - 2", 3), "released is 'i - 2', and a function is asked for (lambda i: …)"),
    ("l09_multistage", "check_later_release", (2.5, lambda i: i - 2, 3), "wait is 2.5, and a whole number"),
    ("l09_multistage", "check_later_release", (2, lambda i: (i - 2) % 3, 3), "gives the tiles 2, 0, 1, 2 for the steps 4, 5, 6, 7"),
    ("l09x_profiling", "check_counts", (COUNTS | {"wgmma": "64"},), "wgmma is '64', and a whole number"),
    ("l10_warp_specialization", "check_second_consumer", (CONSUMER | {"threads": "384"},), "threads is '384', and a whole number"),
    ("l11_setmaxnreg", "check_registers", ("24", 240), "producer is '24', and a whole number"),
    ("l12_clusters", "check_masks", (3, column), "mask_a is 3, and a function is asked for"),
    ("l12_clusters", "check_masks", (lambda *at: bin(row(*at)), column), "mask_a(0, 2, 1) returned '0b1'"),
    ("l12_clusters", "check_masks", (lambda rank, *at: row(rank, *at) & ~(1 << rank), column), "the CTA that loads it needs it, too"),
    ("l12_clusters", "check_masks", (lambda *at: 1 << 17, column), "a mask has 16 bits"),
]

FIT = [
    ("l07_tma_stores", "check_split_k", (split, 0.0, lambda blocks: np.int64(4096 * blocks)), "Right for 1, 3, 4 and 7 blocks"),
    ("l08_wgmma", "check_descriptor", (SLICE | {"stride": 512 / 16, "swizzle": np.int64(2)},), "result right"),
    ("l08x_wgmma_operands", "check_mn_descriptor", (PANELS | {"leading": 4096 / 16},), "where TMA left it: right"),
    ("l09x_profiling", "check_counts", (COUNTS | {"wgmma": 64.0},), "wgmma: right, 64"),
    ("l10_warp_specialization", "check_second_consumer", (CONSUMER | {"consumer registers": (504 - 40) / 2},), "Right: three warpgroups"),
    ("l11_setmaxnreg", "check_registers", (24, (504 - 24) / 2), "Right: 24 + 2 x 240"),
    ("l12_clusters", "check_masks", (lambda *at: np.uint16(row(*at)), column), "Right: in every shape"),
]


@pytest.mark.parametrize(("room", "check", "answers", "says"), UNFIT, ids=lambda value: value if isinstance(value, str) else "")
def test_an_answer_of_another_kind_is_told_what_is_asked_for(room, check, answers, says):
    assert says in getattr(import_module(f"hopperlab.lessons.{room}"), check)(*answers)


@pytest.mark.parametrize(("room", "check", "answers", "says"), FIT, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.sampled(every=2)
def test_a_right_number_of_another_type_is_right(room, check, answers, says):
    assert says in getattr(import_module(f"hopperlab.lessons.{room}"), check)(*answers)


@pytest.mark.parametrize("value", ["3", None, 2.5, [3], float("nan"), float("inf")])
def test_what_is_no_whole_number_is_unfit(value):
    with pytest.raises(Unfit, match="^n is .*, and a whole number is asked for"):
        whole("n", value)


def test_unanswered_names_stay_unanswered():
    assert wholes({"a": 2.0, "b": None}, ("a", "b", "c")) == {"a": 2, "b": None, "c": None}


def test_a_function_that_raises_is_told_with_its_call():
    with pytest.raises(Unfit, match=re.escape("f(1, 0) raised ZeroDivisionError")):
        function("f", lambda a, b: a // b, "lambda a, b: …")(1, 0)


def test_only_what_is_unfit_becomes_a_sentence():
    @told
    def check(value):
        return str(1 // whole("n", value))

    assert check("x").startswith("n is 'x'") and check(1) == "1"
    with pytest.raises(ZeroDivisionError):
        check(0)


def test_a_python_answer_that_uses_the_notebooks_names_is_told_why_they_are_missing():
    with pytest.raises(AnswerFailed, match="name 'wgmma' is not defined .line 2 of the cell.* run by itself"):
        run("def f(x):\n    return wgmma.encode(x)\n", "f", [(1,)])
