# SPDX-License-Identifier: Apache-2.0
"""Who wants to know what a stretch of Python used of this room: what it compiled, what it launched, which kernel's text it read, whether it asked for the place.

`telling(listener)` calls `listener(kind, what)` inside its block. Nobody listens unless a notebook is executed to be stored
(authoring), or the suite counts what it visits.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

COMPILED = "compiled"       # what: the nvrtc.Source
LAUNCHED = "launched"       # what: (nvrtc.Source, or None for foreign PTX; whether it was launched inside `emulate`)
READ = "read"               # what: the path of a kernel's file, below hopperlab/kernels/, whose text was asked for
SHOWN = "shown"             # what: the path of such a file, of which lines are shown beside something else
PLACE = "place"             # what: the place that this process chose, which somebody asked for

_listeners: list[Callable[[str, object], None]] = []


@contextmanager
def telling(listener: Callable[[str, object], None]) -> Iterator[None]:
    """Inside the block, `listener` is called with each use, of any thread."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(kind: str, what: object) -> None:
    """Tell all listeners of one use."""
    for listener in list(_listeners):
        listener(kind, what)
