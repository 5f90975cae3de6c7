# SPDX-License-Identifier: Apache-2.0
"""Panels of the site: what is found in the sources, the bound on settings, what is kept and when it is no longer true, and the command's errors."""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.figure import Figure
from PIL import Image

from hopperlab.authoring import __main__ as command, hashes
from hopperlab.authoring.docs import panel_film
from hopperlab.authoring.notebooks import build
from hopperlab.authoring.panels import panel_cells, panel_grids, panel_outcomes, panel_run
from hopperlab.authoring.site import moving_panels
from hopperlab.hopper.tensormap_fields import TensorMapError
from hopperlab.runtime.errors import ToolchainError
from hopperlab.show import style
from hopperlab.show.panels import Choice, Slider

SOURCE = '''---
title: A lesson
minutes: 1
---
# A lesson

```python id=setup
from hopperlab import show
from hopperlab.show import style
launched = []
```

```python id=unused
raise RuntimeError("nothing needs this cell")
```

```python id=panel ignore
def launch(rows, kind):
    if rows > 256:
        raise ValueError("a box has at most 256 rows")
    launched.append(rows)
    figure, (axis,) = style.new_figure(2)
    axis.barh([0], [min(rows, 128)])
    return show.Picture(figure, f"{min(rows, 128)} rows\\nof any kind")


show.panel(launch, rows=show.Slider("Rows", (64, 128, 256, 512), 128), kind=show.Choice("Kind", ["a", "b"], "a"))
```
'''


@pytest.fixture
def lesson(tmp_path):
    """A root with one lesson of one panel: eight settings, two of them refused, two different pictures."""
    (tmp_path / "notebooks" / "sources").mkdir(parents=True)
    (tmp_path / "notebooks" / "sources" / "05_rows.md").write_text(SOURCE)
    return tmp_path


def only(root: Path) -> panel_cells.PanelCell:
    panel, = panel_cells.cells(folder=root / "notebooks" / "sources")
    return panel


def test_every_panel_of_the_lessons_is_found():
    ends = {(path.stem, cell.id) for path in build.lesson_sources() for cell in nbformat.read(build.notebook_path(path), as_version=4).cells
            if cell.cell_type == "code" and re.search(r"^show\.panel\(", cell.source, re.MULTILINE)}
    found = list(panel_cells.cells())
    assert {(panel.lesson, panel.cell) for panel in found} == ends and len(ends) > 20
    assert set(panel_grids.KEPT) <= {panel.name for panel in found}


@pytest.mark.parametrize("path", build.sources(), ids=lambda path: path.stem)
def test_a_grid_keeps_the_start_and_at_most_200_settings(path):
    for panel in panel_cells.cells([path.stem]):
        _, controls = panel_cells.load(panel)
        chosen = panel_grids.grid(panel.name, controls)
        assert list(chosen) == list(controls) and panel_grids.size(chosen) <= 200
        for name, values in chosen.items():
            every = list(controls[name].values)
            assert controls[name].start in values and values == [value for value in every if value in values]
        whole = panel_grids.size({name: list(control.values) for name, control in controls.items()})
        assert panel_grids.size(chosen) == whole or whole > 200, "a panel whose settings all fit keeps them all"


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 39), st.sampled_from((Slider, Choice))), min_size=1, max_size=6), st.integers(1, 300))
@settings(deadline=None)
def test_a_grid_of_any_controls_is_bounded_and_keeps_the_start(drawn, most):
    controls = {f"c{i}": kind("c", range(values), start % values) for i, (values, start, kind) in enumerate(drawn)}
    chosen = panel_grids.grid("no-such-panel", controls, most)
    every = list(panel_grids.settings(chosen))
    assert len(every) == panel_grids.size(chosen) <= most
    assert {name: control.start for name, control in controls.items()} in every


def test_a_wrong_entry_of_kept_is_named(monkeypatch):
    controls = {"rows": Slider("Rows", range(500), 3)}
    for kept, words in (({"columns": (1,)}, "names \\['columns'\\]"), ({"rows": (1, 999)}, "names \\[999\\]"), ({"rows": 0}, "at least one value"),
                        ({"rows": range(300)}, "leaves 300 settings; at most 200")):
        monkeypatch.setattr(panel_grids, "KEPT", {"p": kept})
        with pytest.raises(ValueError, match=words):
            panel_grids.grid("p", controls)


@pytest.mark.thorough
def test_outcomes_are_what_the_launch_gives_and_equal_pictures_are_kept_once(lesson, tmp_path):
    found = panel_outcomes.compute(only(lesson), tmp_path / "kept")
    assert found.complete and found.settings == 8 and len(list((tmp_path / "kept" / "pictures").iterdir())) == 2
    launch, _ = panel_cells.load(only(lesson))
    for number, rows in enumerate((64, 64, 128, 128, 256, 256)):
        picture, one = launch(rows, "a"), found.outcomes[number]
        assert one.words == picture.text and (tmp_path / "kept" / "pictures" / one.picture).read_bytes() == panel_outcomes.webp(picture)[0]
    assert found.outcomes[7] == panel_outcomes.Outcome("a box has at most 256 rows")
    assert [(control.label, control.kind, control.start, control.of) for control in found.controls] == [("Rows", "slider", 1, 4), ("Kind", "choice", 0, 2)]


def test_a_run_that_was_stopped_goes_on_and_a_change_begins_anew(lesson, tmp_path):
    panel, folder = only(lesson), tmp_path / "kept"
    assert panel_outcomes.compute(panel, folder, until=0).outcomes == {} and panel_outcomes.usable(panel, folder) is None
    whole = panel_outcomes.compute(panel, folder)
    kept = panel_outcomes.read(panel.name, folder)
    assert kept == whole == panel_outcomes.usable(panel, folder)
    told = []
    panel_outcomes.compute(panel, folder, told=lambda done, of: told.append(done))
    assert told == [], "nothing is launched twice"
    (folder / "pictures" / whole.outcomes[0].picture).unlink()
    assert panel_outcomes.usable(panel, folder) is None and panel_outcomes.compute(panel, folder, told=lambda done, of: told.append(done)) == whole and told == [7, 8]
    source = lesson / "notebooks" / "sources" / "05_rows.md"
    source.write_text(SOURCE.replace("of any kind", "of every kind"))
    assert panel_outcomes.usable(only(lesson), folder) is None
    assert panel_outcomes.compute(only(lesson), folder).outcomes[0].words == "64 rows\nof every kind"
    (folder / f"{panel.name}.json").write_text("{")
    assert panel_outcomes.read(panel.name, folder) is None


def test_only_refusals_of_values_are_outcomes(tmp_path):
    def raising(problem):
        def launch(rows):
            raise problem
        return launch
    assert panel_outcomes.outcome("p", raising(TensorMapError("box_dim[0] is 28 bytes")), {"rows": 3}, tmp_path).words == "box_dim[0] is 28 bytes"
    for problem in (ToolchainError("no NVRTC"), TypeError("launch() got an unexpected keyword"), OSError("disk full"), MemoryError()):
        with pytest.raises(panel_outcomes.PanelError, match=f"^p with rows=3: {type(problem).__name__}: {re.escape(str(problem))}"):
            panel_outcomes.outcome("p", raising(problem), {"rows": 3}, tmp_path)


def test_a_cell_that_fails_is_named(lesson):
    source = lesson / "notebooks" / "sources" / "05_rows.md"
    source.write_text(SOURCE.replace("launched = []", "launched = [][0]"))
    with pytest.raises(panel_outcomes.PanelError, match="05_rows-panel: the cells before it failed: IndexError"):
        panel_outcomes.compute(only(lesson), lesson / "kept")


def test_the_page_has_every_outcome_once_and_the_start_without_a_script(lesson, tmp_path):
    folder = tmp_path / "build" / "panels"
    panel_outcomes.compute(only(lesson), folder)
    panels = moving_panels.ready(lesson)
    assert list(panels) == [("05_rows", "panel")]
    moving_panels.copy(panels, folder, tmp_path / "html")
    place = tmp_path / "html" / "_static" / "panels"
    assert {path.name for path in place.iterdir()} == {"panels.js", "panels.css", "05_rows-panel.js", "pictures"} and len(list((place / "pictures").iterdir())) == 2
    data = json.loads((place / "05_rows-panel.js").read_text().split(" = ", 1)[1].rstrip(";\n").split(" = ")[-1])
    assert len(data["outcomes"]) == 8 and len(data["pictures"]) == 2 and sorted(data["lines"]) == ["128 rows", "64 rows", "a box has at most 256 rows", "of any kind"]
    for number, (picture, _, lines) in enumerate(data["outcomes"]):
        one = panels["05_rows", "panel"].outcomes[number]
        assert "\n".join(data["lines"][line] for line in lines) == one.words and (data["pictures"][picture] if picture >= 0 else "") == one.picture


def test_a_panel_takes_the_place_of_its_stored_picture(lesson, tmp_path):
    panel_outcomes.compute(only(lesson), tmp_path / "build" / "panels")
    outputs = [nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(b"stored").decode(), "text/plain": "128 rows"})]
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", id="panel", outputs=outputs)]), tmp_path / "notebooks" / "05_rows.ipynb")
    html = tmp_path / "html"
    (html / "_images").mkdir(parents=True)
    (html / "notebooks").mkdir()
    (html / "_images" / "a1.png").write_bytes(b"stored")
    (html / "_images" / "b2.png").write_bytes(b"another")
    page = html / "notebooks" / "05_rows.html"
    page.write_text('<p>1<img alt="x" src="../_images/b2.png"></p>2<div><a class="r" href="../_images/a1.png"><img alt="y" src="../_images/a1.png" '
                    'width="3">\n</a></div>3')
    assert moving_panels.move(lesson, html).startswith("1 of 1 panels move on their pages (0.0 MB)")
    text = page.read_text()
    assert text.startswith('<p>1<img alt="x" src="../_images/b2.png"></p>2<div><div class="hl-panel"') and text.endswith("</script></div>3") and "a1.png" not in text
    assert 'alt="128 rows of any kind"' in text and "Kind" not in text and (html / "_static" / "panels" / "05_rows-panel.js").is_file()
    page.write_text("no picture")
    with pytest.raises(RuntimeError, match="05_rows.html does not show the stored picture of its cell panel"):
        moving_panels.move(lesson, html)


def test_a_site_without_outcomes_says_how_to_get_them(lesson, tmp_path):
    assert moving_panels.move(lesson, tmp_path) == "0 of 1 panels move on their pages (0.0 MB); make panels launches the rest"


def test_pictures_are_small_and_lose_nothing():
    figure = Figure(figsize=(8, 2), facecolor=style.CARD)
    picture = style.Picture(figure, "nothing")
    content, pixels = panel_outcomes.webp(picture)
    assert pixels == (800, 200) and len(content) < 1000
    again = Image.open(io.BytesIO(content)).convert("RGB")
    assert again.getpixel((400, 100)) == Image.open(io.BytesIO(style.Picture(figure, "").png())).convert("RGB").getpixel((400, 100))


def test_the_command_says_what_is_wrong(capsys):
    assert command.main(["panels", "99"]) == 1 and "no lesson source starts with 99" in capsys.readouterr().err
    for wrong, words in ((["--seconds", "0"], "0 is not above zero"), (["--jobs", "two"], "invalid int value: 'two'"), (["--jobs", "-1"], "-1 is not above zero")):
        with pytest.raises(SystemExit):
            command.main(["panels", *wrong])
        assert words in capsys.readouterr().err


def test_the_command_stops_in_time_and_says_what_is_there(capsys, tmp_path):
    assert panel_run.run(["09x"], seconds=1e-6, jobs=1, folder=tmp_path) == 0
    assert capsys.readouterr().out == f"0 of 1 panels have every setting ({tmp_path})\n" and not list(tmp_path.iterdir())


def test_the_readme_begins_with_a_panel_that_moves():
    first = re.search(r'<img src="([^"]+)"[^>]*alt="([^"]{40,})"', (hashes.ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1])
    path = hashes.ROOT / first[1]
    image = Image.open(path)
    assert path.stat().st_size < panel_film.MOST_BYTES and image.n_frames > 10
    still = re.search(r'prefers-reduced-motion: reduce\)" srcset="([^"]+)"', (hashes.ROOT / "README.md").read_text(encoding="utf-8"))
    assert (hashes.ROOT / still[1]).is_file()


def test_a_film_without_a_browser_says_what_to_install(monkeypatch, tmp_path):
    pytest.importorskip("playwright.sync_api")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(panel_outcomes.PanelError, match="photographed in a browser, and there is none: install Chromium"):
        panel_film.film(tmp_path / "panel.webp")


def test_launching_asks_for_the_emulator_whatever_the_machine_has():
    asked = subprocess.run([sys.executable, "-c", "from hopperlab.authoring.panels import panel_run; panel_run._emulator(); import hopperlab as hl; "
                                                  "print(hl.array_module().__name__)"],
                           env={"PATH": "", "HOPPERLAB_BACKEND": "gpu", "PYTHONPATH": str(hashes.ROOT)}, capture_output=True, text=True, check=False)
    assert asked.stdout.split("\n")[-2] == "numpy", asked.stderr
