# SPDX-License-Identifier: Apache-2.0
"""The `hopperlab` command."""
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE

import hopperlab
from hopperlab import cli
from hopperlab.cli import doctor
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.gpu.driver import Gpu
from hopperlab.runtime.errors import ToolchainError

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess:
    import os
    return subprocess.run([sys.executable, "-m", "hopperlab", *words], capture_output=True, text=True, timeout=120 * PATIENCE, cwd=cwd,
                          env={**os.environ, **env})


def test_version():
    assert run("--version").stdout.strip() == f"hopperlab {hopperlab.__version__}"


def test_help_names_every_command_and_each_command_has_help():
    text = run("--help").stdout
    for command in cli.COMMANDS:
        assert f"\n    {command.name} " in text
        assert command.name in run(command.name, "--help").stdout


@pytest.mark.parametrize("words", [(), ("frobnicate",), ("doctor", "--fast"), ("restore",)])
def test_a_line_that_is_not_understood_exits_with_2(words):
    result = run(*words)
    assert result.returncode == 2 and "usage: hopperlab" in result.stderr


def test_an_unknown_lesson_is_one_line_and_exit_code_2():
    result = run("restore", "77")
    assert result.returncode == 2 and result.stderr.startswith("hopperlab: no lesson '77'; there are: 00_start_here")
    assert "Traceback" not in result.stderr


def test_the_cache_can_be_shown_and_cleared(tmp_path):
    where = {"HOPPERLAB_CACHE_DIR": str(tmp_path)}
    assert f"{tmp_path}: 0 kernels" in run("cache", **where).stdout
    assert "removed 0 kernels" in run("cache", "--clear", **where).stdout


def test_doctor_fits_a_screen_and_lessons_can_run_here(tmp_path):
    result = run("doctor", HOPPERLAB_CACHE_DIR=str(tmp_path))
    assert result.returncode == 0, result.stdout
    assert len(result.stdout.splitlines()) <= 24 and "Lessons can run" in result.stdout
    for subject in ("Python", "GPU", "CuPy", "NVRTC", "place", "emulator", "disk cache"):
        assert subject in result.stdout


def test_doctor_without_a_compiler_names_the_command_and_exits_with_1(monkeypatch, capsys):
    def missing():
        raise ToolchainError(f"NVRTC cannot be loaded (gone). Install it with:\n    {toolchain.INSTALL}")
    monkeypatch.setattr(toolchain, "nvrtc_version", missing)
    assert doctor.report() == 1
    shown = capsys.readouterr().out
    assert f"-> {toolchain.INSTALL}" in shown and "Lessons cannot run yet: NVRTC" in shown


@pytest.mark.parametrize("gpu, state, words", [
    (Gpu("NVIDIA H200", (9, 0), 132, (13, 0)), "ok", "CUDA 13.0"),
    (Gpu("NVIDIA H100", (9, 0), 132, (12, 4)), "bad", "make cupy CUDA=12"),
    (Gpu("NVIDIA H100", (9, 0), 132, (11, 8)), "bad", "update the NVIDIA driver"),
    (Gpu("NVIDIA A100", (8, 0), 108, (12, 4)), "note", "the driver is older")])
def test_doctor_compares_driver_and_toolkit(gpu, state, words):
    finding = doctor._driver(gpu)
    assert finding.state == state and words in str(finding)


def test_doctor_with_a_backend_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setenv("HOPPERLAB_BACKEND", "tpu")
    finding, = doctor._place(None)
    assert finding.state == "bad" and "unset HOPPERLAB_BACKEND" in str(finding)


def test_doctor_names_what_went_wrong_in_a_small_launch(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the launch broke\nin two lines")
    from hopperlab.runtime import emulated
    monkeypatch.setattr(emulated, "launch", broken)
    finding = doctor._run("emulator")
    assert finding.state == "bad" and finding.text == "RuntimeError: the launch broke"


def test_doctor_started_by_a_notebook_does_not_miss_jupyterlab(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None if name == "jupyterlab" else object())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    assert doctor._packages().state == "bad"
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    assert doctor._packages().state == "ok" and "this one runs" in doctor._packages().text


def test_doctor_with_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOPPERLAB_CACHE_DIR", str(tmp_path / "file" / "below"))
    finding = doctor._disk_cache()
    assert finding.state == "note" and "HOPPERLAB_CACHE_DIR" in finding.remedy


def test_doctor_says_where_lessons_and_copies_are_and_misses_a_course(tmp_path, monkeypatch):
    from hopperlab.authoring import hashes
    from hopperlab.authoring.learner import workspace
    from hopperlab.runtime import installing
    lessons, exercises = (len(list((hashes.ROOT / folder).glob("[0-9]*.ipynb"))) for folder in ("notebooks", "exercises"))
    assert doctor._course().state == "ok" and f"{lessons} lessons, {exercises} exercise notebooks" in doctor._course().text and lessons >= 30 and exercises >= 21
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workspace, "CARRIED", tmp_path / "lib" / "hopperlab" / "course")
    missing = doctor._course()
    assert missing.state == "bad" and "no course found" in missing.text and missing.remedy == installing.course()


@pytest.mark.parametrize("clone, expected", [(True, ("-c constraints.txt -e .[lab]", "-c constraints.txt numpy")),
                                             (False, ('install "hopperlab[lab]"', "install numpy"))])
def test_remedies_name_what_is_there(tmp_path, monkeypatch, clone, expected):
    from hopperlab.runtime import installing
    monkeypatch.setattr(installing, "ROOT", ROOT if clone else tmp_path)
    assert expected[0] in installing.course("lab") and expected[1] in installing.package("numpy")


def test_installation_says_how_far_it_is():
    from hopperlab.authoring.shipping import pip_progress
    times = iter(range(0, 100, 2))
    lines = ["Collecting a", "  Downloading a-1.0-py3-none-any.whl (12.0 MB)", "Collecting b", "Collecting c", "  Downloading nvidia_nvrtc-13.0.88-py3.whl (90.2 MB)",
             "Collecting d", "Installing collected packages: a, b, c, d", "Successfully installed a b c d"]
    assert list(pip_progress.told(lines, clock=lambda: next(times))) == ["    2 packages found so far", "    downloading nvidia_nvrtc, 90.2 MB",
                                                                         "    unpacking 4 packages"]


def test_installation_ends_as_pip_does(capfd):
    from hopperlab.authoring.shipping import pip_progress
    assert pip_progress.main(["install", "--no-index", "no-such-package-here"]) != 0
    assert "no-such-package-here" in capfd.readouterr().err


def test_an_option_misspelt_before_the_script_names_the_one_that_was_meant(tmp_path):
    done = run("sanitize", "--sedes", "3", "script.py", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("usage: hopperlab sanitize") and "did you mean --seeds?" in done.stderr


@pytest.mark.parametrize("words, near", [(("--sedes", "3"), "--seeds"), (("--schedule=lazy",), "--schedules"), (("--jsn", "out"), "--json")])
def test_a_misspelt_option_of_sanitize_is_not_passed_on(tmp_path, words, near):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv)")
    result = run("sanitize", "script.py", *words, cwd=tmp_path)
    assert result.returncode == 2 and f"did you mean {near}?" in result.stderr and "sys.argv" not in result.stdout


def test_options_of_the_scripts_own_are_passed_on(tmp_path):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:])")
    assert "['--size', '3']" in run("sanitize", "script.py", "--size", "3", "--schedules", "lazy", cwd=tmp_path).stdout
    assert "['--sedes', '3']" in run("sanitize", "script.py", "--schedules", "lazy", "--", "--sedes", "3", cwd=tmp_path).stdout


@pytest.mark.parametrize("command", ["sanitize", "profile"])
def test_usage_errors_name_the_script(command):
    result = run(command)
    assert result.returncode == 2 and re.search(rf"usage: hopperlab {command} \[-m\] SCRIPT.py\S* \[its arguments\] \[options\]",
                                                result.stderr) and "which script?" in result.stderr


def test_doctor_notices_a_full_disk(tmp_path, monkeypatch):
    from collections import namedtuple
    monkeypatch.setenv("HOPPERLAB_CACHE_DIR", str(tmp_path))
    assert doctor._disk_cache().state == "ok"
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: namedtuple("usage", "free")(3_000_000))
    full = doctor._disk_cache()
    assert full.state == "note" and "its disk is full (3 MB left)" in full.text and "HOPPERLAB_CACHE_DIR" in full.remedy


def test_one_kernel_is_one_kernel():
    from hopperlab.runtime.tables import counted
    assert [counted(n, "launch", "launches") for n in (0, 1, 2)] == ["0 launches", "1 launch", "2 launches"] and counted(1, "kernel") == "1 kernel"


@pytest.mark.parametrize("word", ["4", "04", "04_mbarrier", "04_MBARRIER.IPYNB".lower()])
def test_check_finds_a_notebook_as_restore_does(tmp_path, word):
    import argparse
    from hopperlab.authoring.learner import workspace
    from hopperlab.cli import exercises
    found = exercises._notebook(argparse.Namespace(notebook=word.removesuffix(".ipynb"), course=ROOT), workspace)
    assert found.name == "04_mbarrier.ipynb"


def test_check_judges_one_exercise(tmp_path, monkeypatch, capsys):
    import argparse
    from hopperlab.authoring.learner import workspace
    from hopperlab.checking import check as checks
    from hopperlab.cli import exercises
    folder = tmp_path / "exercises"
    (folder / ".pristine").mkdir(parents=True)
    for name in ("04_mbarrier.ipynb", ".pristine/04_mbarrier.ipynb"):
        (folder / name).write_bytes((ROOT / "exercises" / name).read_bytes())
    monkeypatch.setattr(workspace, "find_root", lambda course: ROOT)
    monkeypatch.setattr(workspace, "find_work", lambda root, course: tmp_path)
    judged = []
    monkeypatch.setattr(checks, "judge", lambda exercise, *rest, **more: judged.append(exercise.id) or checks.Verdict(exercise.id, (), 1))
    for asked, found in (("04.2", ["04.2"]), ("04.1", ["04.1"]), ("04", ["04.1", "04.2"])):
        judged.clear()
        assert exercises.check(argparse.Namespace(notebook=asked, course=ROOT)) == 0 and judged == found
        assert f"{found[-1]} is right: 1 case\n" in capsys.readouterr().out
    monkeypatch.setenv("HOPPERLAB_LANG", "zh")
    assert exercises.check(argparse.Namespace(notebook="04.2", course=ROOT)) == 0 and "正在检查 " in (said := capsys.readouterr().out) and "04.2 正确：1 组数据\n" in said
    monkeypatch.delenv("HOPPERLAB_LANG")
    capsys.readouterr()
    monkeypatch.setattr(checks, "judge", lambda exercise, *rest, **more: checks.Verdict(exercise.id, (), 5, 8, 36, ("a (warning): x.cu:3", "b (warning): x.cu:4")))
    assert exercises.check(argparse.Namespace(notebook="04.2", course=ROOT)) == 0
    assert capsys.readouterr().out.endswith("04.2 is right: 5 shapes under 8 schedules, no hazard, 36 requirements met\nIt is accepted, and 2 warnings are "
                                            "left, first:\na (warning): x.cu:3\n")
    assert exercises.check(argparse.Namespace(notebook="04.3", course=ROOT)) == 2
    assert "there is no exercise 04.3; the notebook has: 04.1, 04.2" in capsys.readouterr().err


@pytest.mark.parametrize("right, asked", [(True, [("09.1", False), ("09.2", False), ("09.2", True)]), (False, [("09.1", False), ("09.2", False)])])
def test_check_asks_for_speed_where_the_answer_is_right(right, asked, monkeypatch, capsys):
    import argparse
    from hopperlab.checking import check as checks
    from hopperlab.cli import exercises
    judged = []

    def judge(exercise, *rest, fast, **more):
        judged.append((exercise.id, fast))
        findings = () if right else (checks.Finding("values", "It is 3, expected 4."),)
        return checks.Verdict(exercise.id, findings, 1, speed="as fast as that" if fast else "", pace="09.2: its times." if fast else "")
    monkeypatch.setattr(checks, "judge", judge)
    given = argparse.Namespace(notebook=str(ROOT / "exercises" / "09_multistage.ipynb"), course=ROOT)
    assert exercises.check(given) == (not right) and judged == asked
    assert ("\n09.2 is fast enough: as fast as that\n09.2: its times.\n" in capsys.readouterr().out) == right
