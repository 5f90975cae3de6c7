# SPDX-License-Identifier: Apache-2.0
"""What a panel shows under each setting of its grid, launched in the emulator and kept in build/panels: `python -m hopperlab.authoring panels`.

One file a panel says what came of each setting; pictures lie beside it, named by their content, so that equal ones are kept once. A file belongs to
one hash of what its outcomes are made of (panel_cells.made_of): after a change the panel begins anew, otherwise where the last run ended.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...emulator import EmulatorError, UnsupportedInstruction
from ...runtime.errors import CompileError, ToolchainError
from ...show import style
from ...show.panels import Choice, Slider
from .. import hashes
from . import panel_cells, panel_grids

FOLDER = hashes.ROOT / "build" / "panels"
PICTURES = "pictures"
SAVE_EVERY = 5.0            # seconds between two writes of a panel's file
REFUSALS = (ValueError, CompileError, EmulatorError)         # what a launch raises for values that the hardware does not allow; the notebook's panel shows it


class PanelError(RuntimeError):
    """A panel that cannot be computed here; the message names it, and the setting."""


@dataclass(frozen=True)
class Control:
    """A control as the page shows it. kind: 'slider' or 'choice'; values: in words; start: the index of the first one shown; of: how many the notebook has."""

    label: str
    kind: str
    values: list[str]
    start: int
    of: int


@dataclass(frozen=True)
class Outcome:
    """What one setting shows: the file of its picture, its size in pixels and width on the page, and the same in words; or why nothing was launched."""

    words: str
    picture: str = ""
    pixels: tuple[int, int] = (0, 0)
    width: int = 0


@dataclass
class Panel:
    """A panel's file. outcomes: by the number of the setting, the last control moving fastest."""

    made_of: str
    controls: list[Control]
    settings: int
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """True when every setting has its outcome: only then the site shows it."""
        return len(self.outcomes) == self.settings


def read(name: str, folder: Path = FOLDER) -> Panel | None:
    """What is kept of a panel; None where nothing is, or what is there cannot be read."""
    try:
        kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        outcomes = {int(number): Outcome(**one | {"pixels": tuple(one["pixels"])}) for number, one in kept["outcomes"].items()}
        return Panel(kept["made_of"], [Control(**one) for one in kept["controls"]], kept["settings"], outcomes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def usable(panel: panel_cells.PanelCell, folder: Path = FOLDER) -> Panel | None:
    """What is kept of a panel if it is complete and made of what is there today, with every picture; else None."""
    kept = read(panel.name, folder)
    if kept is None or not kept.complete or kept.made_of != panel_cells.made_of(panel):
        return None
    return kept if all((folder / PICTURES / one.picture).is_file() for one in kept.outcomes.values() if one.picture) else None


def compute(panel: panel_cells.PanelCell, folder: Path = FOLDER, until: float = float("inf"), told: Callable[[int, int], None] = lambda done, of: None) -> Panel:
    """Launch what is missing of a panel's grid, until `time.time()` reaches `until`; what is finished is kept. told: called with how many of how many are there.

    Raises PanelError when a cell that the panel needs fails, or a launch for another reason than its values.
    """
    made_of, kept = panel_cells.made_of(panel), read(panel.name, folder)
    try:
        launch, controls = panel_cells.load(panel)
    except Exception as problem:
        raise PanelError(f"{panel.name}: the cells before it failed: {type(problem).__name__}: {problem}") from problem
    chosen = panel_grids.grid(panel.name, controls)
    shown = [_control(controls[name], values) for name, values in chosen.items()]
    found = Panel(made_of, shown, panel_grids.size(chosen))
    if kept is not None and (kept.made_of, kept.controls) == (made_of, shown):
        found.outcomes = {number: one for number, one in kept.outcomes.items() if not one.picture or (folder / PICTURES / one.picture).is_file()}
    saved = time.time()
    try:
        for number, values in enumerate(panel_grids.settings(chosen)):
            if number in found.outcomes or time.time() >= until:
                continue
            found.outcomes[number] = outcome(panel.name, launch, values, folder / PICTURES)
            told(len(found.outcomes), found.settings)
            if time.time() > saved + SAVE_EVERY:
                saved = _write(panel.name, found, folder)
    finally:
        _write(panel.name, found, folder)
    return found


def outcome(name: str, launch: Callable[..., style.Picture], values: Mapping[str, Any], pictures: Path) -> Outcome:
    """Launch one setting and keep its picture in `pictures`. Raises PanelError for what is no refusal."""
    try:
        picture = launch(**values)
    except Exception as problem:
        if not isinstance(problem, REFUSALS) or isinstance(problem, (ToolchainError, UnsupportedInstruction)):
            raise PanelError(f"{name} with {', '.join(f'{key}={value}' for key, value in values.items())}: {type(problem).__name__}: {problem}") from problem
        return Outcome(str(problem))
    content, pixels = webp(picture)
    file = f"{hashlib.sha256(content).hexdigest()[:16]}.webp"
    pictures.mkdir(parents=True, exist_ok=True)
    if not (pictures / file).is_file():
        _replace(pictures / file, content)
    return Outcome(picture.text, file, pixels, round(style.COLUMN * picture.figure.get_figwidth() / style.WIDTH))


def webp(picture: style.Picture) -> tuple[bytes, tuple[int, int]]:
    """A picture as a lossless WebP of style.FEWER dots an inch, and its size in pixels."""
    from PIL import Image

    image = Image.open(io.BytesIO(replace(picture, dots=min(picture.dots, style.FEWER), _png=None).png())).convert("RGB")
    small = io.BytesIO()
    image.save(small, format="WEBP", lossless=True, method=6, exact=True)
    return small.getvalue(), image.size


def _control(control: Slider | Choice, values: Sequence[Any]) -> Control:
    slider = isinstance(control, Slider)
    label = f"{control.label} ({control.unit})" if isinstance(control, Slider) and control.unit else control.label
    return Control(label, "slider" if slider else "choice", [f"{value:g}" if slider else str(value) for value in values],
                   list(values).index(control.start), len(list(control.values)))


def _write(name: str, panel: Panel, folder: Path) -> float:
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / f"{name}.json", json.dumps(asdict(panel)).encode())
    return time.time()


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, also while another process writes the same."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)
