# SPDX-License-Identifier: Apache-2.0
"""What the site is made of: pages, chapters, links and texts, alt text on every image, and a check that finds what is broken. test_site_built.py
looks at a whole build."""

import html
import re
import subprocess

import nbformat
import pytest

from hopperlab import cli, show
from hopperlab.authoring import course, hashes
from hopperlab.authoring.notebooks import build
from hopperlab.authoring.site import home_page, reference, sphinx_build, sphinx_pages
from hopperlab.measure import story

ROOT = hashes.ROOT


@pytest.fixture(scope="module")
def pages():
    return reference.pages(cli.COMMANDS)


@pytest.fixture(scope="module")
def prepared(pages, tmp_path_factory):
    source = tmp_path_factory.mktemp("site") / "source"
    sphinx_build.prepare(pages, ROOT, source)
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


def test_the_cheat_sheet_links_to_the_lessons(prepared):
    text = (prepared / "docs" / "cheat-sheet.md").read_text(encoding="utf-8")
    assert "| [05](../notebooks/05_tma_tiles.ipynb) |\n" in text and not re.search(r"\| \d\dx? \|$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", build.lesson_sources(), ids=lambda path: path.stem)
def test_every_figure_and_panel_has_an_image_with_words(prepared, path):
    notebook = nbformat.read(prepared / "notebooks" / f"{path.stem}.ipynb", as_version=4)
    panels = [cell for cell in build.code_cells(notebook) if "show.panel(" in cell.source]
    assert panels or "Panel" not in path.read_text(encoding="utf-8")
    for cell in build.code_cells(notebook):
        images = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        if images:
            assert 20 <= len(cell.metadata["mystnb"]["image"]["alt"]) <= sphinx_build.MOST_ALT + 2, cell.id
        assert images or cell not in panels, f"the panel {cell.id} has no stored image"
        assert "widget-view" not in str(cell.outputs)


def test_alt_text_is_one_line_without_markup_and_cut_at_a_word():
    assert sphinx_build.alt_text("A panel: run the notebook to move its controls. First launch:\ntwo  rows\n<b> `x`") == "two rows  b   x "
    assert sphinx_build.alt_text(["word " * 200]).endswith("word …") and len(sphinx_build.alt_text("word " * 200)) <= sphinx_build.MOST_ALT + 2


def test_a_cuda_cell_is_a_listing_in_cuda_and_keeps_its_place():
    cuda, python = nbformat.v4.new_code_cell("%%cuda ring\nint x;", id="answer"), nbformat.v4.new_code_cell("x = 1", id="check")
    shown = sphinx_build.readable(nbformat.v4.new_notebook(cells=[cuda, python])).cells
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
                                     '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="https://d">4</a><a '
                                     'href="#up">5</a><p id="up">')
    (tmp_path / "b.html").write_text('<p id="there">')
    faults = "\n".join(sorted(sphinx_build.check(tmp_path)))
    assert faults.count("without alt text") == 2 and "b.html#gone, where" in faults and "c.html, which does not exist" in faults
    assert len(faults.split("\n")) == 4


def test_links_to_files_outside_the_site_become_words(tmp_path):
    page = tmp_path / "docs" / "a.md"
    page.parent.mkdir()
    (page.parent / "b.md").write_text("")
    text = "[b](b.md#x) [k](../hopperlab/kernels/x.cu) [w](https://x.y) [n](../notebooks/05.ipynb) ![i](gone.png)"
    assert sphinx_build._links_to_files_as_words(text, page,
                                                 tmp_path) == "[b](b.md#x) k (`hopperlab/kernels/x.cu`) [w](https://x.y) [n](../notebooks/05.ipynb) ![i](gone.png)"


@pytest.mark.thorough
def test_a_broken_link_fails_the_build(tmp_path):
    pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site")
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text("# Glossary\n\n[gone](#no-such-heading)\n")
    with pytest.raises(RuntimeError, match="no-such-heading"):
        sphinx_build.build({}, tmp_path, tmp_path / "out")


def test_the_first_page_says_what_this_is_in_three_sentences_and_shows_a_picture(prepared):
    text = (prepared / "index.md").read_text(encoding="utf-8")
    opening = text[text.index("hopperlab is a course"):text.index('<p class="buttons">')]
    assert len(re.findall(r"[.!?](?=\s)", opening)) == 3
    picture = re.search(r"!\[([^]]+)\]\(([^)]+)\)", text)
    assert text.index(picture[0]) < text.index(opening) and len(picture[1]) > 40 and (prepared / picture[2]).is_file()


def test_every_lesson_stands_in_one_chapter_and_in_its_menu(prepared):
    every, text = course.entries(ROOT), (prepared / "index.md").read_text(encoding="utf-8")
    listed = [entry for chapter in course.CHAPTERS for entry in course.in_chapter(chapter, every)]
    assert listed == every
    for chapter in course.CHAPTERS:
        part = text.split(f"### {chapter.name}\n")[1].split("\n#")[0]
        assert re.findall(r"^- \[(\w+) ·", part, flags=re.MULTILINE) == [entry.number for entry in course.in_chapter(chapter, every)]
        menu = text.split(f":caption: {chapter.name}\n")[1].split("```")[0]
        assert menu.split() == [f"notebooks/{entry.notebook.stem}" for entry in course.in_chapter(chapter, every)]
    for way in course.WAYS:
        assert f"**{way.name}** ({course.minutes(course.on_way(way, every)[0])} min of lessons)" in text


def test_the_ladders_chart_is_that_of_the_recording():
    told = story.tell(story.read())
    chart = home_page.ladder(told)
    assert [html.unescape(name) for name in re.findall(r"<th scope=\"row\"><code>([^<]+)", chart)] == [step.name for step in told.steps]
    assert re.findall(r'<td class="rate">(\d+)</td>', chart) == [f"{step.tflops:.0f}" for step in told.steps] and html.escape(told.source) in chart
    widths = [float(width) for width in re.findall(r"width: ([\d.]+)%", chart)]
    top = max(told.steps, key=lambda step: step.tflops)
    assert widths.index(max(widths)) == told.steps.index(top) and max(widths) <= 100
    peer = float(re.search(r"--peer: ([\d.]+)", chart)[1])
    assert all((width / 100 > peer) == (step.share > 1) for width, step in zip(widths, told.steps) if abs(step.share - 1) > 0.01)


SETTINGS = {"repository": "https://github.com/someone/course", "branch": "main", "files": ["notebooks/05_tma_tiles.ipynb", "exercises/05_tma_tiles.ipynb",
        "docs/hazards/race.md"]}
PAGES = {"notebooks/05_tma_tiles", "exercises/05_tma_tiles", "notebooks/18_after_hopper"}


def test_a_lesson_links_to_its_exercises_notebook_colab_and_source():
    found = {link["words"]: link["href"] for link in sphinx_pages.links("notebooks/05_tma_tiles", SETTINGS, PAGES)}
    assert found == {"Exercises": "../exercises/05_tma_tiles.html", "Notebook": "../notebooks/05_tma_tiles.ipynb",
                     "Colab": "https://colab.research.google.com/github/someone/course/blob/main/notebooks/05_tma_tiles.ipynb",
                     "Repository": "https://github.com/someone/course/blob/main/notebooks/05_tma_tiles.ipynb"}
    assert [link["words"] for link in sphinx_pages.links("exercises/05_tma_tiles", SETTINGS, PAGES)] == ["Lesson", "Notebook", "Colab", "Repository"]
    assert [link["words"] for link in sphinx_pages.links("notebooks/18_after_hopper", SETTINGS, PAGES)] == ["Notebook", "Colab", "Repository"]


def test_other_pages_link_to_their_source_or_the_repository():
    for page, href in (("docs/hazards/race", "/blob/main/docs/hazards/race.md"), ("reference/show", ""), ("index", ""), ("search", "")):
        assert [(link["words"], link["href"]) for link in sphinx_pages.links(page, SETTINGS, PAGES)] == [("Repository", f"https://github.com/someone/course{href}")]


def test_without_an_address_nothing_is_invented_and_colab_needs_github():
    assert [link["words"] for link in sphinx_pages.links("notebooks/05_tma_tiles", {**SETTINGS, "repository": ""}, PAGES)] == ["Exercises", "Notebook"]
    assert [link["words"] for link in sphinx_pages.links("notebooks/05_tma_tiles", {**SETTINGS, "repository": "https://git.example.org/a/b"},
                                                         PAGES)] == ["Exercises", "Notebook", "Repository"]


@pytest.mark.parametrize("origin, address", [
    ("https://github.com/someone/course.git", "https://github.com/someone/course"), ("git@github.com:someone/course.git", "https://github.com/someone/course"),
    ("ssh://git@git.example.org/group/sub/course", "https://git.example.org/group/sub/course"), ("https://name:word@github.com/someone/course",
            "https://github.com/someone/course"),
    ("/srv/git/course.git", ""), ("file:///srv/course", ""), ("../course", ""), (None, "")])
def test_the_address_is_that_of_the_origin_where_a_browser_can_open_it(origin, address, tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    if origin:
        subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", origin], check=True)
    assert sphinx_build.repository_of(tmp_path) == address


def test_the_search_knows_each_section_by_its_anchor():
    body = """<section id="tiles"><h1>Tiles<a class="headerlink" href="#tiles">#</a></h1><p>One <code>cp.async.bulk</code> &amp; more</p><script>not()</script>
              <section id="deep"><h2>Deep</h2><div class="highlight"><pre><span></span>int <span>x</span>;</pre></div></section><p>behind</p></section>"""
    assert sphinx_pages.sections("docs/a", body) == [["docs/a", "Tiles", "", "Tiles", "One cp.async.bulk & more behind"], ["docs/a", "Tiles", "deep", "Deep", "int x;"]]
