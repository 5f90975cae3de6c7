# SPDX-License-Identifier: Apache-2.0
"""Repair cells: the broken lines are refused and the reference is accepted, messages name the cell's lines, and the cells of the lessons are made
from the same entries."""
import hopperlab as hl
import pytest

from hopperlab.authoring.learner import learner_progress
from hopperlab.authoring.notebooks import build, lesson_source
from hopperlab.authoring.stamps.kernel_uses import digests
from hopperlab.lessons import magic, repairs
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.nvrtc import Source
from hopperlab.runtime.errors import CompileError

ALL = repairs.every()
PLANTED = sorted(path.relative_to(toolchain.KERNELS).as_posix() for path in toolchain.KERNELS.rglob("*.cu") if "BUG_" in path.read_text())
pytestmark = pytest.mark.skipif(hl.backend() == "gpu", reason="repairs are judged in the emulator only: HOPPERLAB_BACKEND=emulator")


@pytest.mark.sampled(every=10)           # the lessons' compared cells run every broken one
@pytest.mark.parametrize("lesson, name", ALL, ids=lambda word: word)
def test_broken_lines_are_refused_and_the_reference_is_accepted(lesson, name):
    repair = ALL[lesson, name]
    assert repair.broken != repair.reference
    assert repair.judge(repair.broken).startswith("Not repaired yet")
    assert repair.judge(repair.reference).startswith("Right")


def test_nearly_every_break_of_a_lesson_can_be_repaired():
    assert len(ALL) >= 40 and {lesson for lesson, _ in ALL} >= {"00", "01", "02", "03", "03x", "04", "05", "06", "07", "08", "09", "10", "12", "13", "13x",
                                                                "14", "15", "16", "16d", "16x"}


@pytest.mark.parametrize("lesson", sorted({lesson for lesson, _ in ALL}))
def test_a_lesson_shows_each_of_its_repairs_once(lesson):
    path = next(path for path in build.lesson_sources() if path.stem.split("_")[0] == lesson)
    shown = {cell.id: cell.text for cell in lesson_source.read(path).cells}
    for (number, name), repair in ALL.items():
        if number == lesson:
            assert shown[f"repair-{name}"] == f"%%repair {lesson} {name}\n{repair.broken}" and repair.reference in shown[f"text-repair-{name}"]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("path", PLANTED)
def test_the_lines_without_switches_are_the_same_program(path):
    text = hl.kernel_source(path)
    options = ("-DSCOPE=1",) if "cuda_pipeline" in path else ("-DB_MN=0",) if "operands" in path else ()
    assert digests(Source(repairs.without_bugs(text), path, options))[0] == digests(Source(text, path, options))[0] != "gone"


@pytest.mark.parametrize("switched, plain", [
    ("    if (!BUG_A) f();   // why\n", "    f();   // why\n"), ("    if (BUG_A && x % 2 == 0) f(x);\n    g();\n", "    g();\n"),
    ("if (x && !BUG_A) f();", "if (x) f();"),
    ("i < (BUG_A ? S : n);", "i < n;"), ("wait(BUG_A ? p ^ 1 : p);", "wait(p);"), ("wait<S - 2 + BUG_A>();", "wait<S - 2>();"),
    ("if (!BUG_A && (BUG_B || t == 0)) f();", "if (t == 0) f();"),
    ("  if (!BUG_A) {\n      f();\n      g();\n  } else {\n      h();\n  }\n", "  f();\n  g();\n")])
def test_switches_leave_no_trace(switched, plain):
    assert repairs.without_bugs(switched) == plain


def test_messages_name_lines_of_the_cell():
    repair = ALL["04", "parity"]
    lines = repair.reference.split("\n")
    at = next(i for i, line in enumerate(lines, 1) if "mbarrier_wait_parity(&full" in line)
    assert f"read-before-arrival at repair.cu:{at + 1}" in repair.judge("\n".join([*lines[:at - 1], "", *lines[at:]]))
    with pytest.raises(CompileError, match=rf"repair\.cu.{at}\b"):
        repair.judge("\n".join([*lines[:at - 1], "no_such_function();", *lines[at:]]))


def test_a_repair_may_be_another_than_the_reference():
    repair = ALL["03", "shallow"]
    assert repair.judge(repair.reference.replace("cp_async_wait_group<STAGES - 2>()", "cp_async_wait_all()")).startswith("Right")
    assert hl.kernel_source(repair.file) == toolchain.read_source(toolchain.KERNELS / repair.file)


def test_a_kernel_that_ends_itself_is_told(monkeypatch):
    repair = ALL["02", "swizzle"]
    assert repair.judge(repair.reference.replace("__syncthreads();", "__trap();")).startswith("Not repaired yet. Copies land lazy: trap")


def test_a_warning_that_is_left_is_told():
    repair = ALL["00", "kernel-4"]
    verdict = repair.judge(repair.reference.replace("fence_proxy_async_shared_cta();", ""))
    assert verdict.startswith("Not repaired yet. Copies land lazy: the values are right; a warning is left: unfenced-overwrite at repair.cu:"), verdict


def test_the_magic(capsys):
    magic.repair("02 swizzle", ALL["02", "swizzle"].reference)
    assert capsys.readouterr().out.startswith("Right: ")
    for line, message in (("02", "Usage: %%repair LESSON NAME"), ("02 nothing", "lesson 02 has no repair 'nothing'; it has: swizzle"), ("77 x", "it has: none")):
        with pytest.raises(repairs.RepairError, match=message):
            magic.repair(line, "")


def test_an_entry_that_does_not_fit_its_kernel_is_named():
    entry = dict(name="x", file="mbarrier/ring.cu", begin="Ring<STAGES> ring;", end="ring.advance();", bug=(("no such text", ""),),
                 run=lambda landing: (True, None), hint="")
    with pytest.raises(repairs.RepairError, match="has 0 places with 'no such text'"):
        repairs.Repair(**entry).broken  # noqa: B018 - the lines are worked out when asked for
    with pytest.raises(repairs.RepairError, match="no lines from 'nowhere'"):
        repairs.Repair(**entry | {"begin": "nowhere"}).span()


@pytest.mark.parametrize("fence, message", [("```repair id=nothing\n```", "lesson 02 has no repair 'nothing'"), ("```repair id=swizzle\nx\n```", "has lines of its own")])
def test_a_source_with_a_wrong_repair_is_named(tmp_path, fence, message):
    path = tmp_path / "02_x.md"
    path.write_text(f"---\ntitle: t\nminutes: 1\n---\n# T\n\n{fence}\n")
    with pytest.raises(lesson_source.SourceError, match=message):
        lesson_source.read(path)


def test_a_repair_counts_as_solved_when_it_says_right():
    cell = {"id": "repair-x", "cell_type": "code", "source": "%%repair 02 swizzle\n", "execution_count": 3,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "Right: the values\n"}]}
    assert learner_progress.says_right(cell)
    assert not learner_progress.says_right(cell | {"outputs": [{"output_type": "stream", "name": "stdout", "text": "Not repaired yet. Copies land lazy\n"}]})
