# SPDX-License-Identifier: Apache-2.0
"""How a lesson's room offers its names to the notebook: each is looked up, at first use, in the module of the room that holds it.

So whoever wants a room's exercises (a check, a grader) loads none of its figures, and Matplotlib not with them.
"""
from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def offer(room: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of the package `room`.

    homes: module, relative to the room ('.boxes', or '..l05_tma_tiles.boxes' of an earlier lesson) -> its names that the notebook uses,
    separated by blanks. A name must not be that of a module of the room. The lookup raises AttributeError for any other name.
    """
    if "IPython" in sys.modules:
        from .magic import register
        register()
    home = {name: module for module, names in homes.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(home[name], room), name)

    return look_up, lambda: sorted(home), sorted(home)


def read(room: ast.Module) -> dict[str, str]:
    """What a room's __init__ offers, from its text alone: name -> module, relative to the room, as `offer` is given them. Empty for other modules."""
    tables = [node.args[1] for node in ast.walk(room) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "offer"]
    return {name: module for table in tables for module, names in ast.literal_eval(table).items() for name in names.split()}
