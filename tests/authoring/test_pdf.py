# SPDX-License-Identifier: Apache-2.0
"""The course on paper: pages joined to one, links that lead inside, and clear words where there is no browser."""

import stat

import pytest

from hopperlab.authoring import course, hashes
from hopperlab.authoring.site import pdf, sphinx_build
from hopperlab.cli import site as command

ROOT = hashes.ROOT
PAGE = '<html><article role="main" id="m"><nav class="page-bar"><a href="x.html">x</a></nav>{}</article></html>'


@pytest.fixture
def rendered(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="_static/site.css" /><style>body { --a: b }</style><img src="_images/p.png" alt="a '
                                         'picture of tiles">')
    (tmp_path / "notebooks" / "05.html").write_text(PAGE.format(
        '<section id="one"><h1>05 · One<a class="headerlink" href="#one">#</a></h1><img src="../_images/y.png" alt="y">'
        '<a class="r" href="#one">1</a><a href="../docs/g.html#tma">2</a><a href="../docs/g.html">3</a><a href="../docs/other.html#x">4</a><a '
        'href="https://a.b/#c">5</a></section>'))
    (tmp_path / "docs" / "g.html").write_text(PAGE.format('<section id="one"><h1>Words</h1><dl id="tma"></dl></section>'))
    return tmp_path


def test_anchors_are_told_apart_and_links_lead_inside(rendered):
    whole = pdf.whole(rendered, ["notebooks/05", "docs/g"])
    assert 'id="notebooks-05--one"' in whole and 'id="docs-g--one"' in whole and 'id="docs-g--tma"' in whole
    assert '<a class="r" href="#notebooks-05--one">1</a><a href="#docs-g--tma">2</a><a href="#docs-g">3</a><a>4</a><a href="https://a.b/#c">5</a>' in whole
    assert 'src="_images/y.png"' in whole and "page-bar" not in whole and "headerlink" not in whole
    assert '<li class="notebooks"><a href="#notebooks-05">05 · One</a></li>' in whole and "a picture of tiles" in whole


def test_one_page_alone_has_no_contents(rendered):
    assert "<nav" not in pdf.whole(rendered, ["docs/g"], front=False)


def test_each_lesson_is_followed_by_its_exercises(rendered):
    lessons = course.entries(ROOT)
    pages = pdf.order(rendered, lessons)
    assert [page for page in pages if page.startswith("notebooks/")] == [f"notebooks/{entry.notebook.stem}" for entry in lessons]
    assert pages[pages.index("exercises/05_tma_tiles") - 1] == "notebooks/05_tma_tiles" and "docs/cheat-sheet" in pages


def without_browser(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(pdf, "PLACES", ())


def test_without_a_browser_nothing_is_built_and_the_way_out_is_named(monkeypatch, tmp_path, capsys):
    without_browser(monkeypatch, tmp_path)
    monkeypatch.setattr(sphinx_build, "prepare", lambda *given: pytest.fail("it began to build"))
    assert command.main(["--pdf", "--repository", "https://github.com/someone/course"]) == 1
    said = capsys.readouterr().err
    assert "apt install chromium" in said and "CHROMIUM" in said and "Traceback" not in said


def test_a_browser_is_found_by_name_or_by_its_variable(monkeypatch, tmp_path):
    without_browser(monkeypatch, tmp_path)
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert pdf.find_browser() == str(program)
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "gone"))
    with pytest.raises(RuntimeError, match="gone is no program"):
        pdf.find_browser()


def test_a_browser_that_prints_nothing_is_quoted(tmp_path, rendered):
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\necho it cannot open the display >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match="it cannot open the display"):
        pdf.to_pdf(str(program), rendered / "index.html", tmp_path / "a.pdf")


def test_help_says_what_it_does(capsys):
    with pytest.raises(SystemExit):
        command.main(["--help"])
    said = capsys.readouterr().out
    assert "--repository" in said and "hopperlab-course.pdf" in said
