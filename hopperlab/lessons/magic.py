# SPDX-License-Identifier: Apache-2.0
"""The magics of lessons: %%repair LESSON NAME, which judges the CUDA below it (repairs.py), and %%kernel PATH, which makes it the one that is loaded (editing.py).
They are there once a lesson's room was imported. In a notebook in another language `print` then says its lines in that language."""
from __future__ import annotations

import builtins
import sys
from typing import Any

from ..runtime.language import ENGLISH, language, say

USAGE = "Usage: %%repair LESSON NAME, such as %%repair 03 shallow"


def repair(line: str, cell: str) -> None:
    """Judge the cell's lines and print the verdict. Raises RepairError or CompileError."""
    from .repairs import RepairError, find

    given = line.split()
    if len(given) != 2:
        raise RepairError(USAGE)
    print(say(find(*given).judge(cell)))


def register() -> None:
    """Add both to the running IPython shell, where there is one."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is not None:
        shell.register_magic_function(repair, magic_kind="cell", magic_name="repair")
        shell.register_magic_function(kernel, magic_kind="line_cell", magic_name="kernel")
        if language() != ENGLISH:
            shell.push({"print": translated_print}, interactive=False)


def translated_print(*values: Any, sep: str | None = None, **others: Any) -> None:
    """`print` of a notebook in another language: the same, its lines looked up in the table of strings."""
    builtins.print(say((" " if sep is None else sep).join(map(str, values))), **others)


def kernel(line: str, cell: str | None = None) -> None:
    """%%kernel PATH and %kernel, as editing.kernel does them."""
    from .editing import kernel as run

    run(line, cell)
