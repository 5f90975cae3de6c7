# SPDX-License-Identifier: Apache-2.0
"""The course's kernels in the learner's hands: `hl.edit` puts a kernel's text into a cell, `%%kernel PATH` makes that text the one that everything loads.

    hl.edit("gemm/multistage.cu")          a cell appears below: %%kernel gemm/multistage.cu, and the text
    %%kernel gemm/multistage.cu            lessons' functions, panels and hl.load_kernel take it from now on
    %kernel                                which files are edited, and by how many lines
    %kernel --original gemm/multistage.cu  the course's text again (without a path: of all)

The files themselves stay as they are: what is edited lasts as long as the notebook's kernel.
"""
from __future__ import annotations

import shlex
import sys

from ..runtime import library
from ..runtime.errors import HopperlabError
from ..runtime.kept import forget
from ..runtime.module import RawModule
from ..show.differences import diff

USAGE = "Usage: %%kernel PATH [-DNAME=VALUE …], such as %%kernel gemm/multistage.cu; %kernel; %kernel --original [PATH]"


class EditError(HopperlabError, ValueError):
    """The line after %kernel or %%kernel is not understood."""


def _check(path: str) -> str:
    """The course's text of a kernel's file. Raises EditError for a header, which the compiler reads from its file whatever stands for it here."""
    text = library.original(path)
    if not path.endswith(".cu"):
        raise EditError(f"{path} is a header: edit a kernel (.cu), and write what should be another there")
    return text


def edit(path: str) -> None:
    """Put the text of a kernel's file (below hopperlab/kernels/) into a new cell below this one, to be changed and run. Outside a notebook it is printed.

    Raises FileNotFoundError, with the files that do exist, and EditError for a header.
    """
    _check(path)
    text = f"%%kernel {path}\n{library.kernel_source(path)}"
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        print(text)
    else:
        shell.register_magic_function(kernel, magic_kind="line_cell", magic_name="kernel")
        shell.set_next_input(text.rstrip("\n"))


def kernel(line: str, cell: str | None = None) -> None:
    """The magic: with a cell, its text stands for the file; without, what is edited is listed or given back. Raises EditError, CompileError, FileNotFoundError."""
    given = shlex.split(line)
    if cell is None:
        _listed_or_given_back(given)
        return
    if not given or given[0].startswith("-"):
        raise EditError(USAGE)
    path, options = given[0], given[1:]
    text = _check(path)
    RawModule(code=cell, options=tuple(options), name=path, strict=False)
    library.edit(path, cell)
    forget()
    changed = diff(text, cell).changed
    print(f"{path}: {changed} line{'' if changed == 1 else 's'} of code changed. Lessons, panels and hl.load_kernel take this text now; %kernel --original "
          f"{path} gives the course's back")


def _listed_or_given_back(given: list[str]) -> None:
    if given and (given[0] != "--original" or len(given) > 2):
        raise EditError(USAGE)
    if given:
        paths = given[1:] or list(library.edited())
        for path in paths:
            library.edit(path, None)
        forget()
        print(f"the course's text again: {', '.join(paths) or 'nothing was edited'}")
        return
    found = {path: diff(library.original(path), text).changed for path, text in library.edited().items()}
    print("\n".join(f"{path}: {count} line{'' if count == 1 else 's'} of code changed" for path, count in found.items()) or "no kernel is edited")
