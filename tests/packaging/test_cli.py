"""The `hopperlab` command."""
import subprocess
import sys
from pathlib import Path

import pytest

import hopperlab
from hopperlab import cli, doctor
from hopperlab.runtime import toolchain
from hopperlab.runtime.driver import Gpu
from hopperlab.runtime.errors import ToolchainError

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess:
    import os
    return subprocess.run([sys.executable, "-m", "hopperlab", *words], capture_output=True, text=True, timeout=120, cwd=cwd,
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


def test_an_unknown_lesson_is_one_line_and_exit_code_1():
    result = run("restore", "77")
    assert result.returncode == 1 and result.stderr.startswith("hopperlab: no lesson '77'; there are: 00_start_here")
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
