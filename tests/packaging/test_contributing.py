# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md: the plan of the rooms is that of the imports, in text and picture; what the recipes name is there. The other papers of the repository can be read."""
import re

import pytest
import yaml

import hopperlab
from hopperlab.authoring.docs import room_plan

ROOT = room_plan.hashes.ROOT
PAGE = room_plan.PAGE.read_text(encoding="utf-8")
RECIPES = {"An instruction": 3, "A hazard": 4, "A lesson": 4, "An exercise": 3, "A recording": 3, "A peer": 2}


@pytest.mark.thorough
def test_the_plan_on_the_page_and_the_picture_are_those_of_the_imports():
    assert room_plan.block() in PAGE, "run python -m hopperlab.authoring rooms"
    assert room_plan.drawn_from(room_plan.PICTURE) == room_plan.plan(), "run python -m hopperlab.authoring rooms"


@pytest.fixture
def house(tmp_path):
    """A package of three rooms: attic imports hall relatively and cellar inside a function; hall imports cellar by its full name."""
    texts = {"__init__": "", "attic/__init__": '"""Old things. Nobody goes there."""', "attic/box": "from ..hall import door\ndef f():\n    from .. import cellar\n",
             "hall/__init__": '"""Where one comes in"""', "hall/door": "import small.cellar.wine\nfrom . import mat", "hall/mat": "import json",
             "cellar/__init__": '"""Below."""', "cellar/wine": "import numpy", "empty/__init__": "", "outside": "from .attic import box"}
    for name, text in texts.items():
        path = tmp_path / "small" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "small"


def test_rooms_and_arrows_come_from_the_imports(house):
    rooms = room_plan.rooms(house)
    assert [(room.name, room.holds, room.uses) for room in rooms] == [
        ("cellar", "Below", ()), ("hall", "Where one comes in", ("cellar",)), ("attic", "Old things", ("cellar", "hall"))]
    assert room_plan.arrows(rooms) == [("hall", "cellar"), ("attic", "hall")], "the way from attic to cellar leads over hall"
    assert room_plan.told(house).splitlines()[:2] == ["attic        Old things", "             imports cellar, hall"]


def test_a_new_import_changes_the_plan(house):
    before = room_plan.told(house)
    (house / "cellar" / "wine.py").write_text("from ..attic import box")
    room_plan.rooms.cache_clear()
    assert room_plan.told(house) != before
    rooms = room_plan.rooms(house)
    assert {("cellar", "attic"), ("attic", "cellar")} <= set(room_plan.arrows(rooms)), "in a circle every arrow is drawn"


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_touch_few_files_and_those_are_there(name):
    text = PAGE.split(f"### {name}\n")[1].split("\n#")[0]
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) <= RECIPES[name]
    paths = [path for path in re.findall(r"`([\w/]+/[\w./]*)`", text) if not re.search(r"[A-Z]{2}", path)]
    for path in paths:
        assert (ROOT / path).exists() or (ROOT / "hopperlab" / path).exists(), f"{name} names {path}"
    for pattern in re.findall(r"`([\w/]+/[\w./]*[A-Z]{2}[\w./]*)`", text):           # of NN_topic: the folder above, and that files of this form are there
        start = re.split(r"[A-Z]{2}", pattern)[0]
        folder, begin = start.rsplit("/", 1)
        homes = [home for home in (ROOT / folder, ROOT / "hopperlab" / folder) if home.is_dir()]
        assert homes and any(one.name.startswith(begin) for one in homes[0].iterdir()), f"{name} names {pattern}"


def test_the_citation_and_the_changelog_know_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == hopperlab.__version__ and citation["license"] == "Apache-2.0"
    assert citation["cff-version"] == "1.2.0" and citation["title"] and citation["authors"] and citation["message"]
    assert f"## {hopperlab.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
