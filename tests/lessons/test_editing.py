# SPDX-License-Identifier: Apache-2.0
"""A kernel's text in the learner's hands: the cell that appears, what loads the edited text, and the way back; differences of two kernels."""
import hopperlab as hl
import numpy as np
import pytest

from hopperlab.lessons import editing, repairs
from hopperlab.measure.launches import launch
from hopperlab.runtime import library
from hopperlab.runtime.errors import CompileError
from hopperlab.show.differences import diff

PATH = "start_here/kernel_3.cu"


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    for path in library.edited():
        library.edit(path, None)


def folded():
    x = np.arange(512 * 8).astype(np.float32)
    y = np.zeros_like(x)
    launch.fold(3, x, y, blocks=2, backend="emulator")()
    return y


def test_an_edited_kernel_is_the_one_that_everything_loads(capsys):
    course, text = folded(), hl.kernel_source(PATH)
    changed = text.replace("out[t] = add_mirrored(in[t], in[t ^ 31]);", "out[t] = add_mirrored(in[t], in[t ^ 31]), out[t].x += 1;")
    assert changed != text
    editing.kernel(PATH, changed)
    assert capsys.readouterr().out == (f"{PATH}: 1 line of code changed. Lessons, panels and hl.load_kernel take this text now; %kernel --original {PATH} "
                                       f"gives the course's back\n")
    assert hl.kernel_source(PATH) == changed and (folded() - course).reshape(-1, 4).tolist() == [[1, 0, 0, 0]] * (len(course) // 4)
    editing.kernel("")
    assert capsys.readouterr().out == f"{PATH}: 1 line of code changed\n"
    editing.kernel("--original")
    assert capsys.readouterr().out == f"the course's text again: {PATH}\n" and hl.kernel_source(PATH) == text and (folded() == course).all()
    editing.kernel("")
    assert capsys.readouterr().out == "no kernel is edited\n"


def test_what_a_figure_has_kept_is_forgotten():
    from functools import lru_cache
    calls = []
    launch.kept_for_a_test = lru_cache(lambda: calls.append(1))
    try:
        launch.kept_for_a_test(), launch.kept_for_a_test()
        editing.kernel(PATH, hl.kernel_source(PATH))
        launch.kept_for_a_test()
    finally:
        del launch.kept_for_a_test
    assert len(calls) == 2


def test_what_does_not_compile_or_is_no_file_leaves_everything_as_it_was():
    with pytest.raises(CompileError, match=r"kernel_3\.cu"):
        editing.kernel(PATH, hl.kernel_source(PATH).replace("int t =", "int t = no_such_name +"))
    with pytest.raises(FileNotFoundError, match="there are: .*gemm/multistage.cu"):
        editing.kernel("gemm/none.cu", "x")
    for line, cell in (("", "x"), ("-DX=1", "x"), ("--other", None), ("--original a b", None)):
        with pytest.raises(editing.EditError, match="Usage: %%kernel PATH"):
            editing.kernel(line, cell)
    for ask in (hl.edit, lambda path: editing.kernel(path, "int x;")):
        with pytest.raises(editing.EditError, match="tma.cuh is a header"):
            ask("include/hopperlab/tma.cuh")
    assert library.edited() == {}


def test_a_repair_is_of_the_courses_text():
    repair = repairs.find("00", "kernel-4")
    editing.kernel(repair.file, hl.kernel_source(repair.file).replace("float4 sum = add_mirrored", "float4 total = add_mirrored").replace("[t] = sum;", "[t] = total;"))
    assert repair.judge(repair.reference).startswith("Right")


def test_the_text_comes_in_a_cell_below(monkeypatch, capsys):
    hl.edit(PATH)
    assert capsys.readouterr().out == f"%%kernel {PATH}\n{hl.kernel_source(PATH)}\n"
    IPython = pytest.importorskip("IPython")

    class Shell:
        cells: list = []
        magics: dict = {}

        def set_next_input(self, text):
            self.cells.append(text)

        def register_magic_function(self, function, magic_kind, magic_name):
            self.magics[magic_name] = (function, magic_kind)
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    hl.edit(PATH)
    from hopperlab.lessons import magic
    magic.register()
    assert Shell.cells == [f"%%kernel {PATH}\n{hl.kernel_source(PATH)}".rstrip("\n")]
    function, kind = Shell.magics["kernel"]
    function("")
    assert kind == "line_cell" and capsys.readouterr().out == "no kernel is edited\n"


def test_differences_of_two_kernels():
    found = hl.diff("gemm/tma_wgmma.cu", "gemm/multistage.cu")
    assert found.changed > 5 and str(found).startswith("--- gemm/tma_wgmma.cu\n+++ "
                                                       "gemm/multistage.cu\n@@") and "display: grid" in found._repr_html_() and len(found._repr_html_()) < 20_000
    assert str(diff("a\nb\n", "a\nb\n")) == "text (first) and text (second) are the same" and diff("a\nb\n", "a\nb\n").changed == 0
    one = diff("x = 1;\n// why\n\ny = 2;\n", "x = 1;   // a remark\n// another\n\ny = 3;\nz = 4;\n")
    assert one.changed == 3, "the first line too: its text is another"
    module = hl.RawModule(code=hl.kernel_source(PATH), name="mine.cu", backend="emulator")
    assert diff(PATH, module).changed == 0 and diff(module.get_function("fold"), PATH).names == ("mine.cu", PATH)
    with pytest.raises(FileNotFoundError):
        diff("none.cu", PATH)
    with pytest.raises(TypeError, match="int has no source"):
        diff(3, PATH)


def test_far_changes_are_parted_by_dots():
    old = [f"line{number};" for number in range(60)]
    new = [*old[:5], "other;", *old[6:50], *old[51:]]
    found = diff("\n".join(old) + "\n", "\n".join(new) + "\n")
    assert found.changed == 2 and found._repr_html_().count("…") == 1
    assert "a&lt;b" in diff("a<b\n", "a<c\n")._repr_html_()
    bare = diff("a\nb\nc\nd\n", "a\nB\nc\nD\n", context=0)
    assert bare.changed == 2 and bare._repr_html_().count("…") == 1 and ">c<" not in bare._repr_html_()
