# SPDX-License-Identifier: Apache-2.0
"""The files that a class handed in, from a folder or a zip, nested zips included: what is read, what is refused, and nothing outside.

Nothing is unpacked to disk; a file is opened without following links, read up to a limit, and handed on as bytes. A file that is
refused becomes a `Found` with an `error`, so that one bad file never stops the others.
"""
from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

NOTEBOOK, ZIP, TIMESTAMP = ".ipynb", ".zip", "timestamp.txt"
SKIPPED = {"__MACOSX", ".ipynb_checkpoints", "__pycache__"}
ENCRYPTED = 0x1


@dataclass(frozen=True)
class ReadLimits:
    """What is read at most. Bytes are those after unpacking."""

    notebook_bytes: int = 16 << 20
    zip_bytes: int = 128 << 20             # of one zip inside the class's folder or zip
    zip_total: int = 256 << 20             # of all that is read from one such zip
    zip_members: int = 2_000
    class_members: int = 200_000
    depth: int = 2                         # zips inside zips
    folders: int = 16


class InputError(ValueError):
    """The submissions as a whole cannot be read: no such folder, no zip, or too many files."""


@dataclass(frozen=True)
class Found:
    """One file: where it lies (folders and zips above it, then its name), its bytes or why they were refused, and its date."""

    parts: tuple[str, ...]
    data: bytes = b""
    error: str = ""
    time: datetime | None = None           # without a zone where a zip gives it: a wall clock somewhere
    own: datetime | None = None            # the date stored in a zip that was handed in: the learner's clock, which orders attempts and proves nothing
    inside: bool = False                   # in a zip that was handed in
    read: bool = True                      # False: a file of another kind, only its name is known

    @property
    def path(self) -> str:
        """Its place in the folder or zip, readable: bytes that are no text and control characters are replaced."""
        return readable("/".join(self.parts))


def readable(text: str) -> str:
    """Text that any report may hold: no lone surrogates, no control characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def files(path: Path, limits: ReadLimits = ReadLimits(), skip: Path | None = None) -> Iterator[Found]:
    """Every file below a folder or in a zip, in the order of their names, but not below `skip`. Raises InputError for anything else."""
    if path.is_dir():
        yield from _folder(path, (), limits, skip.resolve() if skip else None)
        return
    if not path.is_file():
        raise InputError(f"{path}: there is no such folder or file")
    if path.suffix.lower() == NOTEBOOK:
        yield _file(path, (path.name,), limits)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            yield from _zip(archive, (), limits, 0)
    except (zipfile.BadZipFile, RuntimeError, OSError, ValueError) as problem:
        raise InputError(f"{path}: neither a folder, a notebook nor a zip that can be read ({problem})") from None


def _hidden(name: str) -> bool:
    return name in SKIPPED or name.startswith(".")


def _wanted(name: str) -> bool:
    return name.lower().endswith((NOTEBOOK, ZIP)) or name.lower() == TIMESTAMP


def _folder(folder: Path, above: tuple[str, ...], limits: ReadLimits, skip: Path | None) -> Iterator[Found]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as problem:
        if not above:
            raise InputError(f"{folder} cannot be read: {problem.strerror}") from None
        yield Found(above, error=f"the folder cannot be read: {problem.strerror}")
        return
    for entry in entries:
        parts = (*above, entry.name)
        if _hidden(entry.name):
            continue
        if entry.is_symlink():
            yield Found(parts, error="a symbolic link: only files themselves are taken")
        elif entry.is_dir(follow_symlinks=False):
            if len(above) >= limits.folders:
                yield Found(parts, error=f"folders deeper than {limits.folders} are not read")
            elif skip is None or Path(entry.path).resolve() != skip:
                yield from _folder(Path(entry.path), parts, limits, skip)
        elif not entry.is_file(follow_symlinks=False):
            yield Found(parts, error="neither a file nor a folder")
        elif not _wanted(entry.name):
            yield Found(parts, read=False)
        else:
            yield from _opened(_file(Path(entry.path), parts, limits), limits, 0)


def _file(path: Path, parts: tuple[str, ...], limits: ReadLimits) -> Found:
    most = limits.zip_bytes if path.name.lower().endswith(ZIP) else limits.notebook_bytes
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as stream:
            facts = os.fstat(stream.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return Found(parts, error="neither a file nor a folder")
            data = stream.read(most + 1)
    except OSError as problem:
        return Found(parts, error=f"it cannot be read: {problem.strerror}")
    time = datetime.fromtimestamp(int(facts.st_mtime), UTC)
    return Found(parts, error=_too_large(most), time=time) if len(data) > most else Found(parts, data, time=time)


def _too_large(most: int) -> str:
    return f"larger than {most >> 20} MB; clear its outputs and hand it in again"


def _opened(found: Found, limits: ReadLimits, depth: int) -> Iterator[Found]:
    """The file itself, or what is in it when it is a zip."""
    if found.error or not found.parts[-1].lower().endswith(ZIP):
        yield found
        return
    if depth >= limits.depth:
        yield Found(found.parts, error=f"zips nested deeper than {limits.depth} are not opened", time=found.time)
        return
    try:
        with zipfile.ZipFile(io.BytesIO(found.data)) as archive:
            for one in _zip(archive, found.parts, limits, depth + 1):
                yield replace(one, time=found.time, own=one.own or one.time, inside=True)
    except (zipfile.BadZipFile, RuntimeError, OSError, ValueError) as problem:
        yield Found(found.parts, error=f"a zip that cannot be read: {readable(str(problem))[:200]}", time=found.time)


def _zip(archive: zipfile.ZipFile, above: tuple[str, ...], limits: ReadLimits, depth: int) -> Iterator[Found]:
    members = sorted(archive.infolist(), key=lambda member: member.filename)
    most = limits.zip_members if above else limits.class_members
    if len(members) > most:
        yield Found(above or ("the zip",), error=f"a zip of more than {most:,} files")
        return
    names, left = Counter(_place(member) for member in members), limits.zip_total
    for member in members:
        if member.is_dir():
            continue
        parts = (*above, *_place(member))
        error = _refused(member, names)
        if len(parts) == len(above) or any(_hidden(part) for part in parts[len(above):]):
            if error:
                yield Found(parts or ("the zip",), error=error)
            continue
        if error:
            yield Found(parts, error=error, time=_date(member))
        elif not _wanted(parts[-1]):
            yield Found(parts, read=False)
        else:
            found = _member(archive, member, parts, limits, left if above else limits.zip_total)
            left -= len(found.data)
            yield from _opened(found, limits, depth)


def _place(member: zipfile.ZipInfo) -> tuple[str, ...]:
    """The folders and the name of a member: what could lead outside is left out here, and refused."""
    return tuple(part for part in PurePosixPath(member.filename.replace("\\", "/")).parts if part not in ("/", "..", "."))


def _refused(member: zipfile.ZipInfo, names: Counter) -> str:
    """Why a member is not read, judged by its name and kind alone."""
    name = member.filename.replace("\\", "/")
    if name.startswith("/") or ".." in name.split("/") or name[1:2] == ":":
        return f"its path in the zip leads outside: {readable(member.filename)[:200]}"
    if stat.S_ISLNK(member.external_attr >> 16):
        return "a symbolic link in a zip: only files themselves are taken"
    if names[_place(member)] > 1:
        return f"{names[_place(member)]} files of this name in one zip"
    if member.flag_bits & ENCRYPTED:
        return "it is encrypted"
    return ""


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, parts: tuple[str, ...], limits: ReadLimits, left: int) -> Found:
    most = limits.zip_bytes if parts[-1].lower().endswith(ZIP) else limits.notebook_bytes
    if left <= 0:
        return Found(parts, error=f"the zip unpacks to more than {limits.zip_total >> 20} MB", time=_date(member))
    try:
        with archive.open(member) as stream:
            data = stream.read(min(most, left) + 1)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, OSError, EOFError, ValueError) as problem:
        return Found(parts, error=f"it cannot be unpacked: {readable(str(problem))[:200]}", time=_date(member))
    return Found(parts, error=_too_large(most), time=_date(member)) if len(data) > min(most, left) else Found(parts, data, time=_date(member))


def _date(member: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*member.date_time)
    except ValueError:
        return None
