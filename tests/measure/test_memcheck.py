# SPDX-License-Identifier: Apache-2.0
"""memcheck over the kernels, with a stand-in for the tool: what counts as clean, what is told when it is not, and what the stored recording covers."""
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.machine import here
from hopperlab.measure.profile import exact_allocations, memcheck, overrun, step as profile_step
from hopperlab.measure import recordings
from hopperlab.runtime.tensor_map import TensorMap
from hopperlab.runtime.compile.toolchain import KERNELS

LINE = "hopperlab.measure.profile.step final 8 8 8"
FINAL = memcheck.Target("final", ("8", "8", "8"), tuple(LINE.split()))
NOTHING = "========= ERROR SUMMARY: 0 errors"
RAN = f"kernels on the GPU: gemm/final.cu\n{NOTHING}"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a program named compute-sanitizer on the PATH that prints `says` and its command line, and ends with `code`; overruns find an error."""
    def make(says: str, code: int = 0):
        path = tmp_path / "compute-sanitizer"
        path.write_text(f"#!{sys.executable}\nimport sys\novers = 'hopperlab.measure.profile.overrun' in sys.argv\n"
                        f"print('========= ERROR SUMMARY: 1 error' if overs else {says!r}, sys.argv[1:])\nsys.exit(9 if overs else {code})\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(here, "no_gpu", lambda what: None)
        monkeypatch.setattr(memcheck, "query", lambda field: {"memory.free": ["81079"]}[field])
        return str(path)
    return make


@pytest.mark.parametrize(("says", "code", "errors", "outcome"), [
    (RAN, 0, 0, "clean"), (NOTHING, 0, 0, "launched no kernel"), (f"{RAN}", 1, None, "did not finish"), ("which step?", 2, None, "did not finish"),
    ("kernels on the GPU: gemm/final.cu\n========= ERROR SUMMARY: 3 errors", 9, 3, "3 errors"), (f"15 skipped in 2.10s\n{NOTHING}", 0, 0, "skipped"),
    (f"1 passed, 15 skipped in 2.10s\n{NOTHING}", 0, 0, "launched no kernel")])
def test_only_a_program_that_launched_and_ended_well_without_errors_is_clean(tool, says, code, errors, outcome):
    found = memcheck.check(FINAL, tool(says, code))
    assert (found.errors, found.outcome, found.clean) == (errors, outcome, outcome == "clean")
    words = [word.strip("[]',") for word in found.text.splitlines()[-1].split()]
    assert "--tool memcheck --report-api-errors no" in " ".join(words) and " ".join(words).endswith(f"-m hopperlab.measure.profile.exact_allocations {LINE}")


@pytest.mark.parametrize(("cores", "free_mib", "jobs"), [(32, 81079, 8), (8, 81079, 6), (32, 143000, 14), (8, 9000, 1), (1, 81079, 1), (4, 100, 1)])
def test_as_many_processes_as_cores_and_the_gpu_s_memory_hold(cores, free_mib, jobs):
    assert memcheck.jobs_here(cores, free_mib) == jobs


def test_the_number_of_processes_is_that_of_this_machine_unless_it_is_given(tool, monkeypatch):
    seen = []
    monkeypatch.setattr(memcheck, "measure", lambda chosen, path, jobs: seen.append(jobs) or ([], {target: memcheck.Checked(0, RAN) for target in chosen}))
    monkeypatch.setattr(memcheck.os, "cpu_count", lambda: 32)
    tool(RAN)
    memcheck.main(["naive"])
    memcheck.main(["naive", "--jobs", "3"])
    assert seen == [8, 3]


def test_what_this_machine_cannot_run_is_told_and_counted_apart(tool, capsys):
    tool(f"15 skipped in 2.10s\n{NOTHING}")
    assert memcheck.main(["naive"]) == 0
    assert "naive 264 520 136: skipped" in (out := capsys.readouterr().out) and "0 clean, 0 not, 2 skipped" in out


def test_a_launch_that_hangs_is_not_clean(tmp_path):
    path = tmp_path / "tool"
    path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    path.chmod(0o755)
    assert memcheck.check(FINAL, str(path), 0.5).outcome == "did not finish"


def test_every_shape_of_a_step_is_told(tool, capsys):
    tool(RAN)
    assert memcheck.main(["naive", "final"]) == 0
    assert "final 128 256 64: clean (gemm/final.cu)" in capsys.readouterr().out
    tool("kernels on the GPU: a/b.cu\nInvalid __global__ write\n========= ERROR SUMMARY: 1 error", 9)
    assert memcheck.main(["naive"]) == 1
    out = capsys.readouterr().out
    assert "naive 264 520 136: 1 error" in out and "Invalid __global__ write" in out and "0 clean, 2 not" in out


def test_a_tool_that_does_not_find_an_ordinary_overrun_says_nothing(tool, capsys, monkeypatch):
    tool(RAN)
    monkeypatch.setattr(overrun, "COPIES", {})
    assert memcheck.main(["naive"]) == 1
    assert "2 clean, 0 not; an ordinary store past the end was not found" in capsys.readouterr().out


def test_what_did_not_finish_runs_once_more(tmp_path, tool, capsys, monkeypatch):
    """A stand-in that fails at its first launch of a step, and not at its second; the record says which try it was."""
    monkeypatch.setattr(memcheck, "header", lambda: dict.fromkeys(recordings.HEADER_FIELDS, "x"))
    path, mark = Path(tool(RAN)), tmp_path / "failed"
    path.write_text(path.read_text().replace("import sys\n", f"import sys, pathlib\nmark = pathlib.Path({str(mark)!r})\n", 1).replace(
        "sys.exit(", "first = '520' in sys.argv and not mark.exists()\n_ = first and mark.touch()\nsys.exit(7 if first else ", 1))
    assert memcheck.main(["naive", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert [r.note for r in recordings.load("memcheck", tmp_path)][-2:] == ["second try: gemm/final.cu", "gemm/final.cu"]
    out = capsys.readouterr().out
    assert "naive 264 520 136: did not finish" in out and "once more, alone:\n[1/1] naive 264 520 136: clean (gemm/final.cu)" in out and "2 clean, 0 not" in out


def test_files_of_tests_run_as_they_are_meant_to(tmp_path):
    """One target a file; a folder stands for all of its files."""
    for name in ("test_b.py", "test_a.py", "help.py"):
        (tmp_path / name).touch()
    found = list(memcheck.targets([], [tmp_path / "test_b.py"], [tmp_path]))[len(overrun.COPIES):]
    assert [(Path(target.options[0]).name, target.line[:3]) for target in found] == [
        ("test_b.py", ("pytest", "-m", "gpu")), ("test_a.py", ("pytest", "--differential", "-q")), ("test_b.py", ("pytest", "--differential", "-q"))]
    said = memcheck.Checked(0, f"12 passed in 3.00s\nkernels on the GPU: b/c.cu\nkernels on the GPU: a/b.cu, b/c.cu\n{NOTHING}")
    assert said.kernels == ("a/b.cu", "b/c.cu") and said.note == "12 passed: a/b.cu, b/c.cu"


def test_what_was_found_is_recorded(tool, monkeypatch, tmp_path):
    monkeypatch.setattr(memcheck, "header", lambda: dict.fromkeys(recordings.HEADER_FIELDS, "x"))
    tool("kernels on the GPU: a/b.cu\n========= ERROR SUMMARY: 2 errors", 9)
    assert memcheck.main(["fp8", "--out", str(tmp_path)]) == 1
    found = [(r.kernel, r.options, r.outcome) for r in recordings.load("memcheck", tmp_path)]
    assert found[:3] == [("overrun", (how,), "1 error") for how in overrun.COPIES]
    assert found[3:] == [("fp8", ("264", "520", "144"), "2 errors"), ("fp8", ("128", "256", "128"), "2 errors")]


NOT_YET = {"h200": {"fp8/grouped_tall.cu"}, "h100": set()}       # by board


@pytest.mark.parametrize("board", ["h200", "h100"])
def test_every_kernel_was_clean_on_the_gpu(board):
    """The stored recording: every step and capstone on every shape, and every kernel file of these rooms. What an ordinary store overran was found."""
    found = recordings.load("memcheck", board=board)
    outcomes = {(r.kernel, r.options): r.outcome for r in found}
    assert {(step, sizes) for step, all_sizes in memcheck.SHAPES.items() for sizes in all_sizes} <= set(outcomes)
    assert outcomes.pop(("overrun", ("vector_copy",))) == "1 error"
    assert {outcome for (kernel, _), outcome in outcomes.items() if kernel != "overrun"} <= {"clean", "skipped"}
    launched = {name for r in found if r.outcome == "clean" for name in r.note.rpartition(": ")[2].split(", ")}
    files = {path.relative_to(KERNELS).as_posix() for room in ("copy", "gemm", "fp8", "attention", "micro") for path in (KERNELS / room).glob("*.cu")}
    assert files - launched == NOT_YET[board], "written since the recording was made; `make gpu-memcheck` takes them out of NOT_YET"


def test_what_is_missing_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(here, "gpu", lambda: None)
    assert memcheck.main([]) == 2 and "memcheck needs a Hopper GPU" in capsys.readouterr().err
    monkeypatch.setattr(here, "no_gpu", lambda what: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert memcheck.main([]) == 2 and "compute-sanitizer is not on the PATH" in capsys.readouterr().err
    for wrong, said in ((["fastest"], "no step fastest; there are naive"), (["--tests", "tests/none.py"], "no such file or folder: tests/none.py")):
        with pytest.raises(SystemExit):
            memcheck.main(wrong)
        assert said in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
def test_arrays_get_allocations_of_their_own(monkeypatch, capsys):
    """With a stand-in for CuPy: its pool is switched off, and PyTorch's, before the module runs."""
    allocators = []
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(set_allocator=allocators.append)))
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "0")
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    with pytest.raises(SystemExit, match="0"):
        exact_allocations.main(["hopperlab.measure.profile.step", "tma_wgmma", "8"])
    assert allocators == [None] and os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"
    assert capsys.readouterr().out.endswith(f"{exact_allocations.LAUNCHED}\n")             # nothing: it ran in the emulator


def test_the_line_of_kernels_is_what_memcheck_reads():
    line = exact_allocations.told(["b/c.cu", "kernel.cu", "a/b.cu", "b/c.cu"])
    assert memcheck.Checked(0, f"before\n{line}\nafter").kernels == ("a/b.cu", "b/c.cu")


@pytest.mark.parametrize("how", overrun.COPIES)
def test_the_emulator_names_what_memcheck_is_shown(how):
    """The three overruns, there: the last 16 bytes of the target's 8192 lie behind its allocation."""
    source, held = np.ones((64, 64), np.uint16), np.zeros(4096 - overrun.PAST // 2, np.uint16)
    launch = overrun.COPIES[how](source, np.zeros_like(source), backend="emulator")
    if how == "tma_copy":
        there = TensorMap.tiled(held[:63 * 64].reshape(63, 64), box=(63, 64), dtype="bfloat16")
        args = launch.args[0], TensorMap(replace(there.fields, global_dim=(64, 64), box_dim=(64, 64)), held, there.place)
    else:
        args = launch.args[0], held, *launch.args[2:]
    with pytest.raises(hl.MemoryFault, match="past the end of argument 2"):
        launch.kernel(launch.grid, launch.block, args, shared_mem=launch.shared_mem)


def test_a_step_takes_one_size_or_three(monkeypatch, capsys):
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    assert profile_step.main(["tma_wgmma", "8", "16", "24"]) == 0
    assert profile_step.main(["tma_wgmma", "8", "16"]) == 2 and "one size or m, n and k, not 2 numbers" in capsys.readouterr().err
