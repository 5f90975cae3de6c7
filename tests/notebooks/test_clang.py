# SPDX-License-Identifier: Apache-2.0
"""Every compared cell of every lesson under clang, without ptxas and stored PTX: what it prints is the stored text, which NVRTC's PTX printed.

Where it is not, DIFFER says which cell and why; a cell that comes out the same has to leave that table. Every solution is right under clang, too.
"""
import nbformat
import pytest
from support import visits
from support.answer_texts import solution_cell
from support.lesson_cells import differences, only_shows

from hopperlab.authoring.notebooks import build
from hopperlab.checking import check
from hopperlab.grading import regions
from hopperlab.lessons import catalogue
from hopperlab.runtime.compile import assemble
from hopperlab.runtime.compile.clang import compiler

pytestmark = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")
QUICK = "03x_cuda_pipeline"
QUICK_EXERCISE = "04.2"
ORDER = "the kernel is wrong, and what a wrong kernel does depends on the order in which the compiler laid out its branches"
PTXAS = "ptxas refuses or changes this kernel, and there is none here"
DIFFER = {
    "04_mbarrier": dict.fromkeys(("break-parity", "repair-parity", "break-arrive", "repair-arrive", "break-bytes", "repair-bytes"), ORDER),
    "08_wgmma": {"break-wait": PTXAS},
    "11_setmaxnreg": {"sass": PTXAS},
    "12_clusters": {"repair-counts": ORDER},
    "13_persistent": {"break-none": ORDER},
    "15_fp8_gemm": dict.fromkeys(("break-scales", "repair-scales"), ORDER),
    "15x_mixed_and_sparse": {"repair-wait": PTXAS},
    "16_attention": {"repair-registers": PTXAS},
    "16x_fp8_attention": dict.fromkeys(("break-empty", "repair-empty"), ORDER),
    "16b_backward": dict.fromkeys(("break-order", "repair-order"), ORDER),
    "17_claims_measured": dict.fromkeys(("as-printed", "repair-listing", "repairs"), ORDER),
    "19_two_gpus": {"repair-scope": "the race is the same, and another of its words is seen first"},
}
# They show machine code, which needs ptxas, or ask a broken kernel for a hazard that only one order of its branches has.
LEFT_OUT = {"11_setmaxnreg": {"builds"}, "12_clusters": {"sass"}, "13_persistent": {"break-none"}, "17_claims_measured": {"first"}}


@pytest.fixture(autouse=True)
def clang_alone(monkeypatch):
    """As on a machine that has clang and nothing of NVIDIA's, but for the few compilations that ask for NVRTC by name."""
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")
    monkeypatch.setattr(assemble, "ptxas", lambda: None)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=() if path.stem == QUICK else pytest.mark.thorough) for path in build.lesson_sources()])
def test_compared_cells_print_under_clang_what_is_stored(path):
    pytest.importorskip("nbval", reason="nbval is not installed: pip install -e .[test]")
    pytest.importorskip("matplotlib.pyplot").switch_backend("agg")
    left_out = LEFT_OUT.get(path.stem, set())
    cells = [cell for cell in build.code_cells(nbformat.read(build.notebook_path(path), as_version=4)) if cell.id not in left_out]
    compared = [name for name in visits.compared_cells(path) if name not in left_out]
    found = differences([cell for cell in cells if cell.id in compared or not only_shows(cell)], compared)
    more = {name: told for name, told in found.items() if name not in DIFFER.get(path.stem, {})}
    assert not more, f"{[*more]} differ: {more}"
    assert DIFFER.get(path.stem, {}).keys() - left_out <= found.keys(), "these come out the same: take them out of DIFFER"


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == QUICK_EXERCISE else pytest.mark.thorough) for name in catalogue.every()])
def test_solution_is_right_under_clang(name):
    verdict = check.judge(catalogue.every()[name], regions.solution_without_stubs(solution_cell(name)))
    assert verdict.right and not verdict.warnings, str(verdict)
