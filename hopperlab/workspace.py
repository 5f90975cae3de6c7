"""The learner's copies: `work/`, filled from notebooks/ and exercises/, and one lesson reset from there.

Nothing here overwrites what a learner wrote: `fill` copies only what is missing, `restore` keeps the old file. A copy keeps the
stored outputs but not the execution counts, so that a count says that the learner ran the cell. `work/docs` holds the pages that lessons link to.
"""
from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from urllib.parse import quote

FOLDERS = (("notebooks", ""), ("exercises", "exercises"))       # (where from, where to below work/)
NAMES = ("index.ipynb", "[0-9][0-9]*.ipynb")
KEPT = ".replaced"
COLAB = "colab"         # the tag of a cell that a copy does not need


class WorkspaceError(Exception):
    """The course's files are not where they were looked for, or a lesson does not exist."""


def find_root(start: Path | None = None) -> Path:
    """The course's folder: the nearest one at or above `start` (default: here) that holds notebooks/, else the package's."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents, Path(__file__).resolve().parent.parent):
        if (folder / "notebooks").is_dir() and (folder / "hopperlab").is_dir():
            return folder
    raise WorkspaceError(f"no course found at {start} or above: run this in a clone of the course's repository "
                         "(the folder that holds notebooks/ and hopperlab/)")


def pristine(root: Path) -> dict[Path, Path]:
    """Each notebook of the course by the place of its copy, both absolute."""
    found = {}
    for source, target in FOLDERS:
        for path in (p for name in NAMES for p in sorted((root / source).glob(name))):
            found[root / "work" / target / path.name] = path
    return found


def fill(root: Path) -> list[Path]:
    """Copy every notebook that `work/` lacks; returns the new copies."""
    made = []
    for copy, original in pristine(root).items():
        if not copy.exists():
            _copy(original, copy, root)
            made.append(copy)
    hook, target = root / "exercises" / "conftest.py", root / "work" / "exercises" / "conftest.py"
    if hook.is_file() and target.parent.is_dir():
        shutil.copyfile(hook, target)               # pytest --nbval judges the copies as it does the originals
    return made


def fill_pages(root: Path) -> None:
    """Bring `work/docs` up to date with the course's pages (they are nobody's work, so newer ones replace older ones)."""
    for path in (root / "docs").rglob("*"):
        copy = root / "work" / "docs" / path.relative_to(root / "docs")
        if path.is_file() and not (copy.is_file() and copy.read_bytes() == path.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _copy(original: Path, copy: Path, root: Path) -> None:
    """One notebook as a learner gets it: no execution counts, no cell for Colab, and links to docs/ that hold in work/ and in JupyterLab."""
    document = json.loads(original.read_text(encoding="utf-8"))
    here = copy.parent == root / "work"
    headings = _headings(root / "docs" / "glossary.md")
    document["cells"] = [cell for cell in document["cells"] if COLAB not in cell.get("metadata", {}).get("tags", [])]
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
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


def restore(root: Path, lesson: str) -> list[tuple[Path, Path | None]]:
    """Reset the copies of one lesson, given by number ('05', '5', '05x') or name.

    Returns (copy, where the old one was kept, or None when there was none). Raises WorkspaceError for an unknown lesson.
    """
    originals = {copy: path for copy, path in pristine(root).items() if _matches(path.stem, lesson)}
    if not originals:
        known = ", ".join(sorted({p.stem for p in pristine(root).values()}))
        raise WorkspaceError(f"no lesson {lesson!r}; there are: {known or 'none'}")
    done = []
    for copy, original in originals.items():
        done.append((copy, _keep(copy)))
        _copy(original, copy, root)
    return done


def _matches(stem: str, lesson: str) -> bool:
    number = stem.split("_")[0]
    wanted = Path(lesson).name.removesuffix(".ipynb")
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
