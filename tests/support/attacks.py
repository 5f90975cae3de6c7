# SPDX-License-Identifier: Apache-2.0
"""Attacks on grading, as data: answers from tests/grading/attacks/*.toml, notebooks from the functions below."""
from __future__ import annotations

import copy
import json
import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.classroom import PHASES, RING, notebook, right

FOLDER = Path(__file__).resolve().parents[1] / "grading" / "attacks"
ROOT = Path(__file__).resolve().parents[2]
FOLD = 'extern "C" __global__ void fold(const float* x, float* y, int tiles) {{\n{}\n}}\n'
UNIQUE = 10**8 + os.getpid()
ENTRY = {"name", "tries", "cell", "body", "stopped", "says", "seconds", "notebook", "refused", "leftover"}


@dataclass(frozen=True)
class Answer:
    """One attack by an answer. `stopped`: the steps that may stop it; `says`: a regular expression for the finding; `notebook`: also run by
    nbval (`refused`: what nbval_run must say then); `leftover`: words of a process that must not be left."""

    name: str
    exercise: str
    text: str
    stopped: tuple[str, ...]
    says: str = ""
    seconds: float = 10.0
    notebook: bool = False
    refused: str = ""
    leftover: str = ""


def answers() -> list[Answer]:
    """Every attack by an answer."""
    return [_answer(entry, file.stem) for file in sorted(FOLDER.glob("*.toml"))
            for entry in tomllib.loads(file.read_text(encoding="utf-8"))["attack"]]


def _answer(entry: dict, kind: str) -> Answer:
    assert set(entry) <= ENTRY and entry["tries"], entry["name"]
    text = entry["cell"] if "cell" in entry else _cuda(entry["body"]) if kind == "cuda" else _python(entry["body"])
    kept = {key: entry[key] for key in ("says", "seconds", "notebook", "refused", "leftover") if key in entry}
    return Answer(f"{kind}-{entry['name']}", "04.2" if kind == "cuda" else "04.1", text, tuple(entry["stopped"]), **kept)


def _cuda(body: str) -> str:
    return "%%cuda ring\n" + FOLD.format(body)


def _python(body: str) -> str:
    lines = body.strip("\n").split("\n")
    indented = "\n".join(line if line.startswith("    ") else f"    {line}" for line in lines)
    return f"COUNT = 2\n\n\ndef phases(events):\n{indented}\n    return [0 for _ in events]\n"


def written(text: str, canary: Path) -> str:
    """The answer as it is handed in: {canary} is a file of the grader, {folder} its folder, {root} the course,
    {unique} a number that no other process has, {many x} 70,000 x."""
    for word, value in (("{canary}", canary), ("{folder}", canary.parent), ("{root}", ROOT), ("{unique}", UNIQUE)):
        text = text.replace(word, str(value))
    return re.sub(r"\{many ([^}]+)\}", lambda found: found[1] * (70_000 if found[1] == "x" else 10_000), text)


# --- notebooks --------------------------------------------------------------------------------------------------------
FORGED = "04.2 is right: 4 shapes under 8 schedules, no hazard, 16 requirements met\n"
PATCH = "import hopperlab as hl\nhl.check = lambda *a, **k: print('04.1 is right: 4 cases')\nimport builtins\nbuiltins.isinstance = lambda *a: True"


def unsolved() -> dict[str, Any]:
    """The notebook that a learner gets, as plain data."""
    return json.loads(json.dumps(notebook({})))


def _cell(document: dict, name: str) -> dict:
    return next(cell for cell in document["cells"] if cell["id"] == name)


def _code(source: str, name: str) -> dict:
    return {"cell_type": "code", "id": name, "metadata": {}, "source": source, "outputs": [], "execution_count": 1}


def check_prints(document: dict) -> None:
    """The check cell prints the expected text."""
    _cell(document, "check-04-2")["source"] = f"print({FORGED!r}, end='')"


def check_deleted(document: dict) -> None:
    """No check cell is left."""
    document["cells"] = [cell for cell in document["cells"] if not cell["id"].startswith(("check", "hidden"))]


def counts_cleared(document: dict) -> None:
    """nbval compares nothing in cells without a count."""
    for cell in document["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = None, []


def outputs_forged(document: dict) -> None:
    """What the wrong answer prints is stored as what is expected."""
    for name in ("check-04-1", "check-04-2"):
        _cell(document, name)["outputs"] = [{"output_type": "error", "ename": "CheckFailed", "evalue": "", "traceback": []}]


def cell_that_patches(document: dict) -> None:
    """A new first cell replaces the check."""
    document["cells"].insert(0, _code(PATCH, "setup-0"))


def setup_that_patches(document: dict) -> None:
    """The setup cell replaces the check."""
    _cell(document, "setup")["source"] = PATCH


def cells_reordered(document: dict) -> None:
    """Checks before answers."""
    document["cells"].reverse()


def ids_exchanged(document: dict) -> None:
    """The check's id on the answer, the answer's on a cell that patches."""
    _cell(document, RING)["id"] = "check-04-2"
    document["cells"].append(_code(PATCH, RING))
    for cell in document["cells"]:
        cell["metadata"].pop("nbgrader", None)


def ids_twice(document: dict) -> None:
    """Every answer twice, the second one with other code."""
    document["cells"] += [_code(PATCH, name) for name in (PHASES, RING)]


def ids_with_paths(document: dict) -> None:
    """Ids that lead elsewhere when they become names of files."""
    for cell in document["cells"]:
        cell["id"] = f"../../{cell['id']}"
        cell["metadata"].pop("nbgrader", None)


def tags_of_nbval(document: dict) -> None:
    """Every cell is to be skipped, or may raise."""
    for cell in document["cells"]:
        cell["metadata"]["tags"] = ["nbval-skip", "nbval-raises-exception", "nbval-ignore-output"]


def another_kernel(document: dict) -> None:
    """The notebook names a kernel of its own."""
    document["metadata"]["kernelspec"] = {"name": "bash", "display_name": "bash", "argv": ["bash", "-c", "touch {canary}"], "language": "bash"}


def points_of_its_own(document: dict) -> None:
    """The metadata promise a thousand points."""
    for cell in document["cells"]:
        cell["metadata"]["nbgrader"] = {"grade": True, "points": 1000, "grade_id": cell["id"], "schema_version": 3, "solution": True, "locked": False, "task": False}


def answers_as_text(document: dict) -> None:
    """The answers are no code cells any more."""
    for name in (PHASES, RING):
        _cell(document, name)["cell_type"] = "markdown"


def answers_patch(document: dict) -> None:
    """The answers themselves patch package, builtins, comparison and nbval."""
    for name in (PHASES, RING):
        _cell(document, name)["source"] = PATCH + "\nimport nbval.plugin\nnbval.plugin.IPyNbCell.compare_outputs = lambda *a, **k: True"


CHANGES: list[Callable[[dict], None]] = [check_prints, check_deleted, counts_cleared, outputs_forged, cell_that_patches, setup_that_patches, cells_reordered,
                                         ids_exchanged, ids_twice, ids_with_paths, tags_of_nbval, another_kernel, points_of_its_own, answers_as_text,
                                         answers_patch]


def changed(change: Callable[[dict], None]) -> bytes:
    """The unsolved notebook after a change, as a file's bytes."""
    document = copy.deepcopy(unsolved())
    change(document)
    return json.dumps(document).encode()


def broken() -> dict[str, bytes]:
    """Files that are no notebook to take, by what they try."""
    solved = json.dumps(json.loads(json.dumps(notebook(right()))))
    document = json.loads(solved)
    return {
        "no-json": b'{"cells": [', "empty": b"", "a-list": b"[]", "nested-json": b'{"cells": ' + b"[" * 500_000, "long-number": b'{"nbformat": ' + b"9" * 10_000 + b"}",
        "nbformat-3": json.dumps({**document, "nbformat": 3}).encode(), "nbformat-4000": json.dumps({**document, "nbformat": 4000}).encode(),
        "nbformat-of-text": json.dumps({**document, "nbformat": "4"}).encode(), "cells-of-another-kind": json.dumps({**document, "cells": {"0": 1}}).encode(),
        "very-many-cells": json.dumps({**document, "cells": [{}] * 100_000}).encode(), "utf-16": solved.encode("utf-16"), "utf-32": solved.encode("utf-32"),
        "latin-1": solved.replace("COUNT", "ÇOUNT").encode().decode("unicode_escape").encode("latin-1", "replace").replace(b"\xc3\x87", b"\xc7"),
        "utf-7": b"+/v8-" + solved.encode(), "a-pickle": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    }
