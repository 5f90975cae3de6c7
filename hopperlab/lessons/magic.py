# SPDX-License-Identifier: Apache-2.0
"""The cell magic %%repair LESSON NAME, which judges the CUDA below it (repairs.py). It is there once a lesson's room was imported."""
from __future__ import annotations

import sys

USAGE = "Usage: %%repair LESSON NAME, such as %%repair 03 shallow"


def repair(line: str, cell: str) -> None:
    """Judge the cell's lines and print the verdict. Raises RepairError or CompileError."""
    from .repairs import RepairError, find

    given = line.split()
    if len(given) != 2:
        raise RepairError(USAGE)
    print(find(*given).judge(cell))


def register() -> None:
    """Add %%repair to the running IPython shell, where there is one."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is not None:
        shell.register_magic_function(repair, magic_kind="cell", magic_name="repair")
