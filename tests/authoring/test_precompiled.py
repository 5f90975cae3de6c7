# SPDX-License-Identifier: Apache-2.0
"""Machines without NVRTC: the lessons' kernels come compiled, lessons run from them, and edited CUDA gets one clear error."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.authoring import hashes
from hopperlab.authoring.notebooks import build
from hopperlab.authoring.shipping import precompile
from hopperlab.runtime.compile import precompiled_ptx, toolchain

ROOT = hashes.ROOT
HIDING = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "cuda" or name.startswith("cuda."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture
def without_nvrtc(tmp_path):
    """The environment of a process in which NVRTC cannot be imported, clang does not stand in, and nothing was compiled before."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDING)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)]), "HOPPERLAB_CACHE_DIR": str(tmp_path / "cache"),
            "HOPPERLAB_BACKEND": "emulator", "HOPPERLAB_COMPILER": "nvrtc"}


def python(code: str, env: dict) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=200 * PATIENCE, check=False)


@pytest.mark.thorough           # below, a solution from the same archives
def test_lesson_05_runs_from_stored_ptx_and_prints_what_is_stored(without_nvrtc, tmp_path):
    (tmp_path / "05_tma_tiles.ipynb").write_bytes((ROOT / "notebooks" / "05_tma_tiles.ipynb").read_bytes())
    done = subprocess.run([sys.executable, "-m", "pytest", "--nbval", f"--nbval-cell-timeout={120 * PATIENCE:.0f}", "-q", "-p", "no:cacheprovider", "-p",
                           "no:xdist", "--rootdir",
                           str(tmp_path), str(tmp_path / "05_tma_tiles.ipynb")], cwd=tmp_path, env=without_nvrtc, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert not list(tmp_path.glob("cache/*/*")), "something was compiled"


def test_a_kernel_of_a_lesson_loads_and_an_edited_one_names_the_ways_out(without_nvrtc):
    done = python("""
        import hopperlab as hl
        kernel = hl.load_kernel("copy/tma_copy.cu", "tma_landing", ("-DRANK=2",))
        print(kernel.num_regs > 0, kernel.module.cubin == b"")
        try:
            hl.RawModule(code=hl.kernel_source("copy/tma_copy.cu") + "// mine", name="copy/tma_copy.cu", options=("-DRANK=2",))
        except hl.ToolchainError as problem:
            print(problem)
    """, without_nvrtc)
    first, *error = done.stdout.splitlines()
    assert first == "True True", done.stderr
    text = "\n".join(error)
    for way in ("NVRTC is not installed", "copy/tma_copy.cu cannot be compiled here", "edited", "Linux or Windows", "docker", "ptx=", "hopperlab restore"):
        assert way in text, f"{way!r} is not in: {text}"


def test_an_edited_header_counts_as_an_edit(monkeypatch):
    texts = {"/a/hopperlab/tma.cuh": "one"}
    same = precompiled_ptx.key_of("code", "k.cu", ("-DX",), (), "sm_90a", {"/elsewhere/tma.cuh": "one"})
    assert precompiled_ptx.key_of("code", "k.cu", ("-DX",), (), "sm_90a", texts) == same
    for other in (("code2", "k.cu", ("-DX",), (), "sm_90a", texts), ("code", "k.cu", ("-DY",), (), "sm_90a", texts),
                  ("code", "k.cu", ("-DX",), ("k<1>",), "sm_90a", texts),
                  ("code", "k.cu", ("-DX",), (), "sm_90", texts), ("code", "k.cu", ("-DX",), (), "sm_90a", {"tma.cuh": "two"})):
        assert precompiled_ptx.key_of(*other) != same


def test_the_doctor_runs_its_probe_and_a_mac_is_told_what_works(without_nvrtc):
    done = python("""
        import sys
        sys.platform = "darwin"
        from hopperlab.cli import doctor
        sys.exit(doctor.report())
    """, without_nvrtc)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note NVRTC" in done.stdout and "ok   emulator" in done.stdout and "Lessons can run" in done.stdout


@pytest.mark.parametrize("path", build.lesson_sources(), ids=lambda path: path.stem)
def test_the_stored_ptx_of_every_lesson_is_of_this_lesson(path):
    file = precompile.archive(path)
    again = f"python -m hopperlab.authoring precompile {path.stem}"
    assert file.is_file(), f"no stored PTX: run {again}"
    assert precompiled_ptx.read(file)["stamp"] == precompile.stamp(path), f"a cell or kernel changed since the PTX was stored: run {again}"


def test_the_stored_ptx_of_the_exercises_is_of_these_solutions():
    again = "run python -m hopperlab.authoring precompile exercises"
    assert precompile.exercises_archive().is_file(), again
    assert precompiled_ptx.read(precompile.exercises_archive())["stamp"] == precompile.exercises_stamp(), again


def test_a_solution_is_right_and_a_skeleton_is_not_without_nvrtc(without_nvrtc):
    done = python("""
        import nbformat
        from hopperlab.checking import check
        from hopperlab.grading import generate, regions
        from hopperlab.lessons import catalogue
        from hopperlab.authoring import hashes
        path = next(path for path in generate.solutions(hashes.ROOT) if path.name.startswith("08_"))
        cell = generate.answers_of(nbformat.read(path, as_version=4))["answer-08-2"]
        for text in (cell, regions.solution_without_stubs(cell), regions.without_solutions(cell)):
            print(check.judge(catalogue.find("08.2"), text).right)
    """, without_nvrtc)
    assert done.stdout.split() == ["True", "True", "False"], done.stderr


def test_stored_ptx_is_what_the_compiler_makes():
    key, entry = next((k, e) for k, e in precompiled_ptx.read(precompiled_ptx.FOLDER / "05_tma_tiles.xz")["entries"].items() if e["name"] == "copy/bulk_copy.cu")
    fresh = hl.load_kernel("copy/bulk_copy.cu", "bulk_copy", backend="emulator").module
    assert entry["ptx"] == fresh.ptx and entry["log"] == fresh.log
    assert precompiled_ptx.find(key, "x") == entry


def test_no_path_of_a_machine_is_stored():
    for path in precompiled_ptx.FOLDER.glob("*.xz"):
        for entry in precompiled_ptx.read(path)["entries"].values():
            assert str(ROOT) not in entry["ptx"] + entry["log"], f"{path.name}: {entry['name']}"


def test_settings_that_change_what_is_compiled_are_all_tried(tmp_path, monkeypatch):
    from hopperlab.show import Choice, Panel, Slider
    monkeypatch.setenv("HOPPERLAB_RECORD_PTX", str(tmp_path))
    seen = []

    def launch(stages, tile, seed):
        seen.append((stages, tile, seed))
        Path(tmp_path, f"{stages}-{tile}.json").write_text("{}")
        if stages == 4:
            raise ValueError("does not fit")
    panel = Panel(launch, {"stages": Slider("", (2, 3, 4), 3), "tile": Choice("", ["a", "b"], "a"), "seed": Slider("", range(100), 0)})
    assert precompile.try_settings(panel) == 3 + 2 + 100 + 3 * 2
    assert {(s, t) for s, t, _ in seen} == {(s, t) for s in (2, 3, 4) for t in "ab"}


def test_after_a_change_of_a_kernel_the_archive_is_compiled_again_without_the_lesson(tmp_path, monkeypatch):
    path = next(p for p in build.lesson_sources() if p.stem == "05_tma_tiles")
    monkeypatch.setattr(precompiled_ptx, "FOLDER", tmp_path)
    code = 'extern "C" __global__ void k(int* a) { *a = N; }'
    asked = {"options": ("-DN=1",), "name_expressions": (), "arch": "sm_90a", "ptx": "old", "log": "", "lowered": {}}
    precompiled_ptx.write(precompile.archive(path), "old", precompile.cells_stamp(path), {"old": asked | {"name": "k.cu", "code": code}})
    monkeypatch.setattr(precompile, "collect", lambda path: pytest.fail("the lesson was run"))
    assert precompile.bring_up_to_date(path)[0] == 1
    found = precompiled_ptx.read(precompile.archive(path))
    (key, entry), = found["entries"].items()
    assert found["stamp"] == precompile.stamp(path) and key != "old" and ".entry k(" in entry["ptx"] and entry["code"] == code
    monkeypatch.setattr(precompile, "collect", lambda path: (99, 0))
    precompiled_ptx.write(precompile.archive(path), "old", "other cells", {})
    assert precompile.bring_up_to_date(path) == (99, 0)
    for name, text in (("copy/bulk_copy.cu", "// edited"), ("copy/gone.cu", None)):
        precompiled_ptx.write(precompile.archive(path), "old", precompile.cells_stamp(path), {"old": asked | {"name": name, "code": text}})
        assert precompile.bring_up_to_date(path) == (99, 0)


def test_nothing_is_recorded_unless_asked(tmp_path, monkeypatch):
    monkeypatch.delenv("HOPPERLAB_RECORD_PTX", raising=False)
    precompiled_ptx.record("key", "", {})
    with precompile.recorded() as entries:
        precompiled_ptx.record("key", "// mine", {"name": "x.cu"})
        precompiled_ptx.record("file", hl.kernel_source("copy/bulk_copy.cu"), {"name": "copy/bulk_copy.cu"})
    assert entries == {"key": {"name": "x.cu", "code": "// mine"}, "file": {"name": "copy/bulk_copy.cu", "code": None}} and "HOPPERLAB_RECORD_PTX" not in os.environ


def test_nvrtc_is_seen_here_without_being_loaded():
    assert toolchain.has_nvrtc()
    code = "import sys; from hopperlab.runtime.compile import toolchain; print(toolchain.has_nvrtc(), 'cuda.bindings.nvrtc' in sys.modules)"
    assert python(code, {**os.environ, "PYTHONPATH": str(ROOT)}).stdout.split() == ["True", "False"]


def test_the_stamp_changes_with_a_cell_a_kernel_it_names_a_header_of_that_and_the_compiler(tmp_path, monkeypatch):
    (tmp_path / "kernels/include/hopperlab").mkdir(parents=True)
    kernel, header, lesson = tmp_path / "kernels/k.cu", tmp_path / "kernels/include/hopperlab/h.cuh", tmp_path / "05_one.md"
    kernel.write_text("#include <hopperlab/h.cuh>\n")
    header.write_text("// one\n")
    text = "---\ntitle: One\nminutes: 5\n---\n\nWords.\n\n```python id=a\nload('k.cu')\n```\n"
    lesson.write_text(text)
    files = hashes.kernel_files
    monkeypatch.setattr(hashes, "kernel_files", lambda code: files(code, tmp_path))
    stamps = [precompile.stamp(lesson)]
    lesson.write_text(text.replace("Words.", "Other words."))
    assert precompile.stamp(lesson) == stamps[0]
    for file, content in ((header, "// two\n"), (kernel, "#include <hopperlab/h.cuh>\n// three\n"), (lesson, text.replace("load", "see"))):
        file.write_text(content)
        stamps.append(precompile.stamp(lesson))
    monkeypatch.setattr(hashes, "toolchain", lambda: "nvrtc 99")
    assert len({*stamps, precompile.stamp(lesson)}) == 5
