# SPDX-License-Identifier: Apache-2.0
"""What RawModule was given: CUDA C++, PTX text, or a file of either. Host code of a file is left out, since NVRTC compiles device code alone."""
from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .compile import own_headers
from .errors import SourceError

CUDA_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
BINARY_SUFFIXES = (".cubin", ".fatbin", ".o", ".so", ".a", ".exe", "")
DEVICE_BY_DEFAULT = "--device-as-default-execution-space"


@dataclass(frozen=True)
class Given:
    """CUDA C++ or PTX text, the name that messages show, options that a file brings, and its own headers without host code."""

    code: str | None
    ptx: str | None
    name: str
    options: tuple[str, ...] = ()
    headers: tuple[own_headers.OwnHeader, ...] = ()


def given(code: object, ptx: object, path: object, name: str | None, options: Sequence[str] = ()) -> Given:
    """Raises TypeError for none or several of the three, and for what is no text; SourceError for a file that is neither CUDA C++ nor PTX."""
    texts = [text for text in (code, ptx, path) if text is not None]
    if len(texts) != 1:
        raise TypeError("RawModule takes either code= (CUDA C++), ptx= (PTX text) or path= (a file of either)")
    if path is not None:
        if not isinstance(path, (str, Path)):
            raise TypeError(f"path= is the name of a file, not a {type(path).__name__}")
        return _read(Path(path), name, options)
    if not isinstance(texts[0], str):
        raise TypeError(f"RawModule takes source text as str, not {type(texts[0]).__name__}")
    _refuse_a_name("code" if ptx is None else "ptx", texts[0])
    return Given(texts[0], None, name or "kernel.cu") if ptx is None else Given(None, texts[0], name or "kernel.ptx")


def _refuse_a_name(word: str, text: str) -> None:
    """A file's name where its text should be."""
    line = text.strip()
    if "\n" not in line and " " not in line and line.endswith((".ptx", *CUDA_SUFFIXES)):
        raise SourceError(f"{word}= takes the text itself, and {line!r} is a file's name: write RawModule(path={line!r})")


def _read(path: Path, name: str | None, options: Sequence[str]) -> Given:
    if not path.is_file():
        raise SourceError(f"there is no file {path}")
    suffix = path.suffix.lower()
    if suffix in BINARY_SUFFIXES:
        raise SourceError(f"{path.name} is no source: the emulator runs PTX, not machine code. Make PTX of it where it was compiled: "
                          "nvcc -ptx -lineinfo -arch=sm_90a FILE.cu; or take it out of a binary that has it: cuobjdump --dump-ptx FILE")
    try:
        text = own_headers.read_text(path)
    except UnicodeDecodeError as problem:
        raise SourceError(f"{path} is no text in UTF-8 ({problem})") from None
    if suffix == ".ptx":
        return Given(None, text, name or path.name)
    if suffix not in CUDA_SUFFIXES:
        raise SourceError(f"{path.name}: path= reads CUDA C++ (.cu) and PTX (.ptx)")
    here = path.resolve().parent
    kept, headers = own_headers.without_host(text, [here, *(Path(os.path.abspath(folder)) for folder in own_headers.include_folders(options))])
    return Given(kept, None, name or path.name, (DEVICE_BY_DEFAULT, f"-I{here}"), headers)
