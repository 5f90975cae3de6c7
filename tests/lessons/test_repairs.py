# SPDX-License-Identifier: Apache-2.0
"""Repair cells: the broken lines are refused and the reference is accepted, messages name the cell's lines, and the cells of the lessons are made
from the same entries."""
import re
from dataclasses import replace
from types import SimpleNamespace

import hopperlab as hl
import pytest
from support.kept_launches import kept_launches

from hopperlab.authoring.learner import learner_progress
from hopperlab.authoring.notebooks import build, lesson_source
from hopperlab.authoring.stamps.kernel_uses import digests
from hopperlab.lessons import magic, repairs
from hopperlab.runtime import library
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.nvrtc import Source
from hopperlab.runtime.errors import CompileError

ALL = repairs.every()
PLANTED = sorted(path.relative_to(toolchain.KERNELS).as_posix() for path in toolchain.KERNELS.rglob("*.cu") if "BUG_" in path.read_text())
LAUNCHES: dict = {}         # several repairs mend the same lines, and each is judged beside the lesson's own kernel
pytestmark = pytest.mark.skipif(hl.backend() == "gpu", reason="repairs are judged in the emulator only: HOPPERLAB_BACKEND=emulator")


@pytest.fixture(autouse=True)
def launches_once():
    with kept_launches(LAUNCHES):
        yield


@pytest.mark.sampled(every=20, ci=2)           # the lessons' compared cells run every broken one
@pytest.mark.parametrize("lesson, name", ALL, ids=lambda word: word)
def test_broken_lines_are_refused_and_the_reference_is_accepted(lesson, name):
    repair = ALL[lesson, name]
    assert repair.broken != repair.reference
    assert repair.judge(repair.broken).startswith("Not repaired yet")
    assert repair.judge(repair.reference).startswith("Right")


def test_what_the_emulator_names_comes_before_what_ptxas_notes():
    told = ALL["15x", "wait"].judge(ALL["15x", "wait"].broken)
    assert "register-in-flight" in told and "C7513" not in told


def test_a_note_alone_is_told_and_nothing_is_right_with_it():
    def noted(landing):
        if not library._with_notes.get():
            raise hl.NoteError("a.cu compiles, but does not run as written:", "C7513: serialized")
        return True, SimpleNamespace(hazards=[], warnings=[])
    told = replace(ALL["15x", "wait"], run=noted).judge(ALL["15x", "wait"].reference)
    assert told.startswith("Not repaired yet. a.cu compiles, but does not run as written:") and "C7513" in told


def test_nearly_every_break_of_a_lesson_can_be_repaired():
    assert len(ALL) >= 40 and {lesson for lesson, _ in ALL} >= {"00", "01", "02", "03", "03x", "04", "05", "06", "07", "08", "09", "10", "12", "13", "13x",
                                                                "14", "15", "16", "16d", "16x", "17"}


@pytest.mark.parametrize("lesson", sorted({lesson for lesson, _ in ALL}))
def test_a_lesson_shows_each_of_its_repairs_once(lesson):
    path = next(path for path in build.lesson_sources() if path.stem.split("_")[0] == lesson)
    shown = {cell.id: cell.text for cell in lesson_source.read(path).cells}
    for (number, name), repair in ALL.items():
        if number == lesson:
            assert shown[f"repair-{name}"] == f"%%repair {lesson} {name}\n{repair.broken}" and repair.reference in shown[f"text-repair-{name}"]


@pytest.mark.thorough
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
    assert repair.judge(repair.reference.replace("cp_async_wait_group<STAGES - 2>()", "cp_async_wait_group<2>()")).startswith("Right")
    assert hl.kernel_source(repair.file) == toolchain.read_source(toolchain.KERNELS / repair.file)


def test_a_kernel_that_ends_itself_is_told(monkeypatch):
    repair = ALL["02", "swizzle"]
    assert repair.judge(repair.reference.replace("__syncthreads();", "__trap();")).startswith("Not repaired yet. trap")


@pytest.mark.parametrize("lesson, name", [("00", "kernel-4"), ("04", "arrive"), ("12", "counts")])
def test_a_warning_that_is_left_is_told_and_does_not_decide(lesson, name):
    repair = ALL[lesson, name]
    first, second, third = repair.judge(re.sub(r"fence_proxy_async_shared_cta\(\)[,;] ?", "", repair.reference)).split("\n", 2)
    assert first == "Right: the values are right and no hazard is named, whether copies land lazy, eager or random."
    assert second.startswith("It is accepted, and ") and third.startswith("unfenced-overwrite (warning): cp.async.bulk")


@pytest.mark.parametrize("lesson, name, kind", [("01", "barriers", "race"), ("04", "parity", "read-before-arrival"), ("05", "wait", "read-before-arrival"),
                                                ("08", "wait", "register-in-flight"), ("08", "arrival", "read-before-arrival"), ("09x", "wait", "register-in-flight")])
def test_the_hazard_that_is_explained_is_the_cause(lesson, name, kind):
    told = ALL[lesson, name].judge(ALL[lesson, name].broken).split("\n")
    explained = next(line for line in told[1:] if not line.startswith("- "))
    assert explained.startswith(f"{kind}: "), told


def test_a_race_between_warps_is_explained_before_one_of_a_warp():
    """__syncwarp() in the first place is the wrong cure, and nothing may advise it."""
    repair = ALL["01", "barriers"]
    for text in (repair.broken, repair.reference.replace("__syncthreads();", "__syncwarp();", 1)):
        told = repair.judge(text)
        assert "__syncthreads()" in told and "__syncwarp" not in told, told


def test_nothing_lands_in_a_kernel_without_copies():
    assert ALL["01", "barriers"].judge(ALL["01", "barriers"].broken).startswith("Not repaired yet. The values are right; 4 hazards named:")
    assert ALL["02", "swizzle"].judge(ALL["02", "swizzle"].reference).endswith("nothing is named, under the schedules lazy, eager and random.")


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


def told(lesson, name, lines):
    return " ".join(ALL[lesson, name].judge(lines).split())


def test_a_deadlock_lists_the_arrivals_of_the_barrier_that_is_waited_for():
    """Not those of every barrier: of a ring's `full` and `empty`, in static and in dynamic shared memory, and who has never come to an arrival."""
    assert ("mbarrier 0x1410 (empty[0]): 4 more arrivals in this phase; whoever should arrive has ended, waits itself, or never arrives "
            "(nothing arrives on it; arrivals on other mbarriers: repair.cu:7)") in told("04", "arrive", ALL["04", "arrive"].broken)
    unnamed = told("12", "counts", ALL["12", "counts"].broken)
    assert "(initialised at shared_tiles.cu:42)" in unnamed and "(initialised at shared_tiles.cu:43)" in unnamed
    assert "mbarrier 0x8400: 1 more arrival in this phase" in unnamed and "mbarrier 0x8410: 2 more arrivals in this phase" in unnamed
    assert "(arrivals on it: shared_tiles.cu:59)" in unnamed and "(arrivals on it: repair.cu:9)" in unnamed
    never = ALL["04", "arrive"].reference.replace("if (t % 32 == 0) mbarrier_arrive", "if (tiles < 0) mbarrier_arrive")
    assert "; nobody has come to repair.cu:18)" in told("04", "arrive", never)


def test_arrivals_of_all_lanes_are_counted_as_a_pass_of_all_warps():
    """4 warps x 32 lanes, not the 32 of one instruction."""
    repair = ALL["04", "arrive"]
    lines = repair.reference.replace("if (t % 32 == 0) mbarrier_arrive", "mbarrier_arrive")
    assert "arrives 32 times at once, but 4 of 4 arrivals are pending" in told("04", "arrive", lines)
    with repairs.standing_in(repair.file, repair.whole(lines)):
        _, run = repair.run("lazy")
    deadlock, = [str(hazard) for hazard in run.hazards if hazard.kind == "deadlock"]
    assert "thread 0 still waits for phase 0. It was initialised for 4 at" in deadlock and "receives 128 arrivals a pass: initialise it for 128" in deadlock


def test_a_copy_that_nobody_waits_for_names_its_mbarrier_and_phase():
    from hopperlab.checking import check
    from hopperlab.grading import regions
    from hopperlab.lessons import catalogue
    from support.answer_texts import solution_cell

    solved = regions.solution_without_stubs(solution_cell("04.2"))
    assert "ring.skip(team);" in solved
    said = str(check.judge(catalogue.every()["04.2"], solved.replace("ring.skip(team);", "")))
    assert "(full[1]), for phase 0 (parity 0), which its bytes complete, before the last thread returns; nobody has waited for any phase of it" in said


def test_a_copy_that_tells_an_mbarrier_is_not_said_to_need_a_group():
    """The pipeline of a block has no cp.async.wait_group; that of a thread has nothing else."""
    block = told("03x", "release", ALL["03x", "release"].broken)
    assert "the reader must wait on that mbarrier for the phase of this copy" in block and "wait_group" not in block
    assert "must run cp.async.wait_group deep enough" in told("03", "shallow", ALL["03", "shallow"].broken)


@pytest.mark.parametrize("lesson, name, old, new, asked", [
    ("02", "swizzle", ", SWIZZLE)", ", false)", "992 bank conflicts are back"),
    ("03", "shallow", "cp_async_wait_group<STAGES - 2>()", "cp_async_wait_group<0>()", "the wait leaves 0 tiles on the way, and 2 may stay with 4 stages"),
    ("03", "shallow", "cp_async_wait_group<STAGES - 2>()", "cp_async_wait_group<1>()", "the wait leaves 1 tile on the way"),
    ("03", "barrier", "cp_async_wait_group<STAGES - 2>()", "cp_async_wait_all()", "the wait leaves 0 tiles on the way"),
    ("06", "address", "swizzled(start + offset)", "start + swizzled(offset)", "with the tile 128 bytes behind a multiple of 1024 the values are wrong"),
    ("13", "own", "if (i == k_tiles - 1 &&", "wgmma_wait_group<0>();\nif (i == k_tiles - 1 &&", "warp 4 of block 0 tells by bar.arrive (bar 2) when 16 of the 16 wgmma"),
    ("13", "own", " && index + gridDim.x < rows * cols", "", "16 warps of block 0 arrive on bar 1 and 12 wait there"),
    ("13", "slot", "read<C_SLOTS - 1>", "read<0>", "at most 1 store is under way at once, and 4 slots have room for 4"),
    ("13", "slot", "read<C_SLOTS - 1>", "read<C_SLOTS - 2>", "at most 3 stores are under way at once"),
    ("13x", "wait", "        if (WAIT_AT == WAIT_AT_LOADS)", "        wait_for_grid_in_front(trace);\n        if (WAIT_AT == WAIT_AT_LOADS)",
     "when the producer waits for the kernel in front, it has asked for 0 tiles, and it should be 2"),
    ("18", "scatter", "wanted[i]);", "wanted[i]), cp_async_bulk_commit_group(), cp_async_bulk_wait_group_read<0>();", "at most 1 store is under way at once"),
    ("16", "slot", "wgmma_wait_group<1>();", "wgmma_wait_group<0>();", "most exponentials are taken with no product in flight"),
    ("16", "registers", "wgmma_wait_group<1>();", "wgmma_wait_group<0>();", "most exponentials are taken with no product in flight")])
@pytest.mark.sampled(by="lesson")
def test_right_values_by_another_way_than_the_lessons_are_no_repair(lesson, name, old, new, asked):
    repair = ALL[lesson, name]
    assert old in repair.reference
    assert repair.judge(repair.reference.replace(old, new)).startswith(f"Not repaired yet. The values are right and no hazard is named, but {asked}")


def test_consumers_that_take_no_turns_wait_for_phases_that_may_be_past():
    """The values are right all the same."""
    repair = ALL["13", "own"]
    said = repair.judge(repair.reference.replace("if (index != blockIdx.x) bar_sync(1 + me, 256);", ""))
    assert said.startswith("Not repaired yet. Copies land lazy: the values are right; 1 hazard named:\n- phase-overrun at repair.cu:4"), said


@pytest.mark.parametrize("lesson, name, old, new", [
    ("13", "slot", "read<C_SLOTS - 1>", "read<3>"),
    ("13", "order", "ring.skip(k_tiles);", "for (int i = 0; i < k_tiles; i++) ring.advance();"),
    ("18", "scatter", "_wait_group_read<0>", "_wait_group<0>"),
    ("18", "scatter", "wanted[i]);", "wanted[i]), cp_async_bulk_commit_group();"),
    ("13x", "wait", "wait_for_grid_in_front(trace)", "griddepcontrol_wait()"),
    ("16", "turn", "next_turn();\n                wgmma_wait_group<1>();", "wgmma_wait_group<1>();\n                next_turn();"),
    ("16", "rescale", "scale_rows(out, scales);\n                scores_to_fragments(p, s);", "scores_to_fragments(p, s);\n                scale_rows(out, scales);")])
@pytest.mark.thorough
@pytest.mark.sampled(every=3)
def test_right_repairs_in_another_style_keep_the_mechanism(lesson, name, old, new):
    repair = ALL[lesson, name]
    assert old in repair.reference
    assert repair.judge(repair.reference.replace(old, new)).startswith("Right")


@pytest.mark.parametrize("old, new, asked", [
    ("my_turn();\n", "", "the consumers' products mix"), ("scores(ring.slot);\n", "scores(ring.slot);\nnext_turn();\n", "the consumers' products mix"),
    ("scores_to_fragments(p, s);", "scores_to_fragments(p, s);\nnext_turn();", "a consumer passes its turn on after its softmax")])
@pytest.mark.sampled(every=2)
def test_a_turn_is_passed_on_between_the_products_and_the_softmax(old, new, asked):
    repair = ALL["16", "turn"]
    assert old in repair.broken
    assert repair.judge(repair.broken.replace(old, new)).startswith(f"Not repaired yet. The values are right and no hazard is named, but {asked}")


@pytest.mark.parametrize("lesson, name, old, new, asked", [
    ("00", "kernel-2", "add_mirrored(slots[s][t], slots[s][t ^ 31])",
     "add_mirrored(((const float4*)(x + tile * TILE))[t], ((const float4*)(x + tile * TILE))[t ^ 31])",
     "only 0 of this kernel's 98304 bytes go from shared memory to registers"),
    ("02", "swizzle", "tile[place(x, y, SWIZZLE)]", "in[x * 32 + y]", "only 0 of this kernel's 4096 bytes go from shared memory to registers")])
def test_data_that_goes_round_the_kernels_way_is_no_repair(lesson, name, old, new, asked):
    repair = ALL[lesson, name]
    assert old in repair.reference
    said = repair.judge(repair.reference.replace(old, new))
    assert said.startswith("Not repaired yet.") and asked in said


def test_a_shuffle_may_stand_for_a_second_read_of_shared_memory():
    repair = ALL["00", "kernel-2"]
    shuffled = ("float4 mine = slots[s][t], theirs = {__shfl_xor_sync(~0u, mine.x, 31), __shfl_xor_sync(~0u, mine.y, 31), __shfl_xor_sync(~0u, mine.z, 31), "
                "__shfl_xor_sync(~0u, mine.w, 31)};\n        reinterpret_cast<float4*>(y + tile * TILE)[t] = add_mirrored(mine, theirs);")
    line = "reinterpret_cast<float4*>(y + tile * TILE)[t] = add_mirrored(slots[s][t], slots[s][t ^ 31]);"
    assert repair.judge(repair.reference.replace(line, shuffled)).startswith("Right")


@pytest.mark.parametrize("old, new, said", [
    ("    fence_proxy_async_shared_cta();", "    ", "missing-proxy-fence"), ("__syncthreads();", "", "race"),
    ("cp_async_bulk_wait_group_read<0>();", "", "exit-in-flight"),
    ("cp_async_bulk_commit_group();", "", "exit-in-flight"), ("tile[i], 0, wanted[i]", "tile[0], 0, wanted[i]", "the values are wrong"),
    ("wanted[i]);", "wanted[0] + i);", "the values are wrong"), ("0, wanted[i]", "wanted[i], 0", "misaligned"),
    ("i < 4; i++) cp_async", "i < 3; i++) cp_async", "the values are wrong")])
def test_what_a_scatter_by_hand_lacks_is_told(old, new, said):
    repair = ALL["18", "scatter"]
    assert repair.reference.count(old) == 1
    answer = repair.judge(repair.reference.replace(old, new))
    assert answer.startswith("Not repaired yet.") and said in answer, answer


def test_four_threads_may_scatter_a_row_each():
    repair = ALL["18", "scatter"]
    each = repair.reference.replace("threadIdx.x == 0", "threadIdx.x < 4")
    each = each.replace("for (int i = 0; i < 4; i++) cp_async", "int i = threadIdx.x; cp_async")
    assert repair.judge(each).startswith("Right")
