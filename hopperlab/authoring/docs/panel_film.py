# SPDX-License-Identifier: Apache-2.0
"""The README's moving picture: a panel of the site, moved by keys in a browser and photographed at each step (`python -m hopperlab.authoring pictures`).

What is photographed is what a page shows: outcomes of the emulator (panel_outcomes), the script and look of moving_panels. Needs Playwright and a Chromium.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...show import style
from ..panels import panel_cells, panel_outcomes
from ..panels.panel_outcomes import Panel, PanelError
from ..site import moving_panels
from ..site.pdf import find_browser

LESSON, CELL = "09_multistage", "panel"
Step = tuple[int, str, int]                 # the number of a control, the key it gets, and the milliseconds that the picture then stays
STEPS: Sequence[Step] = ((0, "", 1800), (0, "ArrowLeft", 1800), *((0, "ArrowRight", 1000),) * 5, (0, "ArrowRight", 2600), (0, "Home", 1400), (0, "ArrowRight", 1200),
                         (1, "ArrowDown", 1800), (1, "ArrowUp", 1200), (2, "ArrowDown", 1600), (2, "Home", 1200),
                         (3, "ArrowDown", 2600), (0, "ArrowLeft", 2600), (0, "ArrowRight", 1200), (0, "ArrowRight", 2200), (3, "Home", 1200))
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
MOST_BYTES = 1_000_000
PAGE = """<!doctype html><meta charset="utf-8"><style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 0; background: #fff; color: #1a1a1a; height: 900px; }}
.hl-panel {{ width: {width}px; margin: 0; }} .hl-panel-words, .hl-panel-note {{ display: none; }} .hl-panel-status {{ height: 1.4em; min-height: 0; }}</style>{block}"""


def film(target: Path) -> Path:
    """Write the moving picture (WebP, at most MOST_BYTES) to `target`. Raises PanelError without Playwright or Chromium, or when it becomes too large."""
    panel = next(panel for panel in panel_cells.cells([LESSON]) if panel.cell == CELL)
    with chromium() as browser:
        kept = panel_outcomes.usable(panel) or panel_outcomes.compute(panel)
        content = moving(photographs(browser, panel.name, kept, STEPS), [step[2] for step in STEPS])
    if len(content) > MOST_BYTES:
        raise PanelError(f"{target.name} would have {len(content):,} bytes, more than {MOST_BYTES:,}: take fewer steps")
    target.write_bytes(content)
    return target


@contextmanager
def chromium() -> Iterator[Any]:
    """A Chromium without a window. Raises PanelError where Playwright or every Chromium is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise PanelError("Playwright is not installed: pip install -e .[test]") from None
    try:
        path = find_browser("A moving picture is photographed in")
    except RuntimeError as problem:
        raise PanelError(str(problem)) from None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


def photographs(browser: Any, name: str, panel: Panel, steps: Sequence[Step], folder: Path = panel_outcomes.FOLDER) -> list[bytes]:
    """The panel after each step, as PNGs of one size."""
    width, pixels = style.COLUMN, max(one.pixels[0] for one in panel.outcomes.values())
    lesson, _, cell = name.partition("-")
    with tempfile.TemporaryDirectory() as place:
        moving_panels.copy({(lesson, cell): panel}, folder, Path(place))
        file = Path(place) / "page" / "index.html"
        file.parent.mkdir()
        file.write_text(PAGE.format(width=width, block=moving_panels.block(name, panel)), encoding="utf-8")
        page = browser.new_page(viewport={"width": width + 60, "height": 1000}, device_scale_factor=pixels / width)      # a picture's dot is a dot
        page.goto(file.as_uri())
        tallest = max(page.locator(".hl-panel-figure").bounding_box()["height"] for _ in _walk(page, name, steps))
        page.reload()
        page.add_style_tag(content=f".hl-panel-figure {{ height: {math.ceil(tallest)}px; }}")
        found = [page.locator(".hl-panel").screenshot() for _ in _walk(page, name, steps)]
        page.close()
    return found


def _walk(page: Any, name: str, steps: Sequence[Step]) -> Iterator[None]:
    """Press the keys, one after the other; each time the picture has followed, it is the caller's turn."""
    page.wait_for_selector(".hl-panel[data-setting]")
    for number, key, _ in steps:
        before = page.locator(".hl-panel").get_attribute("data-setting")
        page.locator(f"[id='{name}-{number}']").focus()
        if key:
            page.keyboard.press(key)
            page.wait_for_function("before => document.querySelector('.hl-panel').dataset.setting !== before", arg=before)
        yield


def moving(frames: Sequence[bytes], milliseconds: Sequence[int]) -> bytes:
    """PNGs as one lossless WebP that begins anew when it has ended."""
    from PIL import Image

    first, *others = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in frames]
    content = io.BytesIO()
    first.save(content, format="WEBP", save_all=True, append_images=others, duration=list(milliseconds), loop=0, lossless=True, method=6, minimize_size=True)
    return content.getvalue()
