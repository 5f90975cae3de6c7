# SPDX-License-Identifier: Apache-2.0
"""A panel's controls in one line, and what it shows of values that the hardware does not allow."""
import pytest

from hopperlab.show import panels
from hopperlab.show.panels import Choice, Slider


class Picture:
    text = "a tile"

    def png(self):
        return b"png"


@pytest.fixture
def panel(monkeypatch):
    monkeypatch.setattr(panels, "have_widgets", lambda: True)

    def launch(rows, kind, elements):
        if rows > 256:
            raise ValueError("a box has at most 256 rows")
        return Picture()
    return panels.panel(launch, rows=Slider("rows", (64, 256, 512), 64), kind=Choice("kind", ("a", "b"), "a"),
                        elements=Slider("a row of the tile", (8, 16), 8, "elements"))


def visibility(panel) -> set[str]:
    return {panel._image.layout.visibility, panel._words.layout.visibility}


def test_a_picture_of_other_values_does_not_stand_under_a_refusal(panel):
    assert panel.launches == 1 and visibility(panel) == {"visible"}
    panel._inputs["rows"].value = 512
    assert "Not launched: a box has at most 256 rows" in panel.status and visibility(panel) == {"hidden"} and panel.launches == 1
    panel._inputs["rows"].value = 256
    assert visibility(panel) == {"visible"} and panel.launches == 2


def test_labels_take_the_same_width_and_all_fit(panel):
    widths = {widget.style.description_width for widget in panel._inputs.values()}
    assert widths == {f"{len('a row of the tile (elements)') + 1}ch"}
    assert len({widget.layout.width for widget in panel._inputs.values()}) == 1
