# SPDX-License-Identifier: Apache-2.0
"""The caller's own headers of a .cu file, without host code: which files they are, and where a compiler finds them.

They are written into a folder that has the paths of the files they stand for, so that every #include means the file that it means to nvcc, and #pragma once
knows it again however it is spelt. Each begins with #line, which gives it the name that messages and PTX show.
"""
from __future__ import annotations

import hashlib
import inspect
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from . import cache, host_code, host_tokens, host_words

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_TOOLKIT = ("cuda_runtime.h", "curand_kernel.h", "cublas_v2.h")     # a folder that has one is CUDA's, not the caller's
FRAGMENTS = (".inc", ".def", ".in", ".txt", ".ptx", ".x")       # may stand in the middle of a function: they keep what they have
LONG = 300_000                      # characters of headers whose reading takes longer than that of the cache
MARK = "\ufeff"


class OwnHeader(NamedTuple):
    """A header of the caller's: its file, the name that messages show, and its text without host code."""

    path: str
    name: str
    text: str


def include_folders(options: Sequence[str]) -> list[str]:
    """The folders that options name: -IDIR, -I DIR as two words, --include-path=DIR, --include-path DIR."""
    found, waiting = [], False
    for option in options:
        if waiting:
            found.append(option)
        elif match := re.match(r"(?:-I|--include-path=)(.+)", option):
            found.append(match[1])
        waiting = not waiting and option in ("-I", "--include-path")
    return found


def read_text(path: Path, errors: str = "strict") -> str:
    """The text of a file, without the mark that editors on Windows put first."""
    return path.read_text(encoding="utf-8", errors=errors).removeprefix(MARK)


def without_host(text: str, folders: Sequence[Path]) -> tuple[str, tuple[OwnHeader, ...]]:
    """A source and its own headers, both without host code; no headers where none has any, and the files themselves will do. folders: that of the source,
    and those that options name."""
    files, own = _files(text, folders)
    kept = _without_host([text, *files.values()], [False, *(Path(path).suffix in FRAGMENTS for path in files)], own)
    same = kept[1:] == list(files.values()) and not any(map(_marked, files))
    return kept[0], () if same else tuple(OwnHeader(path, _shown(path, folders), each) for path, each in sorted(zip(files, kept[1:])))


def _without_host(texts: list[str], fragments: Sequence[bool], own: frozenset[str]) -> list[str]:
    """The texts without host code. Of those as long as CuTe's the cache keeps what went."""
    key = _key(texts, fragments, own) if sum(map(len, texts)) > LONG else ""
    entry = cache.read(key) if key else None
    if entry is None:
        known = host_code.known_of(texts, own)
        gone = [[] if fragment else host_code.stretches(text, known, own) for text, fragment in zip(texts, fragments)]
        if key:
            cache.write(key, cache.Entry({"gone": gone}))
    else:
        gone = entry.meta["gone"]
    return [host_code.without(text, each) for text, each in zip(texts, gone)]


def _key(texts: Sequence[str], fragments: Sequence[bool], own: frozenset[str]) -> str:
    """Hash of the texts and of the code that reads them."""
    known = hashlib.sha256(repr((list(fragments), sorted(own))).encode())
    for text in (*(inspect.getsource(module) for module in (host_code, host_tokens, host_words)), *texts):
        known.update(text.encode(errors="surrogatepass") + b"\0")
    return known.hexdigest()


def _files(text: str, folders: Sequence[Path]) -> tuple[dict[str, str], frozenset[str]]:
    """The texts of the headers that a text includes, directly or not, by their paths, but for CUDA's and those of host libraries; and the names of the caller's
    that are like those of host libraries."""
    mine = [folder for folder in folders if not any((folder / name).is_file() for name in _TOOLKIT)]
    found: dict[str, str] = {}
    own, todo = set(), [(text, folders[0])]
    while todo:
        text, here = todo.pop()
        for quoted, angled in _INCLUDE.findall(text):
            name = quoted or angled
            folder = next((place for place in ((here, *mine) if quoted else mine) if (place / name).is_file()), None)
            if folder is None or host_words.of_the_host(name) and not _stands_for(name, folder):
                continue
            if host_words.of_the_host(name):
                own.add(name)
            path = Path(os.path.normpath(folder / name))
            if str(path) not in found:
                found[str(path)] = read_text(path, "replace")
                todo.append((found[str(path)], path.parent))
    return found, frozenset(own)


def _stands_for(name: str, folder: Path) -> bool:
    """Whether a header named as PyTorch's is a small one of the caller's own, and not PyTorch itself."""
    return host_words.of_torch(name) and not ((folder / "torch").is_dir() and (folder / "c10").is_dir())


def _marked(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(3) == MARK.encode()


def _shown(path: str, folders: Sequence[Path]) -> str:
    """As a reader knows it: from a folder that includes are looked for in, else from that of the source."""
    folder = max((folder for folder in folders if Path(path).is_relative_to(folder)), key=lambda folder: len(folder.parts), default=folders[0])
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:                      # another drive of Windows
        return Path(path).as_posix()


@contextmanager
def in_folder(headers: Sequence[OwnHeader], options: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The options with a folder of these headers before each of the caller's; it is gone when this ends."""
    if not headers:
        yield tuple(options)
        return
    with tempfile.TemporaryDirectory(prefix="hopperlab-headers-") as root:
        for header in headers:
            place = _inside(root, header.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f'#line 1 "{header.name}"\n{header.text}', encoding="utf-8", newline="\n")
        folders = [os.path.abspath(folder) for folder in include_folders(options)]
        for folder in folders:
            _inside(root, folder).mkdir(parents=True, exist_ok=True)
        yield (*(word for folder in folders for word in (f"-I{_inside(root, folder)}", f"-I{folder}")), *_others(options))


def _inside(root: str, path: str) -> Path:
    return Path(root, *(part.replace(":", "") for part in Path(path).parts if part not in ("/", "\\")))


def _others(options: Sequence[str]) -> list[str]:
    """The options but for those that name folders."""
    found, waiting = [], False
    for option in options:
        folder = waiting or option in ("-I", "--include-path") or re.match(r"(?:-I|--include-path=).", option)
        waiting = not waiting and option in ("-I", "--include-path")
        if not folder:
            found.append(option)
    return found
