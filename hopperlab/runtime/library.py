# SPDX-License-Identifier: Apache-2.0
"""The course's own kernels, in hopperlab/kernels/: their source text, and loading one by file and name."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from . import uses
from .compile.toolchain import KERNELS, read_source
from .module import RawKernel, RawModule

_standing_in: ContextVar[Mapping[str, str]] = ContextVar("hopperlab_standing_in", default={})       # noqa: B039 - never changed, only replaced
_with_notes: ContextVar[bool] = ContextVar("hopperlab_with_notes", default=False)
_edited: dict[str, str] = {}


def edited() -> dict[str, str]:
    """Files below hopperlab/kernels/ for which a text of the learner's stands, and that text."""
    return dict(_edited)


def edit(path: str, text: str | None) -> None:
    """From now on `kernel_source` and `load_kernel` take this text for the file `path`; None: the file's own again. Raises FileNotFoundError."""
    original(path)
    if text is None:
        _edited.pop(path, None)
    else:
        _edited[path] = text


@contextmanager
def standing_in(path: str, text: str) -> Iterator[None]:
    """Inside the block, `kernel_source` and `load_kernel` take this text for the file `path` below hopperlab/kernels/."""
    token = _standing_in.set({**_standing_in.get(), path: text})
    try:
        yield
    finally:
        _standing_in.reset(token)


@contextmanager
def whatever_ptxas_notes() -> Iterator[None]:
    """Inside the block, `load_kernel` warns of notes instead of raising them: for who runs PTX in the emulator and judges it himself, as on a machine without ptxas."""
    token = _with_notes.set(True)
    try:
        yield
    finally:
        _with_notes.reset(token)


def kernel_source(path: str) -> str:
    """The text of a file below hopperlab/kernels/, such as kernel_source("gemm/warp_specialized.cu"), without its licence line.

    Raises FileNotFoundError, with the files that do exist.
    """
    uses.tell(uses.READ, path)
    return _text(path)


def _text(path: str) -> str:
    if path in _standing_in.get():
        return _standing_in.get()[path]
    return _edited[path] if path in _edited else original(path)


def original(path: str) -> str:
    """The text of the file itself, whatever stands for it now. Raises FileNotFoundError, with the files that do exist."""
    file = KERNELS / path
    if not file.is_file() or KERNELS not in file.resolve().parents:
        known = sorted(str(p.relative_to(KERNELS).as_posix()) for p in KERNELS.rglob("*.cu*"))
        raise FileNotFoundError(f"no kernel file {path!r}; there are: {', '.join(known)}")
    return read_source(file)


def load_kernel(path: str, name: str, options: Sequence[str] = (), backend: str | None = None, strict: bool = True) -> RawKernel:
    """Compile a file of the course's kernels and return one of its kernels.

    path: below hopperlab/kernels/. name: an extern "C" name, or a template instance such as "copy<4>".
    options: for NVRTC, such as ("-DSTAGES=4",). Raises NoteError when ptxas changed what the kernel does
    (strict=False: warns).
    """
    expressions = (name,) if "<" in name or "::" in name else None
    module = RawModule(code=_text(path), options=options, backend=backend, name_expressions=expressions, name=path,
                       strict=strict and not _with_notes.get())
    return module.get_function(name)
