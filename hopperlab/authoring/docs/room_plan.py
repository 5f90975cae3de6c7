# SPDX-License-Identifier: Apache-2.0
"""The rooms of the package and who imports whom, from the imports themselves: `python -m hopperlab.authoring rooms` writes them into CONTRIBUTING.md, as text
and as the picture docs/images/rooms.png. The picture carries the text that it was drawn from, so that a test finds both out when they are stale.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...emulator.ptx.graphs import components
from ...runtime.tables import text_table
from .. import hashes

BEGIN, END = "<!-- rooms: begin (python -m hopperlab.authoring rooms) -->", "<!-- rooms: end -->"
PAGE, PICTURE = hashes.ROOT / "CONTRIBUTING.md", hashes.ROOT / "docs" / "images" / "rooms.png"
HOUSE = hashes.ROOT / "hopperlab"
INSIDE = ("emulator", "authoring")     # rooms that hold rooms in their turn
CARRIED = "Description"      # the field of the PNG that holds the text


@dataclass(frozen=True)
class Room:
    """holds: the first sentence of its docstring. uses: the other rooms that its modules import."""

    name: str
    holds: str
    uses: tuple[str, ...]


@cache
def rooms(house: Path) -> tuple[Room, ...]:
    """The packages in a package's folder that hold modules besides their __init__, from the one that all others stand on to the topmost."""
    folders = {path.parent.name: path.parent for path in house.glob("*/__init__.py") if len(list(path.parent.rglob("*.py"))) > 1}
    found = {name: Room(name, _holds(folder), _uses(folder, house, set(folders) - {name})) for name, folder in folders.items()}
    order = [name for part in components("", lambda name: found[name].uses if name else sorted(found)) for name in sorted(part)]
    return tuple(found[name] for name in order if name)


def _holds(folder: Path) -> str:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return re.split(r"\.(?:\s|$)", " ".join(text.split()), maxsplit=1)[0]


def _uses(folder: Path, house: Path, others: set[str]) -> tuple[str, ...]:
    """The other rooms that modules of `folder` import, also inside functions."""
    above = _dotted(house)
    named = (name for path in folder.rglob("*.py") for name in _imported(path, house))
    return tuple(sorted({name[len(above)] for name in named if name[:len(above)] == above and len(name) > len(above)} & others))


def _imported(path: Path, house: Path) -> Iterator[tuple[str, ...]]:
    """Every imported name of a module, in parts, with relative imports resolved."""
    package = (*_dotted(house), *path.relative_to(house).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            yield from ((*base, *(node.module.split(".") if node.module else ()), alias.name) for alias in node.names)


def _dotted(house: Path) -> tuple[str, ...]:
    """The dotted name of a package's folder, in parts."""
    above = _dotted(house.parent) if (house.parent / "__init__.py").exists() else ()
    return (*above, house.name)


def arrows(found: Sequence[Room]) -> list[tuple[str, str]]:
    """(importer, imported) of each import between rooms that no way over a third room says already."""
    uses = {room.name: room.uses for room in found}
    below = {name: {other for part in components(name, uses.__getitem__) for other in part} - {name} for name in uses}

    def implied(a: str, c: str) -> bool:
        return any(c in below[b] and a not in below[b] and b not in below[c] for b in uses[a] if b != c)

    return [(a, c) for a in uses for c in uses[a] if not implied(a, c)]


def told(house: Path) -> str:
    """Two lines a room, from the topmost down: what it holds, and the rooms it imports."""
    lines = []
    for room in reversed(rooms(house)):
        lines += text_table("{:12} {}", [(room.name, room.holds), ("", f"imports {', '.join(room.uses) or 'no other room'}")])
    return "\n".join(lines)


def plan() -> str:
    """The rooms of the package, and those inside the rooms of INSIDE, as text."""
    return "\n\n".join([told(HOUSE), *(f"inside {name}\n\n{told(HOUSE / name)}" for name in INSIDE)])


def block() -> str:
    """What stands between the marks of CONTRIBUTING.md, marks included."""
    picture = PICTURE.relative_to(hashes.ROOT).as_posix()
    return "\n".join([BEGIN, f"![The rooms: each stands on those that its arrows lead to]({picture})", "", "```text", plan(), "```", END])


def write() -> list[Path]:
    """Bring CONTRIBUTING.md and the picture up to date; returns what changed. Raises ValueError when the marks are missing."""
    text = PAGE.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{PAGE.name} lacks the lines {BEGIN} and {END}")
    written = re.sub(re.escape(BEGIN) + r".*?" + re.escape(END), lambda _: block(), text, flags=re.DOTALL)
    changed = []
    if written != text:
        PAGE.write_text(written, encoding="utf-8")
        changed.append(PAGE)
    if drawn_from(PICTURE) != plan():
        draw(PICTURE)
        changed.append(PICTURE)
    return changed


def drawn_from(picture: Path) -> str | None:
    """The text that a picture carries; None where there is no picture."""
    from PIL import Image

    if not picture.exists():
        return None
    with Image.open(picture) as image:
        return image.info.get(CARRIED)


def draw(picture: Path) -> None:
    """Draw the plan: on the left the package, beside it the rooms of INSIDE."""
    from ...show import style

    stacks = {"hopperlab/": rooms(HOUSE)} | {f"hopperlab/{name}/": rooms(HOUSE / name) for name in INSIDE}
    highest = max(map(len, stacks.values()))
    figure, axes = style.new_figure(0.72 * highest + 0.5, columns=len(stacks), width=5.5 * len(stacks))
    for axis, (heading, found) in zip(axes, stacks.items(), strict=True):
        _stack(axis, found)
        axis.set_ylim(-0.6, highest - 0.3)
        style.title(axis, heading)
    picture.parent.mkdir(parents=True, exist_ok=True)
    _save_small(figure, picture)


def _save_small(figure: Any, picture: Path) -> None:
    """As a PNG of 64 colours, a third of the bytes: the wheel carries it."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    drawn, said = io.BytesIO(), PngInfo()
    figure.savefig(drawn)
    said.add_text(CARRIED, plan())
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, pnginfo=said, optimize=True)


LEFT, WIDTH, HALF = 2.2, 9.0, 0.31      # of a room's box: its left edge, its width, half its height


def _stack(axis: Any, found: Sequence[Room]) -> None:
    """A box a room, the lowest at the bottom; an arrow leads from a room to what it stands on: straight to the next, round by the left to others."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    from ...show import style

    place = {room.name: y for y, room in enumerate(found)}
    for room in found:
        y = place[room.name]
        axis.add_patch(FancyBboxPatch((LEFT, y - HALF), WIDTH, 2 * HALF, boxstyle="round,pad=0,rounding_size=0.1", facecolor=style.EMPTY, edgecolor=style.INK))
        axis.text(LEFT + 0.15, y, room.name, va="center", fontsize=11, fontweight="bold", color=style.INK)
        axis.text(LEFT + 2.3, y, "\n".join(textwrap.wrap(room.holds, 52, max_lines=2, placeholder=" …")), va="center", fontsize=8, color=style.INK)
    for a, c in arrows(found):
        rise = place[a] - place[c]
        near = rise == 1
        ends = ((LEFT + 1, place[a] - HALF), (LEFT + 1, place[c] + HALF)) if near else ((LEFT, place[a]), (LEFT, place[c]))
        bend = "arc3" if near else f"arc3,rad={0.28 if rise > 0 else -0.28}"
        axis.add_patch(FancyArrowPatch(*ends, connectionstyle=bend, arrowstyle="-|>", mutation_scale=13, shrinkA=0, shrinkB=0, linewidth=1.4, color=style.BLUE))
    axis.set(xlim=(0, LEFT + WIDTH + 0.2), xticks=[], yticks=[])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
