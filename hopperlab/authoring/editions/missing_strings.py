# SPDX-License-Identifier: Apache-2.0
"""Which strings a lesson shows that no table has: its notebook is run in the other language, and what is looked up in vain is noted (runtime/language.py)."""
from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

import nbformat

from ...lessons.repairs import every as repairs
from ...runtime import language
from ..notebooks import build, execute

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w.]|\.\d)")


def lines(sources: Iterable[Path], to: str) -> Iterator[str]:
    """Lines of TOML, `"English" = ""`, for what the notebooks of these sources show. Raises what nbclient raises where a cell fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "missing"
        file.touch()
        with mock.patch.dict(os.environ, {language.VARIABLE: to, language.NOTE_MISSING: str(file)}):
            for path in sources:
                notebook = nbformat.read(build.notebook_path(path), as_version=4)
                execute.run(notebook, path.parent.parent, "emulator")
                hints = [repair.hint for (lesson, _), repair in repairs().items() if lesson == path.stem.split("_")[0]]
                for hint in hints:
                    language.say(hint)
        found = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        yield from (f'{json.dumps(text, ensure_ascii=False)} = ""' for text in dict.fromkeys(with_places(text) for text in found if not text.startswith(execute.MARK)))


def with_places(text: str) -> str:
    """A string with places, {0} to {9}, for its numbers."""
    places = iter(range(10))

    def place(number: re.Match[str]) -> str:
        at = next(places, None)
        return number[0] if at is None else f"{{{at}}}"
    return NUMBER.sub(place, text)
