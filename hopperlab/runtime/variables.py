# SPDX-License-Identifier: Apache-2.0
"""`RawModule.get_global`: a module's `__device__` and `__constant__` variables, as CuPy gives them, in either place.

In the emulator a pointer is the variable's bytes as a NumPy array, so that `xp.ndarray(shape, dtype, pointer)` looks at the variable itself.
"""
from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import address_of
from .errors import BackendError, VariableNotFound
from .tensor_map import made_on_gpu

if TYPE_CHECKING:
    from ..emulator import Program

_VARIABLE = re.compile(r"^[ \t]*(?:\.(?:visible|extern|weak|common)\s+)?\.(?:const|global)\s(?P<words>[^=;{]*?)(?P<name>[\w$%]+)\s*(?:\[[^;=]*\])?\s*[=;]", re.MULTILINE)
MAP_BYTES, MAP_ALIGNMENT = 128, 64


class MemoryPointer(np.ndarray):
    """What cupy.cuda.MemoryPointer is on a GPU: `ptr` is the device address, `+` and `-` move it by bytes, copies go from and to host memory."""

    @classmethod
    def to(cls, variable: np.ndarray) -> MemoryPointer:
        """The pointer to a variable's bytes."""
        return variable.view(cls)

    @property
    def ptr(self) -> int:
        """The device address."""
        return address_of(self)

    def __int__(self) -> int:
        return self.ptr

    def __add__(self, offset: Any) -> MemoryPointer:
        return self[int(offset):].view(MemoryPointer)

    __radd__ = __add__

    def copy_from_host(self, mem: Any, size: int) -> None:
        """Bytes of host memory into the variable. mem: a ctypes.c_void_p or an address, as CuPy takes it."""
        ctypes.memmove(self[:_inside(self, size)].ctypes.data, _address(mem), size)

    def copy_to_host(self, mem: Any, size: int) -> None:
        """The variable's bytes into host memory."""
        ctypes.memmove(_address(mem), self[:_inside(self, size)].ctypes.data, size)

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Bytes of another pointer into the variable."""
        self[:_inside(self, size)] = src[:_inside(src, size)]

    def copy_from(self, mem: Any, size: int) -> None:
        """copy_from_device or copy_from_host, as `mem` is."""
        if isinstance(mem, MemoryPointer):
            self.copy_from_device(mem, size)
        else:
            self.copy_from_host(mem, size)

    def memset(self, value: int, size: int) -> None:
        """Every byte becomes `value`."""
        self[:_inside(self, size)] = value

    def __repr__(self) -> str:
        return f"<MemoryPointer {self.ptr:#x}, {self.nbytes} bytes>"

    __str__ = __repr__


def _inside(pointer: np.ndarray, size: int) -> int:
    if not 0 <= size <= pointer.nbytes:
        raise ValueError(f"{size} bytes, but the variable has {pointer.nbytes} from here on")
    return size


def _address(mem: Any) -> int:
    return int(getattr(mem, "value", mem) or 0)


def names(ptx: str) -> list[str]:
    """The global and constant variables that a PTX text declares outside of functions, by their PTX names."""
    return list(dict.fromkeys(match["name"] for match in _VARIABLE.finditer(ptx)))


def resolved(name: str, module: str, source: str | None, ptx: str, lowered: Mapping[str, str]) -> str:
    """The PTX name of a variable. Raises VariableNotFound, with the names there are and why this one may be missing."""
    known = names(ptx)
    wanted = lowered.get(name, name)
    if wanted in known:
        return wanted
    shown = [n for n in known if not n.startswith(("$", "__"))]
    hint = ""
    if source is not None and re.search(rf"\b{re.escape(name.split('::')[-1].lstrip('&'))}\b", source):
        hint = (" It stands in the source: a variable that no kernel uses is left out by the compiler, and one that is static, or in a namespace, has another name "
                f'(name_expressions=("&{name.lstrip("&")}",) asks for it).')
    raise VariableNotFound(f"{module} has no variable {name!r}; it has: {', '.join(shown) or 'none'}.{hint}")


@contextmanager
def mirrored(pointers: Mapping[str, Any], program: Program) -> Iterator[None]:
    """Around a launch in the emulator of a module that lives on the GPU: variables that were asked for have the same values in both places."""
    from ..emulator.machine import memory
    if not pointers:
        yield
        return
    import cupy
    here = program.variables(memory.default())
    there = {name: cupy.ndarray((here.arrays[name].nbytes,), cupy.uint8, pointer) for name, pointer in pointers.items()}
    for name, values in there.items():
        here.arrays[name][...] = _without_maps(cupy.asnumpy(values))
    yield
    for name, values in there.items():
        if name in here.writable:
            values.set(here.arrays[name])


def _without_maps(values: np.ndarray) -> np.ndarray:
    """The bytes of a variable of the GPU, as the emulator may have them. Raises BackendError for a tensor map, whose 128 bytes are the driver's own."""
    for start in range(0, values.nbytes - MAP_BYTES + 1, MAP_ALIGNMENT):
        if made_on_gpu(values[start:start + MAP_BYTES].tobytes()):
            raise BackendError("a tensor map of the GPU lies in a variable of this module, and the emulator cannot read the driver's 128 bytes: run the script "
                               "with HOPPERLAB_BACKEND=emulator, where maps are the emulator's own, or pass the map as an argument")
    return values
