# SPDX-License-Identifier: Apache-2.0
"""Launches in the emulator: arguments become bytes, NumPy arrays become synthetic addresses.

A kernel of a GPU machine also runs here, inside `hl.emulate`: then CuPy arrays get mirrors in host memory, which are
copied in before the launch and back after it.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import pending, session as sessions
from .arrays import Array, address_of, base_of, is_cuda_array
from .compile.ptxas import PtxasInfo
from .launch_attributes import LaunchAttributes
from .notebook_line import NotebookLine, watched
from .streams import Stream, queue_of
from .tensor_map import PointedMap, TensorMap
from .variables import MemoryPointer

if TYPE_CHECKING:
    from ..emulator import Program, Queue

MOST_PROGRAMS = 64
PLAIN = LaunchAttributes()
_programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()


def program(ptx: str, info: PtxasInfo) -> Program:
    """The emulator's Program of a PTX text, with device variables of its own. The same text is translated only once."""
    from .. import emulator
    registers = tuple((name, use.registers) for name, use in info.items())
    key = (ptx, registers)
    if key not in _programs:
        _programs[key] = emulator.Program(ptx, resources=dict(info.kernels) or None)
        while len(_programs) > MOST_PROGRAMS:
            _programs.popitem(last=False)
    _programs.move_to_end(key)
    return _programs[key].fresh()


def launch(prog: Program, name: str, grid: tuple[int, int, int], block: tuple[int, int, int], args: Sequence[Any], shared_mem: int,
           stream: Stream | None = None, attributes: LaunchAttributes = PLAIN) -> None:
    """Run one kernel. `args` have been checked; `sessions.current()` says how, or else lazy with hazards raised. On a stream it only stands in line."""
    from .. import emulator
    how = sessions.forced()
    if how is not None and how.watch is not None:
        how.watch(args, prog)
    queue = queue_of(stream)
    if pending.beside_others(queue, attributes.dependent):
        _stand_in_line(prog, name, grid, block, args, shared_mem, queue, attributes)
        return
    session = sessions.current() or emulator.Session(schedule="lazy")
    mirrors = Mirrors()
    packed = [mirrors.pack(value, f"argument {number}") for number, value in enumerate(args, 1)]
    try:
        emulator.launch(prog, name, grid=grid, block=block, args=packed, shared_mem=shared_mem, cluster=attributes.cluster, session=session,
                        line=NotebookLine() if watched() else None)
    finally:
        mirrors.copy_back()


def variable(prog: Program, name: str) -> MemoryPointer | None:
    """A pointer to a global or constant variable of a Program, by its PTX name; None for one that it only declares."""
    from ..emulator.machine import memory
    array = prog.variables(memory.default()).arrays.get(name)
    return None if array is None else MemoryPointer.to(array)


def _stand_in_line(prog: Program, name: str, grid: tuple[int, int, int], block: tuple[int, int, int], args: Sequence[Any], shared_mem: int,
                   queue: Queue | None, attributes: LaunchAttributes) -> None:
    """A launch on a stream, or beside launches that are on one."""
    from .. import emulator
    waiting = pending.started()
    if waiting.mirrors is None:
        waiting.mirrors = Mirrors()
    packed = [waiting.mirrors.pack(value, f"argument {number}") for number, value in enumerate(args, 1)]
    plan = emulator.plan(prog, name, grid=grid, block=block, args=packed, shared_mem=shared_mem, cluster=attributes.cluster, session=waiting.session)
    pending.launch(plan, queue, attributes.dependent, (prog, *args))


class Mirrors:
    """Host copies of the CuPy arrays of one launch. Views of one array share its mirror."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Array, np.ndarray]] = {}
        self._maps: list[np.ndarray] = []

    def pack(self, value: Any, what: str) -> bytes:
        """The bytes a kernel parameter gets for one checked argument, which messages call `what`."""
        if isinstance(value, TensorMap):
            image = self._image(value, what)
            return self._copied(image, what).to_bytes(8, "little") if isinstance(value, PointedMap) else image
        if is_cuda_array(value):
            return self._mirrored(value, what).to_bytes(8, "little")
        if isinstance(value, np.ndarray):
            return address_of(value, _named(what, value)).to_bytes(8, "little")
        scalar: np.generic = value
        return scalar.tobytes()

    def _image(self, value: TensorMap, what: str) -> bytes:
        """The emulator's 128 bytes of a map."""
        if value.place == "gpu":
            return value.at(self._mirrored(value.array, what))
        address_of(value.array, _named(what, value.array))
        return bytes(value)

    def _copied(self, image: bytes, what: str) -> int:
        """Address of a copy of a map, which kernels cannot write; it lives as long as this."""
        self._maps.append(np.frombuffer(image, np.uint8))
        return address_of(self._maps[-1], f"the device's copy of {what}, a tensor map")

    def _mirrored(self, array: Array, what: str) -> int:
        """Address, in the emulator, of a CuPy array's first element."""
        import cupy
        array = cupy.asarray(array)
        owner = base_of(array)
        if owner.data.ptr not in self._copies:
            self._copies[owner.data.ptr] = (owner, cupy.asnumpy(owner))
        mirror = self._copies[owner.data.ptr][1]
        return address_of(mirror, _named(what, owner)) + int(array.data.ptr - owner.data.ptr)

    def copy_back(self) -> None:
        """Give the CuPy arrays what the kernel wrote into their mirrors."""
        for owner, mirror in self._copies.values():
            owner.set(mirror)


def _named(what: str, array: Array) -> str:
    """What messages call an argument's buffer: 'argument 2 (float32, shape (64, 64))', of its base where it is a view."""
    base = base_of(array)
    return f"{what} ({base.dtype}, shape {base.shape})"
