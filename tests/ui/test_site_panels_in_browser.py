# SPDX-License-Identifier: Apache-2.0
"""Panels of the built site, opened from its folder in a browser: what a moved control shows is what the emulator gives for that setting."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support import rendered
from support.once import once
from support.patience import PATIENCE

from hopperlab.authoring import hashes
from hopperlab.authoring.docs import panel_film
from hopperlab.authoring.panels import panel_cells, panel_grids, panel_outcomes
from hopperlab.authoring.site import moving_panels

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
LESSONS = {"08x_wgmma_operands": "lists alone", "01_feeding_the_tensor_core": "sliders alone"}
SIZES = ((390, "light"), (390, "dark"), (1024, "dark"), (1440, "light"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(root, folder of the HTML): the site of the whole course with the panels of LESSONS computed."""
    site = rendered.site(tmp_path_factory)
    place = once(tmp_path_factory, "site-with-panels", lambda place: _with_panels(site, place))
    return place / "course", place / "html"


def _with_panels(site: Path, place: Path) -> None:
    """Launch the settings of the panels of LESSONS and put them into a copy of the site."""
    root = place / "course"
    root.mkdir()
    for name in ("notebooks", "exercises", "docs"):
        (root / name).symlink_to(hashes.ROOT / name, target_is_directory=True)
    for panel in panel_cells.cells(list(LESSONS)):
        if (kept := panel_outcomes.usable(panel)) is not None:          # `make site` has launched them already
            moving_panels.copy({(panel.lesson, panel.cell): kept}, panel_outcomes.FOLDER, root / "kept")
            shutil.copytree(root / "kept" / moving_panels.PLACE / "pictures", root / "build" / "panels" / "pictures", dirs_exist_ok=True)
            shutil.copy(panel_outcomes.FOLDER / f"{panel.name}.json", root / "build" / "panels")
            shutil.rmtree(root / "kept")
        panel_outcomes.compute(panel, root / "build" / "panels")
    shutil.copytree(site, place / "html")
    assert moving_panels.move(root, place / "html").startswith(f"{len(LESSONS)} of ")


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1024, "height": 900})
    page = context.new_page()
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("request", lambda request: page.wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    yield page
    assert page.wrong == [], "an error of a script, or something that is not in the folder"
    context.close()


def opened(page, built, lesson: str):
    """The panel of a lesson's page, as a locator, when its script has run."""
    page.goto((built[1] / "notebooks" / f"{lesson}.html").as_uri())
    page.wait_for_selector(".hl-panel[data-setting]", timeout=20_000 * PATIENCE)
    return page.locator(".hl-panel")


def press(page, panel, control: int, key: str) -> int:
    """Give a control the keyboard and press a key; the number of the setting that the panel then shows."""
    before = panel.get_attribute("data-setting")
    panel.locator("input, select").nth(control).focus()
    page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('.hl-panel').dataset.setting !== before", arg=before, timeout=20_000 * PATIENCE)
    return int(panel.get_attribute("data-setting"))


def shown(panel) -> tuple[bytes, str, str]:
    """The picture's bytes, the words below it and the status line."""
    source = panel.locator("img").evaluate("image => image.complete && image.naturalWidth > 0 ? image.src : ''")
    assert source.startswith("file://"), "the picture is not there"
    return Path(source.removeprefix("file://")).read_bytes(), panel.locator("pre").text_content(), panel.locator("[role=status]").inner_text()


@pytest.mark.parametrize("lesson", LESSONS)
@pytest.mark.sampled(ci=2)
def test_a_moved_control_shows_what_the_emulator_gives(page, built, lesson):
    cell = next(panel_cells.cells([lesson]))
    launch, controls = panel_cells.load(cell)
    every = list(panel_grids.settings(panel_grids.grid(cell.name, controls)))
    panel = opened(page, built, lesson)
    assert page.locator("a:has(.hl-panel), p:has(.hl-panel)").count() == 0
    start, seen = shown(panel), set()
    for control, (name, what) in enumerate(controls.items()):
        there, back = ("ArrowDown", "ArrowUp") if panel.locator("input, select").nth(control).evaluate("e => e.tagName") == "SELECT" else ("ArrowRight", "ArrowLeft")
        if list(what.values)[-1] == what.start:
            there, back = back, there
        values = every[press(page, panel, control, there)]
        assert values == {key: control.start for key, control in controls.items()} | {name: values[name]} and values[name] != what.start
        seen.add(compared(panel, launch, values, f"{what.label} {values[name]}"))
        press(page, panel, control, back)
        assert shown(panel) == start
    assert len(seen - {start[1]}) > 1, "no control changed anything"


def compared(panel, launch, values, words: str) -> str:
    """Assert that the panel shows what `launch` gives for these values; returns its words, or why it refuses."""
    try:
        picture = launch(**values)
    except ValueError as refusal:
        assert panel.locator("[role=status]").text_content() == f"Not launched: {refusal}"
        assert {panel.locator(part).evaluate("e => getComputedStyle(e).visibility") for part in (".hl-panel-figure", ".hl-panel-words")} == {"hidden"}
        return str(refusal)
    content, told, status = shown(panel)
    assert told == picture.text and content == panel_outcomes.webp(picture)[0]
    assert status.startswith("Launched in the emulator: ") and words in status
    return told


def test_every_control_has_a_label_and_its_value_in_words(page, built):
    panel = opened(page, built, "01_feeding_the_tensor_core")
    _, controls = panel_cells.load(next(panel_cells.cells(["01"])))
    for what in controls.values():
        control = page.get_by_label(what.label, exact=True)
        assert control.count() == 1 and control.get_attribute("aria-valuetext") == f"{what.start:g}"
    press(page, panel, 0, "End")
    assert page.get_by_label("BM", exact=True).get_attribute("aria-valuetext") == "256"
    assert 20 < len(panel.locator("img").get_attribute("alt")) <= 400 and panel.get_by_role("group", name="Controls of this panel").count() == 1


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_a_panel_fits_the_page_in_both_themes(chromium, built, shots, width, theme):
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    page = context.new_page()
    for lesson in LESSONS:
        panel = opened(page, built, lesson)
        press(page, panel, 0, "End")
        shots(panel, f"site_panel_{lesson}_{width}_{theme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        right = panel.bounding_box()["x"] + panel.bounding_box()["width"]
        for part in panel.locator("input, select, output, img").all():
            box = part.bounding_box()
            assert box["x"] + box["width"] <= right + 1
    context.close()


def test_without_a_script_the_start_stands_there_with_its_words(chromium, built):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((built[1] / "notebooks" / "01_feeding_the_tensor_core.html").as_uri())
    launch, controls = panel_cells.load(next(panel_cells.cells(["01"])))
    assert page.locator(".hl-panel pre").text_content() == launch(**{name: what.start for name, what in controls.items()}).text
    assert page.locator(".hl-panel img").bounding_box()["height"] > 100
    context.close()


def test_a_film_shows_each_step(chromium, built):
    name = "01_feeding_the_tensor_core-panel"
    folder = built[0] / "build" / "panels"
    frames = panel_film.photographs(chromium, name, panel_outcomes.read(name, folder), [(0, "", 100), (0, "ArrowRight", 100), (1, "ArrowRight", 100)], folder)
    assert len(set(frames)) == 3
    content = panel_film.moving(frames, [100] * 3)
    assert content[:4] == b"RIFF" and len(re.findall(b"ANMF", content)) == 3
