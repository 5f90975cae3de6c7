# SPDX-License-Identifier: Apache-2.0
"""The rendered site: what it is made of, alt text on every image, and a check that finds what is broken."""

import nbformat
import pytest

from hopperlab import cli, show
from hopperlab.authoring import build, course, hashes, reference, site

ROOT = hashes.ROOT


@pytest.fixture(scope="module")
def pages():
    return reference.pages(cli.COMMANDS)


@pytest.fixture(scope="module")
def prepared(pages, tmp_path_factory):
    source = tmp_path_factory.mktemp("site") / "source"
    site.prepare(pages, ROOT, source)
    return source


def test_it_holds_every_lesson_page_and_reference(pages, prepared):
    home = (prepared / "index.md").read_text()
    for entry in course.entries(ROOT):
        assert (prepared / "notebooks" / entry.notebook.name).is_file() and f"(notebooks/{entry.notebook.name})" in home
        assert f"\nnotebooks/{entry.notebook.stem}\n" in home
    for path in (ROOT / "docs").glob("*.md"):
        assert f"\ndocs/{path.stem}\n" in home, f"{path.name} is in no menu"
    for name in pages:
        assert f"reference/{name}" in home
    hazards = (prepared / "docs" / "hazards" / "README.md").read_text()
    assert all(f"\n{path.stem}\n" in hazards for path in (ROOT / "docs" / "hazards").glob("*-*.md"))


def test_the_glossary_links_to_the_lessons_there_are(prepared):
    text = (prepared / "docs" / "glossary.md").read_text()
    assert "[lesson 05](../notebooks/05_tma_tiles.ipynb)" in text
    known = {entry.number for entry in course.entries(ROOT)}
    assert all(f"[lesson {number}]" not in text for number in {f"{n:02d}" for n in range(19)} - known)


@pytest.mark.parametrize("path", build.lesson_sources(), ids=lambda path: path.stem)
def test_every_figure_and_panel_has_an_image_with_words(prepared, path):
    notebook = nbformat.read(prepared / "notebooks" / f"{path.stem}.ipynb", as_version=4)
    panels = [cell for cell in build.code_cells(notebook) if "show.panel(" in cell.source]
    assert panels or "Panel" not in path.read_text(encoding="utf-8")
    for cell in build.code_cells(notebook):
        images = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        if images:
            assert 20 <= len(cell.metadata["mystnb"]["image"]["alt"]) <= site.MOST_ALT + 2, cell.id
        assert images or cell not in panels, f"the panel {cell.id} has no stored image"
        assert "widget-view" not in str(cell.outputs)


def test_alt_text_is_one_line_without_markup_and_cut_at_a_word():
    assert site.alt_text("A panel: run the notebook to move its controls. First launch:\ntwo  rows\n<b> `x`") == "two rows  b   x "
    assert site.alt_text(["word " * 200]).endswith("word …") and len(site.alt_text("word " * 200)) <= site.MOST_ALT + 2


def test_a_cuda_cell_is_a_listing_in_cuda_and_keeps_its_place():
    cuda, python = nbformat.v4.new_code_cell("%%cuda ring\nint x;", id="answer"), nbformat.v4.new_code_cell("x = 1", id="check")
    shown = site.readable(nbformat.v4.new_notebook(cells=[cuda, python])).cells
    assert [(cell.id, cell.cell_type) for cell in shown] == [("answer", "markdown"), ("check", "code")]
    assert shown[0].source == "```cuda\n%%cuda ring\nint x;\n```"


def test_the_reference_names_everything_public(pages):
    import hopperlab as hl
    assert all(f"## {name}\n" in pages["hopperlab"] for name in hl.__all__ if not name.startswith("__"))
    assert all(f"## {name}\n" in pages["show"] for name in show.__all__)
    assert all(f"## hopperlab {command.name}\n" in pages["commands"] for command in cli.COMMANDS)
    assert "swizzle.apply" in pages["hopper"] and "kernel_names" in pages["hopperlab"]
    assert "No description." not in pages["hopperlab"] + pages["show"]


def test_the_check_finds_missing_words_pages_and_headings(tmp_path):
    (tmp_path / "a.html").write_text('<img src="x.png"><img src="y.png" alt="_images/y.png"><img src="z.png" alt="a picture of z">'
                                     '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="https://d">4</a><a href="#up">5</a><p id="up">')
    (tmp_path / "b.html").write_text('<p id="there">')
    faults = "\n".join(sorted(site.check(tmp_path)))
    assert faults.count("without alt text") == 2 and "b.html#gone, where" in faults and "c.html, which does not exist" in faults
    assert len(faults.split("\n")) == 4


def test_links_to_files_outside_the_site_become_words(tmp_path):
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    (page.parent / "b.md").write_text("")
    text = "[b](b.md#x) [k](../hopperlab/kernels/x.cu) [w](https://x.y) [n](../notebooks/05.ipynb) ![i](gone.png)"
    assert site._links_to_files_as_words(text, page, tmp_path) == "[b](b.md#x) k (`hopperlab/kernels/x.cu`) [w](https://x.y) [n](../notebooks/05.ipynb) ![i](gone.png)"


def test_the_site_builds_without_a_warning(pages, tmp_path):
    pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site")
    page = site.build(pages, ROOT, tmp_path) / "notebooks" / "05_tma_tiles.html"
    text = page.read_text()
    assert 'alt="' in text and "docs/glossary.html#tma" in text and "counted: 128 bytes" in text


def test_a_broken_link_fails_the_build(tmp_path):
    pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site")
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text("# Glossary\n\n[gone](#no-such-heading)\n")
    with pytest.raises(RuntimeError, match="no-such-heading"):
        site.build({}, tmp_path, tmp_path / "out")
