# SPDX-License-Identifier: Apache-2.0
"""The API reference of the site, written from signatures and docstrings: one Markdown page a room, and one for the commands that the caller names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from typing import Any, Protocol

ROOMS = {
    "hopperlab": ("hopperlab", "The public names", "`import hopperlab as hl`: modules, kernels, tensor maps, the emulator, errors."),
    "show": ("hopperlab.show", "hopperlab.show: figures and panels", "`from hopperlab import show`. Every one has a text fallback."),
    "measure": ("hopperlab.measure", "hopperlab.measure: timings and recordings", "`from hopperlab import measure`."),
}


class Command(Protocol):
    """What the page of commands needs of one: its name, one line, and what more there is to know."""

    name: str
    help: str
    details: str


def pages(commands: Sequence[Command]) -> dict[str, str]:
    """Markdown by page name, without folder or ending. commands: those of the command line, which stands above this room."""
    found = {name: _room(*facts) for name, facts in ROOMS.items()}
    found["hopper"] = _hopper()
    found["commands"] = _commands(commands)
    return found


def _room(dotted: str, title: str, words: str) -> str:
    module = importlib.import_module(dotted)
    names = [name for name in module.__all__ if not name.startswith("__")]
    return "\n\n".join([f"# {title}", words, *(entry(name, getattr(module, name)) for name in names)]) + "\n"


def _hopper() -> str:
    package = importlib.import_module("hopperlab.hopper")
    parts = ["# hopperlab.hopper: the architecture's formulas",
             "Pure functions over ints and NumPy arrays; the emulator, the figures and the checks call these same formulas."]
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"hopperlab.hopper.{info.name}")
        own = [(name, value) for name, value in vars(module).items()
               if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and (inspect.isfunction(value) or inspect.isclass(value))]
        if own:
            parts += [f"## hopper.{info.name}", _words(module), *(entry(f"{info.name}.{name}", value, 3) for name, value in own)]
    return "\n\n".join(parts) + "\n"


def _commands(commands: Sequence[Command]) -> str:
    parts = ["# Commands", "In a terminal; `hopperlab COMMAND --help` says the same and lists the options."]
    for command in commands:
        parts += [f"## hopperlab {command.name}", f"{command.help[0].upper()}{command.help[1:]}. {command.details}"]
    return "\n\n".join(parts) + "\n"


def entry(name: str, value: Any, level: int = 2) -> str:
    """One name: heading, signature, docstring, and for a class its public methods and properties."""
    lines = [f"{'#' * level} {name}", _fenced(f"{name.rsplit('.', 1)[-1]}{_signature(value)}", "python"), _words(value)]
    if inspect.isclass(value) and not issubclass(value, Exception):
        for member, what in vars(value).items():
            target = what.fget if isinstance(what, property) else what
            if member.startswith("_") or not (inspect.isfunction(target) and inspect.getdoc(target)):
                continue
            shown = member if isinstance(what, property) else f"{member}{_signature(target)}"
            lines += [_fenced(shown, "python"), _words(target)]
    return "\n\n".join(lines)


def _signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, Exception):
        return ""
    try:
        return str(inspect.signature(value)) if callable(value) else ""
    except (TypeError, ValueError):
        return ""


def _words(value: Any) -> str:
    """The docstring as it is written, so that tables and indentation keep their shape."""
    return _fenced(inspect.getdoc(value) or "No description.", "text")


def _fenced(text: str, language: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}"
