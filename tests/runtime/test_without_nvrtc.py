# SPDX-License-Identifier: Apache-2.0
"""Machines without NVRTC: clang stands in for lessons, exercises and `hopperlab doctor`; where it is missing too, one error names the ways out."""
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.patience import PATIENCE

from hopperlab.cli import doctor
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.clang import compiler

ROOT = Path(__file__).resolve().parents[2]
HIDING = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "cuda" or name.startswith("cuda."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""
clang = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")


@pytest.fixture
def without_nvrtc(tmp_path):
    """The environment of a process in which NVRTC cannot be imported and nothing was compiled before."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDING)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)]), "HOPPERLAB_CACHE_DIR": str(tmp_path / "cache"),
            "HOPPERLAB_BACKEND": "emulator", "HOPPERLAB_COMPILER": "auto"}


def python(code: str, env: dict) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=200 * PATIENCE, check=False)


@clang
def test_kernels_of_the_course_and_edited_ones_compile_and_an_answer_is_judged(without_nvrtc):
    done = python("""
        import sys
        import nbformat
        import hopperlab as hl
        from hopperlab.authoring import hashes
        from hopperlab.checking import check
        from hopperlab.grading import generate, regions
        from hopperlab.lessons import catalogue
        own = hl.load_kernel("copy/tma_copy.cu", "tma_landing", ("-DRANK=2",))
        mine = hl.RawModule(code=hl.kernel_source("copy/tma_copy.cu") + "// mine", name="copy/tma_copy.cu", options=("-DRANK=2",))
        print("LLVM" in own.module.ptx, "LLVM" in mine.ptx)
        path = next(path for path in generate.solutions(hashes.ROOT) if path.name.startswith("08_"))
        cell = generate.answers_of(nbformat.read(path, as_version=4))["answer-08-2"]
        for text in (regions.solution_without_stubs(cell), regions.without_solutions(cell)):
            print(check.judge(catalogue.find("08.2"), text).right)
    """, without_nvrtc)
    assert done.stdout.split() == ["True", "True", "True", "False"], done.stderr


def test_without_clang_either_the_error_names_the_ways_out(without_nvrtc):
    done = python("""
        import sys
        import hopperlab as hl
        from hopperlab.runtime.compile import toolchain
        for system in (sys.platform, "darwin"):
            sys.platform = system
            toolchain.nvrtc.cache_clear()
            try:
                hl.RawModule(code='extern "C" __global__ void k() {}')
            except hl.ToolchainError as problem:
                print(problem)
    """, {**without_nvrtc, "HOPPERLAB_COMPILER": "nvrtc"})
    for way in ("NVRTC cannot be loaded", "does not exist for macOS", "pip install ziglang", "Linux or Windows", "docker", "ptx="):
        assert way in done.stdout, f"{way!r} is not in: {done.stdout}{done.stderr}"


@clang
def test_the_doctor_of_a_mac_finds_clang(without_nvrtc):
    done = python("""
        import sys
        sys.platform = "darwin"
        from hopperlab.cli import doctor
        sys.exit(doctor.report())
    """, without_nvrtc)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok   clang" in done.stdout and "there is no NVRTC here" in done.stdout and "ok   emulator" in done.stdout and "Lessons can run" in done.stdout


def test_the_doctor_of_a_mac_without_clang_names_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOPPERLAB_COMPILER", "auto")
    monkeypatch.setattr(compiler, "program", lambda: None)
    for cached in (toolchain.nvrtc, toolchain.has_nvrtc):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    try:
        finding = next(iter(doctor._compiler()))
    finally:
        for cached in (toolchain.nvrtc, toolchain.has_nvrtc):
            cached.cache_clear()
    assert finding.state == "bad" and toolchain.CLANG in str(finding) and "macOS" in str(finding)


def test_nvrtc_is_seen_here_without_being_loaded():
    if not toolchain.has_nvrtc():
        pytest.skip("NVRTC is not installed")
    code = "import sys; from hopperlab.runtime.compile import toolchain; print(toolchain.has_nvrtc(), 'cuda.bindings.nvrtc' in sys.modules)"
    assert python(code, {**os.environ, "PYTHONPATH": str(ROOT)}).stdout.split() == ["True", "False"]
