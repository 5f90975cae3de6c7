# SPDX-License-Identifier: Apache-2.0
"""Every cell of every lesson under clang, with nothing of NVIDIA's: none raises, and what a compared one prints is the stored text, which NVRTC's PTX
printed. Every solution is right under clang, too, and of every source that was compiled for them NVRTC makes PTX for the same launches, with what is
asynchronous or synchronises at the same lines. (CI takes half of the lessons and of the solutions, `make test-every` all.)
"""
import nbformat
import pytest
from support import visits
from support.answer_texts import solution_cell
from support.lesson_cells import differences
from support.two_compilers import clang_alone, differing

import hopperlab as hl
from hopperlab.authoring.notebooks import build
from hopperlab.checking import check
from hopperlab.grading import regions
from hopperlab.lessons import catalogue
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.clang import compiler

pytestmark = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")
QUICK = "04_mbarrier"
QUICK_EXERCISE = "04.2"


@pytest.mark.parametrize("path", sorted(build.lesson_sources(), key=lambda path: (path.stem != QUICK, path.stem)), ids=lambda path: path.stem)
@pytest.mark.sampled(every=100, ci=4)
def test_cells_run_under_clang_and_compared_ones_print_what_is_stored(path):
    pytest.importorskip("nbval", reason="nbval is not installed: pip install -e .[test]")
    pytest.importorskip("matplotlib.pyplot").switch_backend("agg")
    with clang_alone() as compiled:
        assert not differences(build.code_cells(nbformat.read(build.notebook_path(path), as_version=4)), visits.compared_cells(path))
    if toolchain.has_nvrtc():
        assert not differing(compiled)


@pytest.mark.parametrize("name", sorted(catalogue.every(), key=lambda name: (name != QUICK_EXERCISE, name)))
@pytest.mark.sampled(every=100, ci=2)           # each kernel file is compared in tests/runtime/clang
def test_solution_is_right_under_clang(name):
    cell = solution_cell(name)
    with clang_alone() as compiled:
        verdict = check.judge(catalogue.every()[name], regions.solution_without_stubs(cell))
        assert verdict.right and not verdict.warnings, str(verdict)
        if cell.startswith("%%cuda "):
            first, code = regions.without_solutions(cell).split("\n", 1)           # what a learner starts from
            hl.RawModule(code=code, name=f"{first.split()[1]}.cu", backend="emulator")
            assert len(compiled) > 1
    if toolchain.has_nvrtc():
        assert not differing(compiled)
