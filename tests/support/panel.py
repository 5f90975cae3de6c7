# SPDX-License-Identifier: Apache-2.0
"""Driving a lesson's panel in a browser: its launch count, its picture, and its controls by keyboard and by mouse."""

from __future__ import annotations

import re
import time

from .patience import PATIENCE

DIGEST = """async (image) => {
    const bytes = await (await fetch(image.src)).arrayBuffer();
    const digest = await crypto.subtle.digest('SHA-256', bytes);
    return Array.from(new Uint8Array(digest)).map(b => b.toString(16).padStart(2, '0')).join('');
}"""
LIMIT = 60 * PATIENCE  # seconds until a moved control has launched


class PanelDriver:
    """The last panel of the page, or the one with a control called `label`. Controls are numbered among their kind, sliders and lists apart, in the
    order they stand in."""

    def __init__(self, page, label: str = ""):
        self.page = page
        control = f':has(.widget-label:text-is("{label}"))' if label else ""
        self.box = page.locator(f".jp-OutputArea-output:has(.widget-image){control}").last

    @property
    def status(self) -> str:
        """The status line's text."""
        return self.box.locator("[role=status]").inner_text()

    @property
    def launches(self) -> int:
        """The number in the status line."""
        found = re.search(r"Launches: (\d+)", self.status)
        assert found, f"the status line says: {self.status!r}"
        return int(found[1])

    def figure(self) -> str:
        """The picture's digest: equal exactly when the picture is."""
        return self.page.evaluate(DIGEST, self.box.locator("img.widget-image").element_handle())

    def key(self, slider: int, key: str = "ArrowRight") -> None:
        """Press a key on a slider's handle."""
        self._press(self.box.locator(".noUi-handle").nth(slider), key)

    def drag(self, slider: int, pixels: int) -> None:
        """Drag a slider's handle sideways."""
        spot = self.box.locator(".noUi-handle").nth(slider).bounding_box()
        x, y = spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + pixels, y, steps=6)
        self.page.mouse.up()

    def list_key(self, number: int, key: str = "ArrowDown") -> None:
        """Open a drop-down list with Space, press a key, and choose with Enter. (Closed, the notebook takes its arrow keys.)"""
        self._press(self.box.locator(".widget-dropdown select").nth(number), "Space", key, "Enter")

    def pick(self, number: int, label: str) -> None:
        """Choose an entry of a drop-down list as a mouse does."""
        self.box.locator(".widget-dropdown select").nth(number).select_option(label=label)

    def chosen(self, number: int) -> str:
        """The entry a drop-down list shows."""
        return self.box.locator(".widget-dropdown select").nth(number).evaluate("list => list.options[list.selectedIndex].text")

    def first(self, number: int) -> bool:
        """Whether a drop-down list shows its first entry."""
        return self.box.locator(".widget-dropdown select").nth(number).evaluate("list => list.selectedIndex === 0")

    def launched(self, before: int, figure: str) -> None:
        """Wait until there are more launches than `before`, and another picture than `figure`."""
        self._until(lambda: self.launches > before, f"no launch after the first {before}")
        self._until(lambda: self.figure() != figure, "the launch changed no picture")

    def relaunched(self, before: int) -> None:
        """Wait until there are more launches than `before` (its picture may be the same: another schedule, the same result)."""
        self._until(lambda: self.launches > before, f"no launch after the first {before}")

    def refused(self, words: str) -> None:
        """Wait until the status line says that nothing was launched, and why."""
        self._until(lambda: "Not launched" in self.status and words in self.status, f"the panel does not say {words!r}")

    def _press(self, control, *keys: str) -> None:
        """Focus a control and press the keys; again where a busy page has lost them, which shows in no new launch and no refusal."""
        before = self.status
        for _ in range(4):
            control.focus()
            for key in keys:
                self.page.keyboard.press(key)
                self.page.wait_for_timeout(150)
            deadline = time.monotonic() + 6 * PATIENCE
            while time.monotonic() < deadline:
                if self.status != before:
                    return
                self.page.wait_for_timeout(150)

    def _until(self, test, what: str) -> None:
        deadline = time.monotonic() + LIMIT
        while not test():
            assert time.monotonic() < deadline, f"{what}: {self.status}"
            self.page.wait_for_timeout(150)
