"""Launches in the emulator: arguments become bytes, NumPy arrays become synthetic addresses.

A kernel of a GPU machine also runs here, inside `hl.emulate`: then CuPy arrays get mirrors in host memory, which are
copied in before the launch and back after it.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from . import session as sessions
from .arrays import address_of, base_of, is_cuda_array
from .ptxas import PtxasInfo
from .tensor_map import TensorMap

MOST_PROGRAMS = 64
_programs: OrderedDict[tuple, object] = OrderedDict()


def program(ptx: str, info: PtxasInfo):
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


def launch(prog, name: str, grid, block, args: Sequence, shared_mem: int) -> None:
    """Run one kernel. `args` have been checked; `sessions.current()` says how, or else lazy with hazards raised."""
    from .. import emulator
    session = sessions.current() or emulator.Session(schedule="lazy")
    how = sessions.forced()
    if how is not None and how.watch is not None:
        how.watch(args, prog)
    mirrors = Mirrors()
    packed = [mirrors.pack(value, f"argument {number}") for number, value in enumerate(args, 1)]
    try:
        emulator.launch(prog, name, grid=grid, block=block, args=packed, shared_mem=shared_mem, session=session)
    finally:
        mirrors.copy_back()


class Mirrors:
    """Host copies of the CuPy arrays of one launch. Views of one array share its mirror."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[object, np.ndarray]] = {}

    def pack(self, value, what: str) -> bytes:
        """The bytes a kernel parameter gets for one checked argument, which messages call `what`."""
        if isinstance(value, TensorMap):
            if value.place == "gpu":
                return value.at(self._mirrored(value.array, what))
            address_of(value.array, _named(what, value.array))
            return bytes(value)
        if is_cuda_array(value):
            return self._mirrored(value, what).to_bytes(8, "little")
        if isinstance(value, np.ndarray):
            return address_of(value, _named(what, value)).to_bytes(8, "little")
        return value.tobytes()

    def _mirrored(self, array, what: str) -> int:
        """Address, in the emulator, of a CuPy array's first element."""
        import cupy
        array = cupy.asarray(array)
        owner = base_of(array)
        if owner.data.ptr not in self._copies:
            self._copies[owner.data.ptr] = (owner, cupy.asnumpy(owner))
        mirror = self._copies[owner.data.ptr][1]
        return address_of(mirror, _named(what, owner)) + array.data.ptr - owner.data.ptr

    def copy_back(self) -> None:
        """Give the CuPy arrays what the kernel wrote into their mirrors."""
        for owner, mirror in self._copies.values():
            owner.set(mirror)


def _named(what: str, array) -> str:
    """What messages call an argument's buffer: 'argument 2 (float32, shape (64, 64))', of its base where it is a view."""
    base = base_of(array)
    return f"{what} ({base.dtype}, shape {base.shape})"
