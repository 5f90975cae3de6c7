# SPDX-License-Identifier: Apache-2.0
"""Every lesson's room: what it offers exists and is what its notebook uses, and whoever wants only its exercises loads no figure."""
import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from hopperlab import lessons, measure
from hopperlab.lessons import l00_start_here, l03_ampere_pipeline, l05_tma_tiles, rooms

FOLDER = Path(lessons.__file__).parent
ROOT = FOLDER.parent.parent
ROOMS = sorted(path.parent.name for path in FOLDER.glob("l*/__init__.py"))
USED = re.compile(r"(?<![\w.])lesson\.([A-Za-z_]\w*)")


def notebooks(room):
    """The text of the room's notebook and, where it has one, of its solution."""
    paths = [ROOT / "notebooks" / f"{room[1:]}.ipynb", ROOT / "solutions" / f"{room[1:]}.ipynb"]
    return "\n".join("".join(cell["source"]) for path in paths if path.exists() for cell in json.loads(path.read_text())["cells"])


def test_every_lesson_has_a_room_and_every_room_a_lesson():
    assert ROOMS == sorted("l" + path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_offers_what_its_notebook_uses_and_nothing_else(room):
    offered = import_module(f"hopperlab.lessons.{room}")
    assert set(USED.findall(notebooks(room))) == set(offered.__all__)
    for name in offered.__all__:
        assert getattr(offered, name) is not None


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_is_that_of_a_module(room):
    """Once imported, the module would stand in the place of the name."""
    assert not {path.stem for path in (FOLDER / room).glob("*.py")} & set(import_module(f"hopperlab.lessons.{room}").__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_offers_can_be_read_without_importing_it(room):
    homes = rooms.read(ast.parse((FOLDER / room / "__init__.py").read_text(encoding="utf-8")))
    offered = import_module(f"hopperlab.lessons.{room}")
    assert sorted(homes) == offered.__all__
    for name, home in homes.items():
        assert getattr(import_module(home, f"hopperlab.lessons.{room}"), name) is getattr(offered, name)


def test_a_room_has_no_other_names():
    with pytest.raises(AttributeError, match="l00_start_here' has no attribute 'no_such'"):
        _ = l00_start_here.no_such


def test_exercises_load_no_figures():
    code = "import sys; from hopperlab.lessons import catalogue; assert catalogue.every(); print([m for m in ('matplotlib', 'ipywidgets') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("draw, name", [(l03_ampere_pipeline.stages_chart, "stages"), (l05_tma_tiles.boxes_chart, "tma_vs_cp_async"),
                                        (l05_tma_tiles.boxes_table, "tma_vs_cp_async"), (l00_start_here.folds_table, "bugs"), (l03_ampere_pipeline.best_depth, "stages")])
def test_stored_recordings_can_be_drawn(draw, name):
    drawn = draw(measure.load(name))
    text = drawn if isinstance(drawn, str) else drawn.text
    assert len(text.split("\n")) >= 2
