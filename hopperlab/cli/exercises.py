# SPDX-License-Identifier: Apache-2.0
"""`hopperlab check NN[.M]` and `hopperlab assign`: a learner's own check from the shell, and a class's own edition."""
from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path

ONE = re.compile(r"(\d\d[a-z]?)\.\d+")       # an exercise's id


def check(given: argparse.Namespace) -> int:
    """Judge the answers saved in one exercise notebook, or one of them; prints a line or a message for each, in the notebook's language. 0: all
    right, 1: not yet, 2: no such notebook or exercise."""
    import nbformat

    import hopperlab as hl

    from ..authoring.learner import workspace
    from ..checking import check as checks
    from ..lessons import catalogue
    from ..grading import generate, pristine
    from ..runtime.language import language_of, say

    try:
        path = _notebook(given, workspace)
        answers = generate.answers_of(nbformat.read(path, as_version=4))
        original = nbformat.read(pristine.pristine_of(path), as_version=4)
        kinds = generate.CHECK, generate.FAST
        checked = _checked([cell for cell in original.cells if (generate.role(cell) or ("",))[0] in kinds], given.notebook, lambda cell: generate.role(cell)[1])
    except (workspace.WorkspaceError, pristine.PristineError, OSError, nbformat.reader.NotJSONError) as problem:
        print(f"hopperlab check: {problem}", file=sys.stderr)
        return 2
    wrong, to = set[str](), language_of(path)
    print(say(f"checking {path}", to), flush=True)
    for cell in checked:
        role = generate.role(cell)
        number = role[1].replace(".", "-")
        text = answers.get(f"{generate.ANSWER}-{number}")
        if role[1] in wrong:                            # what is not right is told once, and not asked for its speed
            continue
        if text is None:
            wrong.add(role[1])
            print(say(f"{role[1]} has no answer cell in this notebook any more; `hopperlab restore` gives a fresh copy", to))
            continue
        verdict = checks.judge(catalogue.find(role[1]), text, pristine.constants_of(cell.source), gpu=hl.backend() == "gpu", fast=role[0] == generate.FAST)
        wrong |= set() if verdict.right else {role[1]}
        print(say(str(verdict), to), flush=True)
        if verdict.beside:
            print(say(verdict.beside, to), flush=True)
    return 1 if wrong else 0


def _notebook(given: argparse.Namespace, workspace) -> Path:
    """The file that is named, or the saved notebook of that lesson: your copy, else the one in exercises/ here, also where that is a plain copy of
    the folder outside of the course."""
    from ..runtime import launch_file
    lesson = ONE.fullmatch(given.notebook)
    name = lesson[1] if lesson else given.notebook
    if given.notebook.endswith(".ipynb"):
        path = Path(given.notebook)
        if not path.is_file():
            raise workspace.WorkspaceError(f"there is no notebook {path}")
        return path
    if Path(name).suffix or Path(name).name != name:
        raise workspace.WorkspaceError(f"{name} is neither a lesson's number, such as 04, nor an exercise notebook (.ipynb)"
                                       + (f"; `hopperlab sanitize {name}` looks for hazards in it" if launch_file.is_kernel_file(name) else ""))
    root = workspace.find_root(given.course)
    work = workspace.find_work(root, given.course)
    for folder in _copies(Path.cwd(), root, work) + ([work / "exercises"] if work else []) + [root / "exercises"]:
        found = sorted(path for path in folder.glob("[0-9]*.ipynb") if workspace.matches(path.stem, name))
        if found:
            return found[0]
    known = ", ".join(path.name.split("_")[0] for path in sorted((root / "exercises").glob("[0-9]*.ipynb")))
    raise workspace.WorkspaceError(f"there are no exercises to lesson {name}; there are some to: {known}")


def _copies(here: Path, root: Path, work: Path | None) -> list[Path]:
    """Folders exercises/ at or above `here` that are neither the course's nor a working folder's: somebody has copied them."""
    above = [here.resolve(), *here.resolve().parents]
    if root in above or work in above:
        return []
    return [folder for place in above for folder in (place / "exercises", place) if folder.name == "exercises" and folder.is_dir()]


def _checked(cells: list, asked: str, name_of) -> list:
    """The check cells that are asked for: those of one exercise ('04.2'), or all. Raises WorkspaceError for an exercise that is not there."""
    from ..authoring.learner import workspace

    if not ONE.fullmatch(asked):
        return cells
    chosen = [cell for cell in cells if name_of(cell) == asked]
    if not chosen:
        raise workspace.WorkspaceError(f"there is no exercise {asked}; the notebook has: {', '.join(dict.fromkeys(map(name_of, cells)))}")
    return chosen


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `hopperlab check`."""
    parser.add_argument("notebook", metavar="NN", help="the lesson's number, such as 04, one exercise, such as 04.2, or an exercise notebook's file")
    parser.add_argument("--course", type=Path, metavar="FOLDER", help="the course's folder (default: found from here upwards)")


def assign(given: argparse.Namespace) -> int:
    """Write a class's own edition. 0: written, 2: bad input."""
    from ..authoring.learner import workspace
    from ..grading import assign as editions

    try:
        if given.rekey:
            print(f"a new key stands in {editions.rekey(given.rekey)}; constants and learners' notebooks are as they were")
            return 0
        if given.out is None:
            raise editions.AssignError("--out is needed: a new or empty folder")
        root = workspace.find_root(given.course)
        made = editions.write(root, given.out, given.key, given.lessons, lambda line: print(line, flush=True))
    except (workspace.WorkspaceError, editions.AssignError) as problem:
        print(f"hopperlab assign: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)     # that the cell which ran has not ended is no news
        raise
    print(f"give learners {made.learners}\nkeep         {made.instructor} (hidden checks, solutions and the key)\n"
          f"grade with   hopperlab grade SUBMISSIONS --assignment {made.instructor}")
    return 0


def assign_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `hopperlab assign`."""
    parser.add_argument("lessons", nargs="*", help="lesson numbers, such as 04 05 (default: all that have exercises)")
    parser.add_argument("--key", help="the class's secret, of at least 128 bits such as 32 hexadecimal digits: constants, inputs and hidden checks are drawn from it "
                                      "(default: a random one, which instructor/edition.json keeps)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--rekey", type=Path, metavar="DIR",
                        help="give the edition in DIR a new random key instead: constants and learners' notebooks stay, hidden checks change")
    parser.add_argument("--course", type=Path, metavar="FOLDER", help="the course's folder (default: found from here upwards)")
