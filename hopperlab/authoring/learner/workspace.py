# SPDX-License-Identifier: Apache-2.0
"""The learner's copies: a working folder, filled from the course's notebooks and exercises, and one lesson reset from there.

In a clone the working folder is `work/`; where the package was installed from a wheel, which carries the course, it is any folder that `start` laid out.
Nothing here overwrites what a learner wrote: `fill` copies only what is missing, `restore` keeps the old file. A copy keeps the
stored outputs but not the execution counts, so that a count says that the learner ran the cell; cells that answer a prediction or a vote come empty.
Its `docs` holds the pages that lessons link to.
"""
from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from urllib.parse import quote

from ...runtime.language import ENGLISH

FOLDERS = (("notebooks", ""), ("exercises", "exercises"))       # (where from, where to below work/)
NAMES = ("index.ipynb", "[0-9][0-9]*.ipynb")
KEPT = ".replaced"
CARRIED = Path(__file__).resolve().parents[2] / "course"        # a wheel's notebooks, exercises and docs (hatch_build.py)
MARKER = ".hopperlab"   # the file that makes a folder a working folder
FIRST_NAME = "hopperlab-course"
MARKER_TEXT = "A working folder of the course: `hopperlab lab` opens it, `hopperlab restore 05` resets a lesson and its exercises. Files here are yours.\n"
LANGUAGE_LINE = "language: "
COLAB = "colab"         # the tag of a cell that a copy does not need
ANSWERS = re.compile(r"\.beside\(")        # in a cell that shows the answer to a prediction or a vote (show/voting.py)


class WorkspaceError(Exception):
    """The course's files are not where they were looked for, or a lesson does not exist."""


def find_root(start: Path | None = None) -> Path:
    """The course's folder: the nearest clone at or above `start` (default: here), else the clone that the package lies in, else what its wheel carries.

    Of a folder that is named (`start`) nothing else is taken in its place: a clone, or a working folder that `lay_out` made, has to lie there or above.
    Raises WorkspaceError where there is none.
    """
    named, start = start, (start or Path.cwd()).resolve()
    above = (start, *start.parents)
    if named is not None and not start.is_dir():
        raise WorkspaceError(f"there is no folder {named}")
    for folder in (*above, CARRIED.parents[1]):
        if (folder / "notebooks").is_dir() and (folder / "hopperlab").is_dir() and (named is None or folder in above or _laid_out(start)):
            return folder
    if (CARRIED / "notebooks").is_dir() and (named is None or CARRIED in above or _laid_out(start)):
        return CARRIED
    if named is not None:
        raise WorkspaceError(f"no course at {named} or above: name a clone of the course's repository (the folder that holds notebooks/ and hopperlab/), or a "
                             "working folder that `hopperlab start` laid out")
    raise WorkspaceError(f"no course found at {start} or above, and none came with this installation: run this in a clone of the course's repository "
                         "(the folder that holds notebooks/ and hopperlab/), or install a wheel of hopperlab")


def _laid_out(start: Path) -> bool:
    """Whether a working folder lies at or above `start`, or is the one that `hopperlab lab` makes in it."""
    return any((folder / MARKER).is_file() for folder in (start / FIRST_NAME, start, *start.parents))


def find_work(root: Path, start: Path | None = None) -> Path | None:
    """The working folder of the course at `root`: the nearest at or above `start` that `start` laid out, else a clone's work/.

    None where a wheel's course has not been laid out here.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / MARKER).is_file():
            return folder
        if folder == root:
            break
    if root == CARRIED and (start / FIRST_NAME / MARKER).is_file():
        return start / FIRST_NAME
    return None if root == CARRIED else root / "work"


def language_of(work: Path) -> str:
    """The language of the edition that a working folder holds; English where its marker names none."""
    text = (work / MARKER).read_text(encoding="utf-8") if (work / MARKER).is_file() else ""
    return next((line.removeprefix(LANGUAGE_LINE).strip() for line in text.split("\n") if line.startswith(LANGUAGE_LINE)), ENGLISH)


def for_language(work: Path | None, root: Path, start: Path, asked: str | None) -> tuple[Path, str]:
    """The working folder to use and its language, from the one that was found (find_work) and the language asked for (None: the folder's own).

    A language that the folder does not hold has a folder of its own: work/zh in a clone, hopperlab-course-zh here elsewhere.
    """
    own = language_of(work) if work else ENGLISH
    to = asked or own
    if work is not None and to == own:
        return work, to
    name = FIRST_NAME if to == ENGLISH else f"{FIRST_NAME}-{to}"
    if root == CARRIED:
        return start / name, to
    return (root / "work" if to == ENGLISH else root / "work" / to), to


def lay_out(root: Path, work: Path, to: str = ENGLISH) -> list[Path]:
    """Make `work` a working folder, or bring one up to date; returns the new copies. to: the language of the edition at `root`.

    Raises WorkspaceError for a file, for a folder that already holds something else, and for a place that cannot be written to.
    """
    work = work.resolve()
    if work.exists() and not work.is_dir():
        raise WorkspaceError(f"{work} is a file: name a new or empty folder")
    if (work / MARKER).is_file() and language_of(work) != to:
        raise WorkspaceError(f"{work} holds the course in another language ({language_of(work)}): name another folder, or leave --lang out")
    mine = (work / MARKER).is_file() or work == root / "work"
    if not mine and work.is_dir() and any(not path.name.startswith(".") for path in work.iterdir()):
        raise WorkspaceError(f"{work} is not empty: name a new or empty folder, such as {work / FIRST_NAME}")
    try:
        work.mkdir(parents=True, exist_ok=True)
        if work != root / "work":
            (work / MARKER).write_text(MARKER_TEXT + (f"{LANGUAGE_LINE}{to}\n" if to != ENGLISH else ""), encoding="utf-8")
        made = fill(root, work)
        fill_pages(root, work)
    except OSError as problem:
        raise WorkspaceError(f"{work} cannot be written to: {problem.strerror or problem}") from None
    return made


def pristine(root: Path, work: Path | None = None) -> dict[Path, Path]:
    """Each notebook of the course by the place of its copy in `work` (default: work/ of the course), both absolute."""
    found = {}
    for source, target in FOLDERS:
        for path in (p for name in NAMES for p in sorted((root / source).glob(name))):
            found[(work or root / "work") / target / path.name] = path
    return found


def fill(root: Path, work: Path | None = None) -> list[Path]:
    """Copy every notebook that the working folder lacks; returns the new copies."""
    work = work or root / "work"
    made = []
    for copy, original in pristine(root, work).items():
        if not copy.exists():
            _copy(original, copy, root, work)
            made.append(copy)
    hook, target = root / "exercises" / "conftest.py", work / "exercises" / "conftest.py"
    if hook.is_file() and target.parent.is_dir():
        shutil.copyfile(hook, target)               # pytest --nbval judges the copies as it does the originals
    return made


def fill_pages(root: Path, work: Path | None = None) -> None:
    """Bring the working folder's docs up to date with the course's pages (they are nobody's work, so newer ones replace older ones)."""
    for path in (root / "docs").rglob("*"):
        copy = (work or root / "work") / "docs" / path.relative_to(root / "docs")
        if path.is_file() and not (copy.is_file() and copy.read_bytes() == path.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _copy(original: Path, copy: Path, root: Path, work: Path) -> None:
    """One notebook as a learner gets it: no execution counts, no answers before they are asked for, no cell for Colab, links to docs/ that hold in `work` and in Lab."""
    document = json.loads(original.read_text(encoding="utf-8"))
    here = copy.parent == work
    headings = _headings(root / "docs" / "glossary.md")
    document["cells"] = [cell for cell in document["cells"] if COLAB not in cell.get("metadata", {}).get("tags", [])]
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
            if ANSWERS.search("".join(cell["source"])):
                cell["outputs"] = []
        elif here:
            lines = [cell["source"]] if isinstance(cell["source"], str) else cell["source"]
            lines = [re.sub(r"(\]\(|href=\")\.\./(docs|exercises)/", r"\1\2/", line) for line in lines]
            cell["source"] = [re.sub(r"(glossary\.md#)([\w-]+)", lambda m: m[1] + headings.get(m[2], m[2]), line) for line in lines]
        else:
            lines = [cell["source"]] if isinstance(cell["source"], str) else cell["source"]
            cell["source"] = [line.replace("](../notebooks/", "](../") for line in lines]
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _headings(page: Path) -> dict[str, str]:
    """JupyterLab's name of each heading of a page by GitHub's: the one keeps capitals and dots, the other drops them."""
    found = re.findall(r"^### (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE) if page.is_file() else []
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-"): quote(name.replace(" ", "-")) for name in found}


def restore(root: Path, lesson: str, work: Path | None = None) -> list[tuple[Path, Path | None]]:
    """Reset the copies of one lesson, given by number ('05', '5', '05x') or name.

    Returns (copy, where the old one was kept, or None when there was none). Raises WorkspaceError for an unknown lesson.
    """
    work = work or root / "work"
    originals = {copy: path for copy, path in pristine(root, work).items() if matches(path.stem, lesson)}
    if not originals:
        known = ", ".join(sorted({p.stem for p in pristine(root).values()}))
        raise WorkspaceError(f"no lesson {lesson!r}; there are: {known or 'none'}")
    done = []
    for copy, original in originals.items():
        done.append((copy, _keep(copy)))
        _copy(original, copy, root, work)
    return done


def matches(stem: str, lesson: str) -> bool:
    """Whether a notebook's name is meant by '05', '5', '05x', '05X', its name or its file."""
    number = stem.split("_")[0]
    wanted = Path(lesson).name.removesuffix(".ipynb").lower()
    short = re.fullmatch(r"(\d)(x?)", wanted)
    return wanted in (stem, number) or bool(short and number == f"0{short[1]}{short[2]}")


def _keep(copy: Path) -> Path | None:
    if not copy.exists():
        return None
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = copy.parent / KEPT / f"{copy.stem}-{stamp}{copy.suffix}"
    kept.parent.mkdir(exist_ok=True)
    count = 1
    while kept.exists():
        count += 1
        kept = kept.with_name(f"{copy.stem}-{stamp}-{count}{copy.suffix}")
    copy.rename(kept)
    return kept
