"""memcheck over the ladder, with a stand-in for the tool: what counts as clean, and what is told when it is not."""
import os
import stat
import sys

import pytest

from hopperlab.measure import bench, memcheck, profile_step, recordings


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Puts a program named compute-sanitizer on the PATH that prints `says` and ends with `code`."""
    def make(says: str, code: int = 0):
        path = tmp_path / "compute-sanitizer"
        path.write_text(f"#!{sys.executable}\nimport sys\nprint({says!r}, sys.argv[1:])\nsys.exit({code})\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(bench, "no_gpu", lambda: None)
        return str(path)
    return make


@pytest.mark.parametrize(("says", "code", "errors"), [("========= ERROR SUMMARY: 0 errors", 0, 0), ("========= ERROR SUMMARY: 3 errors", 9, 3),
                                                      ("========= ERROR SUMMARY: 0 errors", 1, None), ("which step?", 2, None)])
def test_only_a_summary_without_errors_of_a_program_that_ended_well_is_clean(tool, says, code, errors):
    found = memcheck.check(["final", "8", "8", "8"], tool(says, code))
    assert found.errors == errors and found.clean == (errors == 0)
    assert "'--tool', 'memcheck', '--report-api-errors', 'no'" in found.text and "'hopperlab.measure.profile_step', 'final', '8', '8', '8'" in found.text


def test_a_launch_that_hangs_is_not_clean(tmp_path):
    path = tmp_path / "tool"
    path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    path.chmod(0o755)
    assert memcheck.check([], str(path), 0.5).errors is None


def test_every_shape_of_a_step_is_told(tool, capsys):
    tool("========= ERROR SUMMARY: 0 errors")
    assert memcheck.main(["naive", "final"]) == 0
    assert "[4/4] final 128 256 64: clean" in capsys.readouterr().out
    tool("Invalid __global__ write\n========= ERROR SUMMARY: 1 error", 9)
    assert memcheck.main(["naive"]) == 1
    out = capsys.readouterr().out
    assert "[1/2] naive 264 520 136: 1 error" in out and "Invalid __global__ write" in out and "0 launches clean, 2 not" in out


def test_what_was_found_is_recorded(tool, monkeypatch, tmp_path):
    monkeypatch.setattr(memcheck, "header", lambda: dict.fromkeys(recordings.HEADER_FIELDS, "x"))
    tool("========= ERROR SUMMARY: 2 errors", 9)
    assert memcheck.main(["fp8", "--out", str(tmp_path)]) == 1
    assert [(r.kernel, r.options, r.outcome) for r in recordings.load("memcheck", tmp_path)] == [
        ("fp8", ("264", "520", "144"), "2 errors"), ("fp8", ("128", "256", "128"), "2 errors")]


def test_every_kernel_of_the_ladder_was_clean_on_the_gpu():
    """The stored recording: each step and both capstones, on every shape."""
    found = recordings.load("memcheck")
    assert {(r.kernel, r.options) for r in found} == {(step, sizes) for step, all_sizes in memcheck.SHAPES.items() for sizes in all_sizes}
    assert {r.outcome for r in found} == {"clean"}


def test_what_is_missing_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench, "no_gpu", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert memcheck.main([]) == 2 and "compute-sanitizer is not on the PATH" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        memcheck.main(["fastest"])
    assert "no step fastest; there are naive" in capsys.readouterr().err


def test_a_step_takes_one_size_or_three(monkeypatch, capsys):
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    assert profile_step.main(["tma_wgmma", "8", "16", "24"]) == 0
    assert profile_step.main(["tma_wgmma", "8", "16"]) == 2 and "one size or m, n and k, not 2 numbers" in capsys.readouterr().err
