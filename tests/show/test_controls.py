# SPDX-License-Identifier: Apache-2.0
"""Panels and questions without a browser: launches are counted, illegal choices explained, Run All never blocked."""

import pytest

from hopperlab import show
from hopperlab.show import widgets


@pytest.fixture(params=["text", "widgets"])
def place(request, monkeypatch):
    """Once without ipywidgets, once with (outside a kernel a widget still keeps its value and calls its observers)."""
    if request.param == "widgets":
        pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
    for module in ("widgets", "panels", "voting"):
        monkeypatch.setattr(f"hopperlab.show.{module}.have_widgets", lambda: request.param == "widgets")
    return request.param


@pytest.fixture
def live(monkeypatch):
    """With widgets only: the controls move and answers are typed."""
    pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
    for module in ("widgets", "panels", "voting"):
        monkeypatch.setattr(f"hopperlab.show.{module}.have_widgets", lambda: True)


def draw(stages):
    if stages > 4:
        raise ValueError(f"{stages} stages need more shared memory than there is")
    return show.stage_diagram(stages, 6)


def test_panel_launches_once_at_first(place):
    panel = show.panel(draw, stages=show.Slider("Stages", range(2, 7), 3))
    assert panel.launches == 1 and panel.status.startswith("Launches: 1.")
    data, _ = panel._repr_mimebundle_()
    assert data["image/png"] == panel.picture.png() and "First launch" in data["text/plain"]
    assert ("application/vnd.jupyter.widget-view+json" in data) == (place == "widgets")


def test_panel_follows_its_controls_and_explains_what_it_refuses(live):
    panel = show.panel(draw, stages=show.Slider("Stages", range(2, 7), 3))
    before = panel._image.value
    panel._inputs["stages"].value = 4
    assert panel.launches == 2 and panel._image.value != before
    shown = panel._image.value
    panel._inputs["stages"].value = 5
    assert panel.launches == 2 and panel._image.value == shown
    assert "Not launched: 5 stages need more shared memory than there is" in panel._line.value
    panel._inputs["stages"].value = 2
    assert panel.launches == 3 and "Not launched" not in panel._line.value


def test_panel_says_that_it_launches_before_it_has(live):
    seen = []
    panel = show.panel(lambda stages: seen.append(panel._line.value if seen else "") or draw(stages), stages=show.Slider("Stages", range(2, 7), 3))
    panel._inputs["stages"].value = 4
    assert "Launches: 1. Launching …" in seen[1] and "Launching" not in panel._line.value


def test_panel_with_an_illegal_start_still_shows_why(place):
    panel = show.panel(draw, stages=show.Slider("Stages", range(2, 7), 6))
    assert panel.launches == 0 and "Not launched" in panel.status
    assert panel._repr_mimebundle_()[0]["text/plain"]


def test_prediction_without_an_answer_blocks_nothing(place):
    guess = show.predict("How many bytes?", "bytes")
    assert guess.value is None
    assert "no prediction" in guess.sentence(128)
    assert "How many bytes?" in guess._repr_mimebundle_()["text/plain"]


def test_prediction_stands_beside_the_measurement(place):
    guess = show.predict("How many bytes?", "bytes", value=64)
    assert guess.sentence(128, "counted") == "You said 64; counted: 128 bytes. That is 0.50 times the counted value."
    assert "exactly right" in guess.sentence(64)


def test_a_later_prediction_updates_the_line(live):
    guess = show.predict("How many bytes?", "bytes")
    line = guess.beside(128)
    guess._field.value = "1,280"
    assert guess.value == 1280 and "10.00 times" in line._widget.value
    guess._field.value = "many"
    assert guess.value is None and "no prediction" in line._widget.value


def test_vote_beside_the_verdict(place):
    ballot = show.vote("Which?", {"a": "one", "b": "two"})
    assert "not voted" in ballot.sentence({"a": True, "b": False})
    if place == "widgets":
        line = ballot.beside({"a": True, "b": False})
        ballot._ticks["b"].value = True
        assert ballot.choice == {"b"} and "0 of 2 judged rightly" in line._widget.value
    with pytest.raises(KeyError):
        ballot.beside({"a": True})


def test_no_widgets_outside_ipython():
    assert widgets.have_widgets() is False
