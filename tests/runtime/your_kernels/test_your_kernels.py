# SPDX-License-Identifier: Apache-2.0
"""docs/your-kernels.md: its files, commands and Python are taken from the page and run. PTX that another compiler makes of them is stored beside this file:

    scale.ptx        nvcc 13.0: nvcc -ptx -lineinfo -arch=sm_90a scale.cu
    cute_scale.ptx   CuTe DSL 4.8.1: CUTE_DSL_ARCH=sm_90a CUTE_DSL_KEEP_PTX=1 CUTE_DSL_LINEINFO=1 python cute_scale.py

(folders of `.file` taken out). Triton's example runs where Triton is installed; tests/runtime/triton_kernels has its stored twin.
"""
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab import cli
from hopperlab.runtime import sanitize

ROOM = Path(__file__).parent
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "your-kernels.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"File `([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)```", PAGE, re.DOTALL))
RUNS = [(found[0], found[1], int(found[2])) for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
        for found in re.findall(r"^\$ hopperlab (.*?)\n(.*?)\[exit code (\d)\]$", block, re.DOTALL | re.MULTILINE)]
FIVE = "lazy, eager, random(0), random(1), random(2)"


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for name in ("scale.ptx", "cute_scale.ptx"):
        shutil.copy(ROOM / name, tmp_path)
    return tmp_path


def ran(folder, line, *more):
    done = subprocess.run([sys.executable, "-m", "hopperlab", *shlex.split(line), *more], cwd=folder, capture_output=True, text=True, timeout=200 * PATIENCE)
    return done.stdout + done.stderr, done.returncode


def test_the_page_has_its_examples():
    assert set(FILES) == {"scale.cu", "tile.py", "cute_scale.py"} and len(RUNS) == 4


@pytest.mark.parametrize("line, said, code", RUNS, ids=[re.sub(r"sanitize (\S+) .*", r"\1", line) + str(code) for line, _, code in RUNS])
def test_each_command_says_what_the_page_says(folder, line, said, code, monkeypatch, capfd):
    """Under one schedule."""
    monkeypatch.chdir(folder)
    ended = cli.main([*shlex.split(line), "--schedules", "lazy"])
    found = capfd.readouterr()
    assert (found.out + found.err, ended) == (said.replace(FIVE, "lazy"), code)


@pytest.mark.thorough
@pytest.mark.parametrize("line, said, code", RUNS, ids=[line.split()[1] + str(code) for line, _, code in RUNS])
def test_each_command_word_for_word(folder, line, said, code):
    assert ran(folder, line) == (said, code)


def test_the_python_of_the_page(folder, monkeypatch):
    """All blocks but the files and what belongs to Triton, in one namespace."""
    monkeypatch.chdir(folder)
    names: dict = {}
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if block not in FILES.values() and "from_triton" not in block]
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/your-kernels.md", "exec"), names)


def test_the_stored_ptx_of_nvcc_is_of_the_pages_file(folder):
    """Where nvcc is installed, and is that of CUDA 13.0."""
    nvcc = shutil.which("nvcc")
    if nvcc is None or "release 13.0" not in subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("needs nvcc of CUDA 13.0; the stored PTX runs all the same")
    subprocess.run([nvcc, "-ptx", "-lineinfo", "-arch=sm_90a", "scale.cu", "-o", "again.ptx"], cwd=folder, check=True, timeout=100 * PATIENCE)
    plain = [re.sub(r'(\.file\s+\d+\s+)"[^"]*?([^"/]+)"', r'\1"\2"', text) for text in ((folder / "again.ptx").read_text(), (ROOM / "scale.ptx").read_text())]
    assert plain[0].split(".section")[0] == plain[1].split(".section")[0]


@pytest.mark.thorough
def test_tritons_example(folder):
    pytest.importorskip("triton", reason="Triton is not installed: pip install -e .[triton]")
    report = sanitize.sanitize([str(folder / "tile.py")], ["lazy"])
    lines = FILES["tile.py"].splitlines()
    here = {f"tile.py:{n}": text.strip() for n, text in enumerate(lines, 1)}
    found = {f.kind: (here[f.where], here.get(f.other, "")) for f in report.findings}
    assert found["read-before-arrival"] == ("tma.async_copy_shared_to_global(target, [0, 0], tile)", "tma.async_copy_global_to_shared(source, [0, 0], full, tile)")


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+\.md)\)", PAGE):
        assert (Path(__file__).resolve().parents[3] / "docs" / target).exists(), target


def test_sources_that_are_none(tmp_path):
    for name, text, words in (("k.cubin", "x", "the emulator runs PTX, not machine code"), ("k.py", "x", "path= reads CUDA C\\+\\+"),
                              ("absent.cu", None, "there is no file")):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(hl.SourceError, match=words):
            hl.RawModule(path=tmp_path / name)
    (tmp_path / "binary.ptx").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hl.SourceError, match="is no text in UTF-8"):
        hl.RawModule(path=tmp_path / "binary.ptx")
    for given in ({"code": "kernel.cu"}, {"ptx": "theirs.ptx"}):
        with pytest.raises(hl.SourceError, match="takes the text itself"):
            hl.RawModule(**given)
    with pytest.raises(TypeError, match="either code="):
        hl.RawModule(code="x", path="y.cu")
