# SPDX-License-Identifier: Apache-2.0
"""Every cell of every lesson under clang, without ptxas and stored PTX: none raises, and what a compared one prints is the stored text, which NVRTC's PTX
printed. Every solution is right under clang, too.
"""
import nbformat
import pytest
from support import visits
from support.answer_texts import solution_cell
from support.lesson_cells import differences

from hopperlab.authoring.notebooks import build
from hopperlab.checking import check
from hopperlab.grading import regions
from hopperlab.lessons import catalogue
from hopperlab.runtime.compile import assemble
from hopperlab.runtime.compile.clang import compiler

pytestmark = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")
QUICK = "03x_cuda_pipeline"
QUICK_EXERCISE = "04.2"


@pytest.fixture(autouse=True)
def clang_alone(monkeypatch):
    """As on a machine that has clang and nothing of NVIDIA's, but for the few compilations that ask for NVRTC by name."""
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")
    monkeypatch.setattr(assemble, "ptxas", lambda: None)


def lesson_params():
    for path in build.lesson_sources():
        yield pytest.param(path, id=path.stem, marks=[] if path.stem == QUICK else [pytest.mark.thorough])


@pytest.mark.parametrize("path", lesson_params())
def test_cells_run_under_clang_and_compared_ones_print_what_is_stored(path):
    pytest.importorskip("nbval", reason="nbval is not installed: pip install -e .[test]")
    pytest.importorskip("matplotlib.pyplot").switch_backend("agg")
    assert not differences(build.code_cells(nbformat.read(build.notebook_path(path), as_version=4)), visits.compared_cells(path))


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == QUICK_EXERCISE else pytest.mark.thorough) for name in catalogue.every()])
def test_solution_is_right_under_clang(name):
    verdict = check.judge(catalogue.every()[name], regions.solution_without_stubs(solution_cell(name)))
    assert verdict.right and not verdict.warnings, str(verdict)
