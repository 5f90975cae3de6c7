# SPDX-License-Identifier: Apache-2.0
"""How launches travel to the queue and back: a JSON head and raw bytes behind it. No pickle, so that reading another user's message
runs none of his code. One message is 8 bytes of length, 8 bytes of the head's length, the head, the bytes.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ...hopper.tensormap import TensorMapFields

LENGTH = 8
MOST_BYTES = 1 << 30        # of one message
MOST_HEAD = 4 << 20         # of the head that a server looks into, which nobody else is served meanwhile


class WireError(ValueError):
    """A message that is no message of the queue, or a value that cannot travel."""


def pack(value: Mapping[str, Any]) -> bytes:
    """The message of a dictionary of plain values, bytes, arrays, tuples and tensor-map fields. Raises WireError for anything else."""
    blobs: list[bytes] = []
    head = json.dumps(_encode(value, blobs)).encode()
    body = len(head).to_bytes(LENGTH, "little") + head + b"".join(blobs)
    return len(body).to_bytes(LENGTH, "little") + body


def unpack(body: bytes | memoryview) -> dict[str, Any]:
    """The dictionary of a message without its first length. Raises WireError when a byte of it does not fit."""
    try:
        size = int.from_bytes(body[:LENGTH], "little")
        head = json.loads(bytes(body[LENGTH:LENGTH + size]))
        rest = memoryview(body)[LENGTH + size:]
        value = _decode(head, rest)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as problem:
        raise WireError(f"a damaged message: {problem}") from problem
    if not isinstance(value, dict):
        raise WireError("a message is a dictionary")
    return value


def head_of(body: bytes | memoryview) -> dict[str, Any]:
    """The plain values of a message's first level, without its arrays: what a server has to know of it. Raises WireError."""
    size = int.from_bytes(body[:LENGTH], "little")
    if size > MOST_HEAD:
        raise WireError(f"a head of {size} bytes is too long")
    try:
        head = json.loads(bytes(body[LENGTH:LENGTH + size]))
        return {key: item for key, item in head["$dict"] if isinstance(item, (str, int, float, bool))}
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise WireError(f"a damaged message: {problem}") from problem


def _encode(value: Any, blobs: list[bytes]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": _blob(bytes(value), blobs)}
    if isinstance(value, np.generic):
        return _encode(value.item(), blobs)
    if isinstance(value, np.ndarray):
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        data = np.ascontiguousarray(value.T if turned else value)
        return {"$array": _blob(data.tobytes(), blobs), "dtype": value.dtype.name, "size": value.dtype.itemsize, "shape": list(data.shape), "turned": turned}
    if isinstance(value, TensorMapFields):
        return {"$map": _encode(asdict(value), blobs)}
    if isinstance(value, Mapping):
        return {"$dict": [[_key(key), _encode(item, blobs)] for key, item in value.items()]}
    if isinstance(value, (tuple, list)):
        return {"$tuple" if isinstance(value, tuple) else "$list": [_encode(item, blobs) for item in value]}
    raise WireError(f"a {type(value).__name__} cannot travel to the queue")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise WireError(f"a key must be text, not {key!r}")
    return key


def _blob(data: bytes, blobs: list[bytes]) -> list[int]:
    start = sum(map(len, blobs))
    blobs.append(data)
    return [start, len(data)]


def _decode(value: Any, rest: memoryview) -> Any:
    if not isinstance(value, dict):
        return value
    if "$bytes" in value:
        return bytes(_part(value["$bytes"], rest))
    if "$array" in value:
        data = np.frombuffer(_part(value["$array"], rest), dtype=_dtype(value["dtype"], value["size"])).reshape(value["shape"]).copy()
        return data.T if value["turned"] else data
    if "$map" in value:
        return TensorMapFields(**_decode(value["$map"], rest))
    if "$dict" in value:
        return {key: _decode(item, rest) for key, item in value["$dict"]}
    items = [_decode(item, rest) for item in value["$tuple" if "$tuple" in value else "$list"]]
    return tuple(items) if "$tuple" in value else items


def _part(place: list[int], rest: memoryview) -> memoryview:
    start, size = place
    if start < 0 or size < 0 or start + size > len(rest):
        raise WireError("a damaged message: bytes are missing")
    return rest[start:start + size]


def _dtype(name: str, size: int) -> np.dtype[Any]:
    if name.startswith("void"):
        return np.dtype(f"V{size}")
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes
        other: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return other
