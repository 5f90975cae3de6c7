# SPDX-License-Identifier: Apache-2.0
"""What each cell of a notebook used while it ran, noted in the kernel that runs it: compilations and launches, kernel texts and recordings read.

`install` is called by a cell that execute.py puts before the notebook's own, `write` by one behind them; neither is stored.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from ...measure import recordings
from ...runtime import uses
from ...runtime.kept import forget

KINDS = (uses.COMPILED, uses.LAUNCHED, uses.READ, uses.SHOWN, uses.PLACE, "recordings")


class Recorder:
    """Notes of one cell after the other: the set of things of each kind.

    compiled, launched: nvrtc.Source; read, shown: paths of kernel texts, and of those of which lines are shown; recordings: their names; place: why the output may be
    another one elsewhere: something asked for the place of this process, or was launched there, or another process was started.
    """

    def __init__(self) -> None:
        self.cells: list[dict[str, set]] = []
        self._now: dict[str, set] | None = None

    def begin(self, *_: object) -> None:
        """A cell begins. What functions of the course have read and kept is forgotten, so that a second reader reads again."""
        forget()
        self._now = {kind: set() for kind in KINDS}
        self.cells.append(self._now)

    def end(self, *_: object) -> None:
        """The cell has ended: what happens until the next one belongs to none."""
        self._now = None

    def hear(self, kind: str, what: Any) -> None:
        """A use of the runtime, as uses.tell gives it."""
        if self._now is None:
            return
        if kind == uses.LAUNCHED:
            what, inside = what
            self._now[uses.PLACE] |= set() if inside else {"launched"}
        if what is not None:
            self._now[kind].add(what)

    def audit(self, event: str, arguments: tuple) -> None:
        """Python's audit hook: a recording is a file that is opened; what another process finds out may depend on the machine."""
        if self._now is None:
            return
        if event == "subprocess.Popen":
            self._now[uses.PLACE].add("another process")
        elif event == "open" and isinstance(arguments[0], (str, os.PathLike)):
            path = Path(arguments[0])
            if path.suffix == ".json" and path.parent.parent == recordings.FOLDER:
                board = path.parent.name
                self._now["recordings"].add(path.stem if board == recordings.LESSONS_BOARD else f"{board}/{path.stem}")

    def notes(self) -> list[dict[str, list]]:
        """What JSON can hold of it, in a fixed order; a Source becomes a dictionary."""
        return [{kind: sorted((asdict(one) if is_dataclass(one) else one for one in found), key=str) for kind, found in cell.items()} for cell in self.cells]


_installed: list[tuple[Recorder, Any]] = []


def install(shell: Any) -> None:
    """Note what every cell uses that this IPython shell runs from now on."""
    recorder = Recorder()
    listening = uses.telling(recorder.hear)
    listening.__enter__()
    sys.addaudithook(recorder.audit)
    shell.events.register("pre_run_cell", recorder.begin)
    shell.events.register("post_run_cell", recorder.end)
    _installed.append((recorder, listening))


def write(path: str) -> None:
    """Write the notes of all cells so far to a file, as JSON; the last one, which asks for it, is left out."""
    recorder, _ = _installed[-1]
    recorder.end()
    Path(path).write_text(json.dumps(recorder.notes()[:-1]), encoding="utf-8")
