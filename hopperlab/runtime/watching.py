# SPDX-License-Identifier: Apache-2.0
"""Launches that came to their end, shown to whoever watches: `watching(seen)` calls `seen` after each, with what the launch was given.

`gpu.relaunch` makes such a launch again on the GPU.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import Array, base_of, is_cuda_array
from .launch_attributes import LaunchAttributes
from .session import current
from .tensor_map import TensorMap


@dataclass(frozen=True)
class Seen:
    """One launch that came to its end. kernel: the RawKernel; before: copies of what each base array (NumPy or CuPy) held, by its id (empty where no watcher wants any);
    place: where it ran; clean: the emulator found neither hazards nor warnings (it looks for none on the GPU)."""

    kernel: Any
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared_mem: int
    before: Mapping[int, Array]
    place: str
    clean: bool
    attributes: LaunchAttributes = LaunchAttributes()

    @property
    def arrays(self) -> list[Array]:
        """The base arrays of its arguments, in their order, as the launch left them."""
        return list({id(base): base for base in _bases(self.args)}.values())


Launched = Callable[[Any, tuple[int, ...], tuple[int, ...], Sequence[Any], int, LaunchAttributes], None]
"""launched(kernel, grid, block, args, shared_mem, attributes)."""
_watchers: list[tuple[Callable[[Seen], None], bool]] = []
_before: list[Launched] = []


@contextmanager
def watching(seen: Callable[[Seen], None], copies: bool = True) -> Iterator[None]:
    """Inside the block, `seen` is called after each launch, of any thread and in either place. copies False: without what the arrays held before."""
    watcher = seen, copies
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


@contextmanager
def launching(launched: Launched) -> Iterator[None]:
    """Inside the block, `launched` is called before each launch, of any thread and in either place, when its arguments have been checked."""
    _before.append(launched)
    try:
        yield
    finally:
        _before.remove(launched)


def told_before(kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int, attributes: LaunchAttributes) -> None:
    """A launch is about to be made (RawKernel)."""
    for launched in list(_before):
        launched(kernel, grid, block, args, shared_mem, attributes)


@contextmanager
def shown_to_watchers(kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared_mem: int, place: str,
                      attributes: LaunchAttributes) -> Iterator[None]:
    """Around one launch (RawKernel). Nobody is told of a launch that raises."""
    if not _watchers:
        yield
        return
    watchers = list(_watchers)
    wanted = any(copies for _, copies in watchers)
    before, known = {id(base): base.copy() for base in _bases(args)} if wanted else {}, _findings()
    yield
    for seen, _ in watchers:
        seen(Seen(kernel, grid, block, tuple(args), shared_mem, before, place, _findings() == known, attributes))


def _findings() -> int:
    session = current()
    return 0 if session is None else len(session.hazards) + len(session.warnings)


def passed_array(arg: Any) -> Any:
    """The array that an argument of a launch leads to: a tensor map's own, else the argument itself."""
    return arg.array if isinstance(arg, TensorMap) else arg


def _bases(args: Sequence[Any]) -> list[Array]:
    return [base_of(array) for array in map(passed_array, args) if isinstance(array, np.ndarray) or is_cuda_array(array)]
