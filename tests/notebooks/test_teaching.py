# SPDX-License-Identifier: Apache-2.0
"""The workshop guide: its timetables hold the paths' lessons, in order, in slots that are long enough; its commands and code work."""

import re
from itertools import pairwise

import pytest

from hopperlab import cli
from hopperlab.authoring import course, hashes

ROOT = hashes.ROOT
GUIDE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")


def timetable(name):
    """(start in minutes or None, minutes, what) of each row under the heading of one path."""
    part = GUIDE.split(f"### {name}\n")[1].split("\n##")[0]
    for when, minutes, what in re.findall(r"^\| ([^|]*?) \| (\d+) \| (.*?) \|$", part, re.MULTILINE):
        hour, minute = re.search(r"(\d+):(\d+)", when).groups()
        yield "day 2" in when, 60 * int(hour) + int(minute), int(minutes), what


@pytest.mark.parametrize("way", course.WAYS, ids=lambda way: way.name)
def test_a_timetable_holds_the_paths_lessons_and_its_clock_is_right(way):
    rows = list(timetable(way.name))
    lessons = [number for *_, what in rows for number in re.findall(r"^lesson (\d\d)", what)]
    assert lessons == list(way.numbers)
    for (_, start, minutes, what), (new_day, following, *_) in pairwise(rows):
        assert new_day or start + minutes == following, f"after {what} it is not {following // 60}:{following % 60:02d}"
    assert sum(minutes for *_, minutes, what in rows if "lunch" not in what) <= 60 * way.hours + 60


@pytest.mark.parametrize("way", course.WAYS, ids=lambda way: way.name)
def test_every_slot_is_longer_than_its_lesson(way):
    slots = {what[7:9]: minutes for _, _, minutes, what in timetable(way.name) if what.startswith("lesson")}
    for entry in course.on_way(way, course.entries(ROOT))[0]:
        assert slots[entry.number] > entry.minutes, f"lesson {entry.number} takes {entry.minutes} minutes, its slot {slots[entry.number]}"


def test_every_lesson_up_to_15_has_its_row():
    rows = re.findall(r"^\| (\d\d) \|(.*)\|$", GUIDE.split("## What to say")[1].split("\n## ")[0], re.MULTILINE)
    assert [number for number, _ in rows] == [f"{n:02d}" for n in range(16)]
    assert all(len(cells.split(" | ")) == 4 and all(cell.strip() for cell in cells.split(" | ")) for _, cells in rows)


def test_commands_and_options_exist():
    assert set(re.findall(r"(?<!import )hopperlab ([a-z]+)\b", "\n".join(re.findall(r"`[^`]*`|^    .*$", GUIDE, re.MULTILINE)))) <= {c.name for c in cli.COMMANDS}
    parser = cli.parser()
    for line in re.findall(r"hopperlab (queue serve[^\n`)]*)", GUIDE):
        parser.parse_args(line.split())
    assert set(re.findall(r"`make ([a-z-]+)", GUIDE)) <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    from hopperlab.runtime.queue.fair_turns import MOST_WAITING
    assert f"At most {MOST_WAITING} launches" in GUIDE


def test_the_guides_launch_runs(monkeypatch, capsys):
    from hopperlab.runtime.workers import isolated
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    monkeypatch.delenv("HOPPERLAB_QUEUE", raising=False)
    code = next(block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "run_isolated" in block)
    space = {}
    try:
        exec(code, space)       # noqa: S102 - the guide's own code
    finally:
        isolated.end_workers()
    assert (space["x"] == space["y"]).all() and capsys.readouterr().out.startswith("emulator ")
