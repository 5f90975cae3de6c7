# SPDX-License-Identifier: Apache-2.0
"""A panel's controls in one line, and what it shows of values that the hardware does not allow."""
import pytest

from hopperlab.authoring.panels import panel_cells
from hopperlab.lessons.l09_multistage.overlap import launch_multistage
from hopperlab.lessons.l16b_backward.backward_panels import launch_backward
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


def test_with_a_clock_the_kernel_is_drawn_over_estimated_time(monkeypatch):
    monkeypatch.setattr(panels, "have_widgets", lambda: True)
    found = panels.panel(lambda stages, schedule: launch_multistage(stages, 64, schedule), clock="h200", stages=Slider("Stages", (2, 3, 9), 3),
                         schedule=Choice("Landing", ["lazy"], "lazy"))
    order = found.picture.text
    assert set(found.values) == {"stages", "schedule"} and found.estimate == "" and "estimated" not in found.status + order
    found._inputs[panels.CLOCK].value = "estimated cycles"
    assert found.launches == 2 and found.status.count("an estimated ") == 1 and "no measurement" in found.status and "bound by " in found.status
    assert found.picture.text.startswith("3 stages, BK 64: result right, no hazard") and "mean error" in found.picture.text
    assert "slot 2: copy under way from " in found.picture.text
    found._inputs[panels.CLOCK].value = "estimated microseconds"
    assert "estimated microseconds" in found.picture.figure.axes[0].get_xlabel()
    found._inputs["stages"].value = 9
    assert "Not launched" in found.status
    found._inputs["stages"].value, found._inputs[panels.CLOCK].value = 3, panels.ORDER
    assert found.picture.text == order and found.estimate == ""


def test_of_several_kernels_the_longest_is_drawn():
    picture, told = panels.pictured(launch_backward, {"d": 64, "causal": "no", "dq": "ordered", "length": 100}, "h200", "estimated cycles")
    assert told.startswith("attention_backward: an estimated ") and "attention_backward, block 0: " in picture.text, "not the last of three"


TIMED = [panel for panel in panel_cells.cells() if "clock=" in panel.sources[panel.cell]]


@pytest.mark.parametrize("panel", TIMED, ids=[panel.name for panel in TIMED])
def test_each_panel_with_a_clock_has_an_estimate_and_its_words_fit(panel):
    """At its first setting. A heading begins at the figure's edge and ends before the other one."""
    launch, controls = panel_cells.load(panel)
    starts = {name: control.start for name, control in controls.items()}
    assert "estimated" not in launch(**starts).text
    for axis in ("estimated cycles", "estimated microseconds"):
        picture = launch(**{**starts, panels.CLOCK: axis})
        assert "an estimated " in picture.text and "not measured" in picture.text and "bound by " in picture.text and picture.png()
        box, whole = picture.figure._suptitle.get_window_extent(), picture.figure.bbox
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and len(picture.figure.axes[0].get_yticklabels()) > 1


def test_those_that_draw_an_order_of_events_have_one():
    assert {panel.lesson.split("_")[0] for panel in TIMED} == {"03", "03x", "05x", "08", "09", "10", "12", "13", "16", "16b", "16x"}


def test_a_panel_that_launches_nothing_says_so_where_time_is_asked_for(panel, monkeypatch):
    found = panels.panel(lambda rows: Picture(), clock="h100", rows=Slider("rows", (64, 256), 64))
    found._inputs[panels.CLOCK].value = "estimated cycles"
    assert "not estimated: nothing was launched" in found.status and visibility(found) == {"visible"}
