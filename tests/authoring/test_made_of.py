# SPDX-License-Identifier: Apache-2.0
"""What an output is made of, part by part: which statements stand behind a cell, which definitions draw it, how a kernel is written down."""

import nbformat
import pytest

from hopperlab.authoring.stamps import cell_flow, kernel_uses, made_of
from hopperlab.authoring.stamps.drawing import Drawing
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.nvrtc import Source

CELLS = {"setup": "from hopperlab import measure, show\nxp = hl.array_module()\nladder = measure.load('ladder')",
         "launch": "c = xp.zeros(4)\nkernel((1,), (1,), (c,))\nprint('done')",
         "function": "def draw(values):\n    c = 3\n    return show.bars(values, ladder)",
         "uses-c": "print(c.sum())",
         "uses-function": "draw([1])",
         "own-c": "for c in range(3):\n    print(c)",
         "magic": "%%cuda ring -DSTAGES=4\nint x;",
         "uses-ring": "%time ring.get_function('k')\nring.name"}


def test_a_text_of_which_lines_are_shown_counts_although_its_kernel_was_compiled():
    noted = {"launched": [], "recordings": [], "place": set(), "compiled": [{"name": "copy/bulk_copy.cu",
                                                                             "code": toolchain.read_source(toolchain.KERNELS / "copy/bulk_copy.cu"),
                                                                                "options": (), "name_expressions": (), "arch": kernel_uses.ARCH}],
                                                                                "read": {"copy/bulk_copy.cu"}}
    assert "texts" not in made_of.uses(noted, {}) and made_of.uses(noted | {"shown": {"copy/bulk_copy.cu"}}, {})["texts"] == ["copy/bulk_copy.cu"]


def behind(cell):
    listed = [statement for name, text in CELLS.items() for statement in cell_flow.statements(name, text)]
    found = cell_flow.behind(cell, listed)
    return {s.cell for s in found.code} - {cell}, {s.cell for s in found.data} - {cell}, found.written


@pytest.mark.parametrize("cell, code, data, written", [
    ("setup", set(), set(), set()),
    ("uses-c", {"launch", "setup"}, {"launch", "setup"}, {"launch"}),
    ("uses-function", {"function", "setup"}, {"setup"}, {"function"}),
    ("own-c", set(), set(), set()),
    ("uses-ring", {"magic"}, {"magic"}, set())])
def test_what_stands_behind_a_cell(cell, code, data, written):
    assert behind(cell) == (code, data, written)


@pytest.mark.parametrize("reads", ["measure.load('ladder')", "show.if_recorded(lambda: measure.load('ladder'))", "lesson.if_recorded()"])
def test_what_only_reads_a_recording_is_the_same_in_both_places(reads):
    first = "from hopperlab import measure, show\nfrom hopperlab.lessons import l05_tma_tiles as lesson\n"
    setup, table = (nbformat.v4.new_code_cell(text, id=name) for name, text in (("setup", f"{first}ladder = {reads}"), ("table", "print(show.told(ladder))")))
    setup.metadata["hopperlab"] = {"uses": {"place": True}}
    notebook = nbformat.v4.new_notebook(cells=[setup, table])
    assert not made_of.asks_for_the_place(notebook, table) and made_of.asks_for_the_place(notebook, setup)
    setup.source = f"{first}ladder = lesson.launched()"
    assert made_of.asks_for_the_place(notebook, table)


ROOM = {"show/__init__.py": "from .charts import bars\nfrom .style import Picture\n",
        "show/charts.py": "'''Charts.'''\nfrom . import style\nimport numpy as np\nWIDTH = 3\nUNUSED = 4\n\n"
                          "def bars(values):\n    '''Bars.'''\n    return style.Picture(_scaled(values), style.INK)\n\n"
                          "def _scaled(values):\n    return [WIDTH * v for v in values]\n\ndef lines(values):\n    return UNUSED\n",
        "show/style.py": "INK = 'black'\nPAPER = 'white'\nclass Picture:\n    def __init__(self, values, colour):\n        self.paper = PAPER\n",
        "lessons/__init__.py": "", "lessons/l05_tiles/__init__.py": "from ..rooms import offer\n\n__getattr__, __dir__, __all__ = offer(__name__, {'.boxes': "
                                                                    "'explore other'})\n",
        "lessons/l05_tiles/boxes.py": "from ...show import bars\n\ndef explore():\n    from ...show.charts import lines\n    return lines(1), bars\n",
        "lessons/l05_tiles/exercises.py": "EXERCISES = [1]\n"}


@pytest.fixture
def package(tmp_path):
    for name, text in ROOM.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def digest(package, source="show.bars(x)", names=None):
    drawing = Drawing(package)
    names = names or {"show": ("hopperlab", "show"), "lesson": ("hopperlab.lessons", "l05_tiles"), "hl": ("hopperlab", "")}
    roots = list(drawing.meant(cell_flow.tree_of(source), names))
    return drawing.digest(drawing.reached([*roots, *drawing.checked_by(source)]))


def edit(package, name, old, new):
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))


@pytest.mark.parametrize("source", ["show.bars(x)", "hl.show.bars(x)", "lesson.explore()", "from hopperlab.show.charts import bars as b\nb(x)", "f = show.bars"])
@pytest.mark.parametrize("name, old, new", [("show/charts.py", "WIDTH = 3", "WIDTH = 5"), ("show/charts.py", "WIDTH * v", "WIDTH + v"),
                                            ("show/style.py", "'white'", "'grey'"),
                                            ("show/style.py", "'black'", "'blue'")])
def test_a_change_that_is_reached_changes_the_hash(package, source, name, old, new):
    before = digest(package, source)
    edit(package, name, old, new)
    assert before and digest(package, source) != before


@pytest.mark.parametrize("name, old, new", [("show/charts.py", "UNUSED = 4", "UNUSED = 5"), ("show/charts.py", "'''Bars.'''", "'''Other words.'''"),
                                            ("show/charts.py", "WIDTH = 3", "# a comment\n\nWIDTH = 3   # inches"), ("show/charts.py", "'''Charts.'''", "'''Plots.'''"),
                                            ("show/charts.py", "def bars(values):", "def bars(values: list[style.Picture]) -> float:"),
                                            ("show/charts.py", "import numpy",
                                             "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .style import Other\nimport numpy"),

                                            ("lessons/l05_tiles/boxes.py", "return lines(1)", "return lines(2)")])
def test_what_is_not_reached_comments_and_docstrings_change_nothing(package, name, old, new):
    before = digest(package)
    edit(package, name, old, new)
    assert digest(package) == before


def test_an_import_inside_a_function_counts_and_so_does_the_exercise_that_is_checked(package):
    before, checked = digest(package, "lesson.explore()"), digest(package, 'hl.check("05.1", x)')
    edit(package, "show/charts.py", "UNUSED = 4", "UNUSED = 5")
    edit(package, "lessons/l05_tiles/exercises.py", "[1]", "[2]")
    assert digest(package, "lesson.explore()") != before and digest(package, 'hl.check("05.1", x)') != checked != ""
    assert digest(package, "print(1)") == digest(package, "import numpy\nnumpy.zeros(3)") == ""


FILE = "copy/bulk_copy.cu"


def noted(code, name=FILE, **more):
    return {"code": code, "name": name, "options": (), "name_expressions": (), "arch": "sm_90a"} | more


def test_a_kernel_is_written_down_as_its_file_an_edit_of_it_or_its_text():
    text = toolchain.read_source(toolchain.KERNELS / FILE)
    assert kernel_uses.reference(noted(text, options=("-DSTAGES=3",)), True, {}) == {"name": FILE, "options": ["-DSTAGES=3"], "launched": True}
    edited = text.replace("#define STAGES 4", "#define STAGES 8").replace("int s = j % STAGES;", "int s = 0;")
    cells = {"answer": "%%cuda mine\n" + edited.rstrip("\n"), "other": "x = 1"}
    for code, name, given, kind in ((edited, FILE, {}, "edits"), (edited, "mine.cu", cells, "cell"), (edited.replace("int s = 0;", "int s = 1;"), "mine.cu",
            cells, "edits"),
                                    ("__global__ void k() {}", "k.cu", cells, "code")):
        stored = kernel_uses.reference(noted(code, name), False, given)
        assert kind in stored and len(str(stored)) < 1000 and kernel_uses.source(stored, given) == Source(code, name), stored


def test_what_can_no_longer_be_found_is_gone():
    for stored in ({"name": "copy/none.cu"}, {"name": FILE, "edits": [["no such text", "x"]]}, {"name": "x.cu", "cell": "gone", "edits": [["a", "b"]]}):
        assert kernel_uses.digests(kernel_uses.source(stored, {})) == (kernel_uses.GONE, kernel_uses.GONE)


def test_the_hash_without_lines_ignores_moved_lines_and_the_other_does_not():
    text = "extern \"C\" __global__ void k(int* a) {\n    *a = 1;\n}\n"
    plain, moved, changed = (kernel_uses.digests(Source(code, "k.cu")) for code in (text, "// words\n" + text, text.replace("1", "2")))
    assert plain[0] == moved[0] and plain[1] != moved[1] and plain[0] != changed[0]
