# SPDX-License-Identifier: Apache-2.0
"""Every mechanism has a compared cell that nbval sees fail when a kernel is mutated: mutations.toml, applied one by one."""

from pathlib import Path

import pytest

pytest.importorskip("nbval", reason="nbval comes with the lab extra")
import hopperlab as hl
from hopperlab.authoring.notebooks import build, mutations
from hopperlab.authoring.stamps import cell_flow
from hopperlab.authoring.stamps.cell_flow import needed
from hopperlab.authoring.notebooks.mutations import Mutation, MutationError
from hopperlab.runtime.compile import toolchain

FILE = Path(__file__).with_name("mutations.toml")
LISTED = mutations.read(FILE)
pytestmark = pytest.mark.skipif(hl.backend() == "gpu", reason="broken kernels are run in the emulator only: HOPPERLAB_BACKEND=emulator")


@pytest.mark.parametrize("mutation", LISTED, ids=lambda mutation: mutation.name)
@pytest.mark.sampled(every=125, ci=3)
def test_nbval_fails_on_the_compared_cell(mutation):
    assert mutations.outcome(mutation, mutation.lesson, mutation.cell, mutation.needs), "nbval does not notice"


def test_the_lessons_that_are_covered_have_several_each():
    by_lesson = {lesson: [m for m in LISTED if m.lesson == lesson] for lesson in {m.lesson for m in LISTED}}
    assert {"00", "03", "05"} <= set(by_lesson) and all(len(found) >= 2 for found in by_lesson.values())


ENTRY = {"mechanism": "m", "lesson": "05", "cell": "first-load", "file": "copy/tma_copy.cu", "find": "fence_proxy_async_shared_cta();", "into": ""}


def changed(**facts):
    return Mutation(**ENTRY | facts)


@pytest.mark.parametrize("facts, message", [
    ({"find": "no such text"}, "occurs 0 times"), ({"find": "mbarrier_init(&full, 1);"}, "occurs 2 times"), ({"file": "copy/none.cu"}, "no kernel file 'copy/none.cu'"),
    ({"into": "no_such_function();"}, "no_such_function"), ({"lesson": "77"}, "no lesson '77'"), ({"cell": "nowhere"}, "no code cell 'nowhere'"),
    ({"cell": "panel"}, "nbval does not compare"), ({"file": "", "in_cell": "bulk", "find": "flat.size", "into": "0"}, "does not run 'bulk'")])
def test_an_entry_that_does_not_apply_is_named(facts, message):
    mutation = changed(**facts)
    with pytest.raises(MutationError, match=message):
        mutations.outcome(mutation, mutation.lesson, mutation.cell)


def test_a_change_that_changes_nothing_is_not_noticed():
    assert mutations.outcome(changed(into="fence_proxy_async_shared_cta(); // the same"), "05", "first-load") == ""


def test_the_kernels_themselves_stay_as_they_are():
    before = hl.kernel_source("copy/tma_copy.cu")
    mutations.outcome(changed(), "05", "first-load")
    assert hl.kernel_source("copy/tma_copy.cu") == before and str(build.hashes.PACKAGE) in toolchain.include_directories()[0]


@pytest.mark.parametrize("text, message", [
    ("[[mutation]]\nmechanism='m'", "needs"), ("[[mutation]]\nmechanism='m'\nlesson='05'\ncell='c'\nfind='a'\ninto='b'", "either file or in_cell"),
    ("[[mutation]]\nmechanism='m'\nlesson='05'\ncell='c'\nfile='f'\nfind='a'\ninto='b'\nfound='x'", "unknown"),
    ("[[mutation]]\nmechanism='m'\nlesson='05'\ncell='c'\nfile='f'\nfind='a'\ninto='b'\n" * 2, "named twice")])
def test_a_bad_list_is_named(tmp_path, text, message):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(MutationError, match=message):
        mutations.read(tmp_path / "m.toml")


def test_names_of_a_comprehension_are_its_own_in_every_python():
    one, = cell_flow.statements("c", "table = {way: [x for x in ways if way in {x for x in kept}] for way in ways}")
    assert (one.data, one.used) == ({"table"}, {"ways", "kept"})


def test_only_the_cells_that_are_needed_run():
    sources = {"setup": "import numpy as np\nx = {}", "unused": "y = np.zeros(3)", "one": "def f():\n    return x['a']", "fill": "x['a'] = np.ones(2)", "late": "x = 3",
               "target": "print(f())", "after": "x = 4"}
    assert needed(sources, "target") == ["setup", "one", "fill", "target"]
    assert needed(sources, "target", ["unused"]) == ["setup", "unused", "one", "fill", "target"]


def test_outputs_are_compared_as_nbval_does():
    stream = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    ran = mutations.run(["a = 1", "print(a)\na + 1"])
    assert ran == [stream, {"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}}]
    assert mutations.compare(ran, ran) == ""
    assert "'1" in mutations.compare([stream | {"text": "2\n"}], [stream]) and mutations.compare([], [stream]) and mutations.compare([stream], [])
