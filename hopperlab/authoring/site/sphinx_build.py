# SPDX-License-Identifier: Apache-2.0
"""The rendered site: lessons with their stored outputs, exercises, pages of docs/ and the API reference, readable with no kernel.

`make site` writes build/site/html. The sources are laid out as in the repository, so that links hold in both; Sphinx with myst-nb renders
them and executes nothing. A warning, an image without alt text or a link that leads nowhere fails the build.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import nbformat

from ...runtime.language import ENGLISH, LANGUAGES, say
from .. import course, hashes
from ..editions import language_edition
from ..notebooks import colab
from . import home_page, pdf, stored_listings

CONFIGURATION = """# Written by hopperlab.authoring.site.sphinx_build.
project = "hopperlab"
author = "hopperlab"
extensions = ["myst_nb", "hopperlab.authoring.site.sphinx_pages"]
html_theme = "furo"
html_title = "hopperlab"
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_additional_pages = {"search": "search.html"}
html_css_files = ["site.css"]
language = "{language}"
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_number_source_lines = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
pygments_style = "friendly"
pygments_dark_style = "monokai"
"""
THEME = Path(__file__).with_name("theme")
SPHINX = {"zh": "zh_CN"}       # a language as Sphinx calls it
MOST_ALT = 400          # characters of an image's alt text


@dataclass(frozen=True)
class Settings:
    """What a site may have beside its pages. repository: an address that browsers open, or "" for no links to it; branch: what they show; pdf: print the PDFs too;
    languages: further editions, each in a folder of its name with a way back and forth on every page."""

    repository: str = ""
    branch: str = "main"
    pdf: bool = False
    languages: tuple[str, ...] = tuple(code for code in LANGUAGES if code != ENGLISH)


@dataclass(frozen=True)
class Part:
    """One edition on the site: its language, the folder of its course, and the pages of the other one, with the way there from the edition's first page."""

    language: str = ENGLISH
    root: Path = hashes.ROOT
    other: str = ""
    way: str = ""
    pages: tuple[str, ...] = ()


PLAIN = Settings()
PANEL_BEGINS = "A panel: run the notebook to move its controls. First launch:"


def build(reference: Mapping[str, str], root: Path = hashes.ROOT, out: Path | None = None, settings: Settings = PLAIN) -> Path:
    """Prepare, render and check the site; returns the folder of its HTML. reference: the reference's pages in Markdown, by name (reference.pages).

    Raises RuntimeError with what is wrong: faults of the pages, or no browser where PDFs are asked for.
    """
    browser = pdf.find_browser() if settings.pdf else ""
    out = out or root / "build" / "site"
    rendered = out / "html"
    shutil.rmtree(rendered, ignore_errors=True)

    def render(part: Part) -> None:
        english = part.language == ENGLISH
        folder = "" if english else part.language
        _render(reference if english else {}, part, out / f"source{folder}", rendered / folder, settings, browser)

    with ThreadPoolExecutor() as pool:          # each edition in a Sphinx of its own, which one core works on
        list(pool.map(render, _parts(root, reference, settings)))
    faults = list(check(rendered))
    if faults:
        raise RuntimeError("the site has faults:\n" + "\n".join(faults))
    return rendered


def _parts(root: Path, reference: Mapping[str, str], settings: Settings) -> list[Part]:
    """English, then the other editions; each knows the pages of another, English that of the first other language."""
    roots = {to: language_edition.of(root, to) for to in (ENGLISH, *settings.languages)}
    pages = {to: tuple(sorted({"index", "search", *(file.rpartition(".")[0] for file in _files(folder))} - {"notebooks/index"})) for to, folder in roots.items()}
    pages[ENGLISH] += tuple(f"reference/{name}" for name in reference)
    first = next(iter(settings.languages), None)
    english = Part(ENGLISH, root, *((first, f"{first}/", pages[first]) if first else ()))
    return [english, *(Part(to, roots[to], ENGLISH, "../", pages[ENGLISH]) for to in settings.languages)]


def _render(reference: Mapping[str, str], part: Part, source: Path, rendered: Path, settings: Settings, browser: str) -> None:
    """Lay out and render one edition, with its notebooks and PDFs beside its pages. Raises RuntimeError with what Sphinx finds."""
    root = part.root
    shutil.rmtree(source, ignore_errors=True)
    prepare(reference, root, source, settings, part)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(source), str(rendered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Sphinx found faults:\n{(done.stdout + done.stderr).replace(str(source), '…')}")
    for path in (*(entry.notebook for entry in course.entries(root)), *_exercises(root)):
        shutil.copy(path, rendered / path.relative_to(root))
    if settings.pdf:
        pdf.write(browser, rendered, course.entries(root), part.language)


def repository_of(root: Path) -> str:
    """The address of the clone's origin as browsers open it; "" where there is none, or only a path."""
    done = subprocess.run(["git", "-C", str(root), "config", "--get", "remote.origin.url"], capture_output=True, text=True, check=False)
    found = re.fullmatch(r"(?:https://(?:[^/@]*@)?|ssh://git@|git@)([\w.-]+)[/:]([\w./-]+?)(?:\.git)?/?", done.stdout.strip())
    return f"https://{found[1]}/{found[2]}" if found else ""


def _exercises(root: Path) -> list[Path]:
    return sorted((root / "exercises").glob("[0-9]*.ipynb"))


def _files(root: Path) -> list[str]:
    """Sources of pages, as paths below the course's folder."""
    found = [path.relative_to(root) for folder in ("notebooks", "exercises", "docs") for path in (root / folder).rglob("*") if path.suffix in (".md", ".ipynb")]
    return sorted(path.as_posix() for path in found if not {"sources", "slides", *LANGUAGES} & set(path.parts) and not any(name.startswith(".") for name in path.parts))


def _configuration(settings: Settings, part: Part) -> str:
    told = {"repository": settings.repository.removesuffix("/"), "branch": settings.branch, "files": _files(part.root), "language": part.language,
            "other": part.other, "way": part.way, "pages": part.pages}
    options = {"light_css_variables": {"figure-filter": "none", **stored_listings.LIGHT},
               "dark_css_variables": {"figure-filter": "invert(0.91) hue-rotate(180deg)", **stored_listings.DARK}}
    return (f"{CONFIGURATION.replace('{language}', SPHINX.get(part.language, part.language))}hopperlab_site = {told!r}\nhtml_theme_options = {options!r}\n"
            f"html_static_path = [{str(THEME / 'static')!r}]\ntemplates_path = [{str(THEME / 'templates')!r}]\n")


def prepare(reference: Mapping[str, str], root: Path, source: Path, settings: Settings = PLAIN, part: Part | None = None) -> None:
    """Lay out everything that is rendered, with the configuration, in `source`."""
    part = part or Part(root=root)
    source.mkdir(parents=True)
    (source / "conf.py").write_text(_configuration(settings, part), encoding="utf-8")
    shutil.copytree(root / "docs", source / "docs", ignore=shutil.ignore_patterns(".*", *LANGUAGES))
    for path in sorted((source / "docs").rglob("*.md")):
        path.write_text(_links_to_files_as_words(path.read_text(encoding="utf-8"), path, source), encoding="utf-8")
    _link_lessons(root, source / "docs")
    _list_below(source / "docs" / "hazards" / "README.md")
    every = course.entries(root)
    for name, paths in (("notebooks", [entry.notebook for entry in every]), ("exercises", _exercises(root))):
        for path in paths:
            (source / name).mkdir(exist_ok=True)
            nbformat.write(readable(nbformat.read(path, as_version=4)), source / name / path.name)
    (source / "reference").mkdir()
    for name, text in reference.items():
        (source / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    exercises = [f"exercises/{path.stem}" for path in _exercises(root)]
    pdfs = pdf.FILES.items() if settings.pdf else ()
    (source / "index.md").write_text(home_page.home(root, every, exercises, reference, pdfs, part.language), encoding="utf-8")


def _link_lessons(root: Path, docs: Path) -> None:
    """Numbers of lessons in the glossary ("· lesson 05") and in the last column of the cheat sheet become links."""
    by_number = {entry.number: entry.notebook.name for entry in course.entries(root)}
    for page, pattern, words in (("glossary.md", r"(?<=· )lesson (\d\d[a-z]?)$", "lesson "), ("cheat-sheet.md", r"(?<=\| )(\d\d[a-z]?)(?= \|$)", "")):
        if (docs / page).is_file():
            linked = re.sub(pattern, lambda m, words=words: f"[{words}{m[1]}](../notebooks/{by_number[m[1]]})" if m[1] in by_number else m[0],
                            (docs / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
            (docs / page).write_text(linked, encoding="utf-8")


def _list_below(page: Path) -> None:
    """Put the other pages of a folder under its first page in the site's menu."""
    if page.is_file():
        others = "\n".join(sorted(path.stem for path in page.parent.glob("*.md") if path != page))
        page.write_text(f"{page.read_text(encoding='utf-8')}\n```{{toctree}}\n:hidden:\n\n{others}\n```\n", encoding="utf-8")


def readable(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook as a reader without a kernel needs it: widget views and Colab's cell dropped, and on every image its words as alt text."""
    notebook.cells = [_cuda_as_text(cell) for cell in notebook.cells if not colab.is_it(cell)]
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell.outputs:
            data = output.get("data", {})
            data.pop("application/vnd.jupyter.widget-view+json", None)
            if "text/html" in data:
                data["text/html"] = stored_listings.with_classes("".join(data["text/html"]))
            if any(kind.startswith("image/") for kind in data):
                cell.metadata["mystnb"] = {"image": {"alt": alt_text(data.get("text/plain", ""))}}
            if data or output.output_type not in ("display_data", "execute_result"):
                kept.append(output)
        cell.outputs = kept
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), "hide-input"})
    notebook.metadata.pop("widgets", None)
    return notebook


def _cuda_as_text(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A %%cuda cell that shows nothing, or a %%repair cell with what it says, as listings in CUDA and text: the other code cells of a page are Python."""
    from ...lessons.repairs import find

    repair = cell.source.startswith("%%repair ")
    if cell.cell_type != "code" or not repair and (not cell.source.startswith("%%cuda") or cell.outputs):
        return cell
    said = "".join("".join(output.get("text", "")) for output in cell.outputs).rstrip()
    listing = f"```{find(*cell.source.split()[1:3]).language if repair else 'cuda'}\n{cell.source}\n```"
    return nbformat.v4.new_markdown_cell(f"{listing}\n\n```text\n{said}\n```" if said else listing, id=cell.id)


def alt_text(words: str | list[str]) -> str:
    """The plain text of a figure on one line, cut at a word."""
    line = " ".join("".join(words).split())
    for to in LANGUAGES:
        line = line.removeprefix(say(PANEL_BEGINS, to) + " ")
    line = re.sub(r"[\\`<>|]", " ", line)
    return line if len(line) <= MOST_ALT else line[:MOST_ALT].rsplit(" ", 1)[0] + " …"


def _links_to_files_as_words(text: str, page: Path, source: Path) -> str:
    """Links to files of the repository that are not part of the site become plain words with the file's name."""
    def replace(match: re.Match) -> str:
        target = match["target"].split("#")[0]
        inside = not target or "://" in target or target.endswith(".ipynb") or (page.parent / target).exists() and source in (page.parent / target).resolve().parents
        return match[0] if inside else f"{match['words']} (`{target.removeprefix('../')}`)"
    return re.sub(r"(?<!!)\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)", replace, text)


def check(rendered: Path) -> Iterator[str]:
    """Faults of the HTML: images without alt text, and links within the site to pages or anchors that do not exist."""
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(rendered.rglob("*.html"))}
    anchors = {path.resolve(): set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        name = path.relative_to(rendered).as_posix()
        for image in re.findall(r"<img\b[^>]*>", text):
            alt = re.search(r'\balt="([^"]*)"', image)
            if alt is None or len(alt[1]) < 10 or re.match(r"(\.\./)*_images/", alt[1]):
                yield f"{name}: an image without alt text: {image[:160]}"
        for target in set(re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text)):
            place, _, anchor = html.unescape(target).partition("#")
            if re.match(r"[a-z]+:", place):
                continue
            file = (path.parent / unquote(place)).resolve() if place else path.resolve()
            if not file.exists():
                yield f"{name}: a link to {target}, which does not exist"
            elif anchor and file in anchors and unquote(anchor) not in anchors[file]:
                yield f"{name}: a link to {target}, where there is no such heading"
