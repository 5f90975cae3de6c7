# SPDX-License-Identifier: Apache-2.0
"""The disk cache of compiled kernels: one file an entry, in the user's cache folder.

Entries are written to a temporary file and renamed, so that several processes may share the folder. Each carries a
checksum: a damaged one counts as missing and is removed. When the folder outgrows its limit, the entries unused for
longest go. HOPPERLAB_CACHE_DIR moves the folder; HOPPERLAB_CACHE_MB sets its limit (0 switches the cache off).
Entries are deflated: a kernel's PTX and cubin take about a fifth of their bytes.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC = b"hopperlab cache 2\n"
DEFAULT_MB = 256
SUFFIX = ".hlc"
STALE_SECONDS = 3600        # a temporary file older than this belongs to a process that died
LOOK_EVERY = 64             # a process looks through the folder at its first write, and whenever it has written this part of the limit since

_unseen = math.inf          # bytes that this process has written since it looked through the folder


@dataclass
class Entry:
    """What is kept under one key: a JSON-like dictionary and named byte strings."""

    meta: dict[str, Any]
    blobs: dict[str, bytes] = field(default_factory=dict)


def folder() -> Path:
    """Where entries live. The folder is made by the first write."""
    given = os.environ.get("HOPPERLAB_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    import platformdirs
    return Path(platformdirs.user_cache_dir("hopperlab", appauthor=False)) / "kernels"


def limit_bytes() -> int:
    """Size limit of the folder in bytes; 0 means that nothing is cached."""
    text = os.environ.get("HOPPERLAB_CACHE_MB", str(DEFAULT_MB))
    try:
        return max(0, int(float(text) * 1e6))
    except ValueError:
        raise ValueError(f"HOPPERLAB_CACHE_MB={text!r} is not a number of megabytes") from None


def path_of(key: str) -> Path:
    """The file of one key (a hexadecimal hash)."""
    return folder() / key[:2] / (key + SUFFIX)


def read(key: str) -> Entry | None:
    """The entry of `key`, or None when there is none, it cannot be read, or it is damaged (then it is removed)."""
    if not limit_bytes():
        return None
    path = path_of(key)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    entry = decode(data)
    if entry is None:
        _remove(path)
        return None
    with contextlib.suppress(OSError):      # a read-only cache still serves
        os.utime(path)                      # the time of last use, for eviction
    return entry


def write(key: str, entry: Entry) -> None:
    """Keep an entry. A folder that cannot be written to is no error: the next run compiles again."""
    global _unseen
    limit = limit_bytes()
    data = encode(entry)
    if len(data) > limit:
        return
    path, temporary = path_of(key), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            _remove(Path(temporary))
        return
    _unseen += len(data)
    if _unseen > limit / LOOK_EVERY:
        evict(limit)
        _unseen = 0


def encode(entry: Entry) -> bytes:
    """Magic, SHA-256 of the rest, and deflated: length of the JSON head, JSON head, blobs in the head's order."""
    head = json.dumps({"meta": entry.meta, "blobs": {k: len(v) for k, v in entry.blobs.items()}}).encode()
    body = len(head).to_bytes(8, "little") + head + b"".join(entry.blobs.values())
    body = zlib.compress(body, 1)
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Entry | None:
    """The entry that `encode` made, or None when a byte of it is wrong or missing."""
    start = len(MAGIC) + 32
    if data[:len(MAGIC)] != MAGIC or hashlib.sha256(data[start:]).digest() != data[len(MAGIC):start]:
        return None
    body = zlib.decompress(data[start:])
    end = 8 + int.from_bytes(body[:8], "little")
    head = json.loads(body[8:end])
    blobs = {}
    for name, size in head["blobs"].items():
        blobs[name] = body[end:end + size]
        end += size
    return Entry(head["meta"], blobs)


def size_and_count() -> tuple[int, int]:
    """Bytes and number of entries in the folder."""
    found = _entries()
    return sum(size for _, size, _ in found), len(found)


def evict(limit: int) -> None:
    """Remove the entries unused for longest until the folder is within `limit` bytes; drop dead temporary files."""
    found = sorted(_entries())
    total = sum(size for _, size, _ in found)
    for _, size, path in found:
        if total <= limit:
            break
        _remove(path)
        total -= size
    now = time.time()
    for written, _, path in _files(".tmp"):
        if now - written > STALE_SECONDS:
            _remove(path)


def clear() -> int:
    """Remove all entries; returns how many there were."""
    found = _entries()
    for _, _, path in found:
        _remove(path)
    return len(found)


def _entries() -> list[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of each entry."""
    return list(_files(SUFFIX))


def _files(suffix: str) -> Iterator[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of the files whose name ends so; those that vanish meanwhile are left out."""
    for place in _scan(folder()):
        for file in _scan(place.path) if place.is_dir() else ():
            if file.name.endswith(suffix):
                with contextlib.suppress(OSError):
                    status = file.stat()
                    yield status.st_mtime, status.st_size, Path(file.path)


def _scan(path: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):      # another process was quicker, or holds the file open (Windows)
        path.unlink()
