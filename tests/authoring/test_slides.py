# SPDX-License-Identifier: Apache-2.0
"""Slides: a deck takes figures, texts, titles and minutes from the stored lessons, says where it asks for what is not there, and renders without a network."""

import base64
import re

import nbformat
import pytest

from hopperlab.authoring import __main__ as command, course, hashes
from hopperlab.authoring.site import slides

DECKS = sorted((hashes.ROOT / "notebooks" / "slides").glob("*.md"))
LESSON = nbformat.v4.new_notebook(metadata={"hopperlab": {"title": "Tiles", "minutes": 30}}, cells=[
    nbformat.v4.new_code_cell("", id="printed", outputs=[nbformat.v4.new_output("stream", name="stdout", text="one\ntwo\nthree\n")]),
    nbformat.v4.new_code_cell("", id="drawn", outputs=[nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(b"png").decode(),
            "text/plain": "a [tile]"})])])


@pytest.fixture
def deck(tmp_path):
    """A function that fills a deck of these lines over a course of one lesson."""
    (tmp_path / "notebooks").mkdir()
    nbformat.write(LESSON, tmp_path / "notebooks" / "05_tiles.ipynb")

    def filled(text):
        (tmp_path / "deck.md").write_text(text)
        return slides.filled(tmp_path / "deck.md", tmp_path, tmp_path / "figures")
    return filled


def test_a_deck_takes_what_the_lesson_stores(deck, tmp_path):
    assert deck("# {{title 05_tiles}}: {{minutes 05_tiles}}") == "# Tiles: 30"
    assert deck("{{stored 05_tiles/printed}}") == "```text\none\ntwo\nthree\n```"
    assert deck("{{stored 05_tiles/printed 2-3}}") == "```text\ntwo\nthree\n```"
    assert deck("![](stored:05_tiles/drawn)") == "![a (tile)](figures/05_tiles-drawn.png)"
    assert (tmp_path / "figures" / "05_tiles-drawn.png").read_bytes() == b"png"


@pytest.mark.parametrize(("asked", "told"), [
    ("{{title 06_none}}", "there is no lesson 06_none"), ("{{stored 05_tiles/gone}}", "the lesson has no code cell gone"),
    ("{{stored 05_tiles/drawn}}", "the cell drawn of 05_tiles prints nothing"), ("![](stored:05_tiles/printed)", "the cell printed of 05_tiles shows no figure"),
    ("{{stored 05_tiles/printed 2-4}}", "prints 3 lines, not 4"), ("{{stored 05_tiles/printed 0-1}}", "prints 3 lines, not 1")])
def test_what_is_not_there_is_named_with_its_line(deck, asked, told):
    with pytest.raises(slides.DeckError, match=f"^deck.md:3: .*{told}"):
        deck(f"# A deck\n\n{asked}")


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.stem)
def test_every_slide_has_notes_and_nothing_is_left_to_fill(path, tmp_path):
    text = slides.filled(path, hashes.ROOT, tmp_path / "figures")
    assert "{{" not in text and "stored:" not in text
    for slide in re.split(r"^(?=#{1,3} )", text, flags=re.MULTILINE)[1:]:
        assert slide.count("```{revealjs-notes}") == 1, slide.split("\n")[0]
    assert len(list((tmp_path / "figures").iterdir())) >= 10


def test_half_a_day_follows_its_path_through_the_course(tmp_path):
    text = slides.filled(hashes.ROOT / "notebooks" / "slides" / "half_day.md", hashes.ROOT, tmp_path / "figures")
    way = next(way for way in course.WAYS if way.name == "Half a day")
    chosen, missing = course.on_way(way, course.entries(hashes.ROOT))
    parts = [part for part in re.findall(r"^## (.+)$", text, flags=re.MULTILINE) if part in {entry.title for entry in course.entries(hashes.ROOT)}]
    assert parts == [entry.title for entry in chosen] and not missing
    assert [f"| {entry.number} | {entry.title} | {entry.minutes} min |" in text for entry in chosen] == [True] * len(chosen)


def test_the_command_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(slides.importlib.util, "find_spec", lambda name: None)
    assert command.main(["slides"]) == 1 and "make slides installs it" in capsys.readouterr().err


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    pytest.importorskip("sphinx_revealjs", reason="what renders slides is not installed: make site")
    return slides.build(out=tmp_path_factory.mktemp("slides"))


def test_they_render_with_notes_and_need_no_network(rendered):
    assert [page.stem for page in rendered] == [path.stem for path in DECKS]
    text = rendered[0].read_text()
    assert text.count('<aside class="notes">') == text.count("<h1>") + text.count("<h2>") + text.count("<h3>") > 40
    files = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert not [file for file in files if file.startswith(("http:", "https:", "//"))]
    assert all((rendered[0].parent / file.split("?")[0]).is_file() for file in files if not file.startswith("#"))
