"""The disk cache of compiled kernels: one file an entry, in the user's cache folder.

Entries are written to a temporary file and renamed, so that several processes may share the folder. Each carries a
checksum: a damaged one counts as missing and is removed. When the folder outgrows its limit, the entries unused for
longest go. HOPPERLAB_CACHE_DIR moves the folder; HOPPERLAB_CACHE_MB sets its limit (0 switches the cache off).
"""
from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = b"hopperlab cache 1\n"
DEFAULT_MB = 256
SUFFIX = ".hlc"
STALE_SECONDS = 3600        # a temporary file older than this belongs to a process that died


@dataclass
class Entry:
    """What is kept under one key: a JSON-like dictionary and named byte strings."""

    meta: dict
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
    try:
        os.utime(path)          # the time of last use, for eviction
    except OSError:
        pass                    # a read-only cache still serves
    return entry


def write(key: str, entry: Entry) -> None:
    """Keep an entry. A folder that cannot be written to is no error: the next run compiles again."""
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
    evict(limit)


def encode(entry: Entry) -> bytes:
    """Magic, SHA-256 of the rest, length of the JSON head, JSON head, blobs in the head's order."""
    head = json.dumps({"meta": entry.meta, "blobs": {k: len(v) for k, v in entry.blobs.items()}}).encode()
    body = len(head).to_bytes(8, "little") + head + b"".join(entry.blobs.values())
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Entry | None:
    """The entry that `encode` made, or None when a byte of it is wrong or missing."""
    start = len(MAGIC) + 32
    if data[:len(MAGIC)] != MAGIC or hashlib.sha256(data[start:]).digest() != data[len(MAGIC):start]:
        return None
    at = start + 8
    end = at + int.from_bytes(data[start:at], "little")
    head = json.loads(data[at:end])
    blobs = {}
    for name, size in head["blobs"].items():
        blobs[name] = data[end:end + size]
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
    for path in folder().glob("*/*.tmp"):
        try:
            if now - path.stat().st_mtime > STALE_SECONDS:
                _remove(path)
        except OSError:
            continue            # its owner has just finished


def clear() -> int:
    """Remove all entries; returns how many there were."""
    found = _entries()
    for _, _, path in found:
        _remove(path)
    return len(found)


def _entries() -> list[tuple[float, int, Path]]:
    """(time of last use, bytes, path) of each entry; those that vanish meanwhile are left out."""
    found = []
    for path in folder().glob(f"*/*{SUFFIX}"):
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((status.st_mtime, status.st_size, path))
    return found


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass                    # another process was quicker, or holds the file open (Windows)
