# SPDX-License-Identifier: Apache-2.0
"""Calls of what no module defines: vprintf, __assertfail, malloc and free (CUDA Programming Guide, device-side functions).

Arguments lie in local memory, where link.py puts them.
"""
from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..ptx import places
from ..errors import EmulatorError
from ..compile.calling import target_of
from ..ptx.ir import Reg
from ..compile.translated import MachineOp
from . import loadstore
from .common import LOCAL_TAG, Access, unsupported

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine

PRINT_BYTES = 1 << 20              # cudaLimitPrintfFifoSize, as the runtime sets it; here the first of it stays, on a GPU the last
MOST_WIDTH = 4096                  # of one conversion of printf
HEAP_BYTES = 8 << 20               # cudaLimitMallocHeapSize, as the runtime sets it
_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")
LONG = ("l", "ll", "j", "z", "t")


def _call(instr, function) -> MachineOp:
    if instr.mods == ("outside",):
        return MachineOp(outside_table, (instr.index, instr.operands[2].value), ((instr.operands[1], "u32"),))
    returned, target, arguments = target_of(instr)
    if type(target) is Reg:
        return MachineOp(not_callable, instr.index, ((target, "u64"),))
    handler = HANDLERS.get(target.name)
    if handler is None:
        raise unsupported(instr, f"function {target.name} is declared, but this module does not define it")
    return MachineOp(handler, instr.index, tuple((o, None) for o in (*arguments, *returned)))


def outside_table(M: Machine, C: Cohort, info: Any, position: Value) -> NoReturn:
    """brx.idx with an index that its table does not have."""
    index, size = info
    value = int(M.lanes(C, position)[0])
    raise M.fault(C, index, 0, f"a jump to entry {value} of a table of {size}", "out-of-bounds", value)


def not_callable(M: Machine, C: Cohort, index: int, pointer: Value) -> NoReturn:
    """A call through a pointer that holds no function's address."""
    value = int(M.lanes(C, pointer)[0])
    raise M.fault(C, index, 0, f"a call of {value:#x}, which is not the address of a device function", "out-of-bounds", value)


def _read(M, C, index: int, address, kind: str) -> np.ndarray:
    """One value a lane from a generic or local address."""
    width = int(kind[1:]) // 8
    access = Access(index, kind, width, 1, "generic")
    address = M.lanes(C, address)
    if not (int(address[0]) >> 40):
        return loadstore.load(M, C, Access(index, kind, width, 1, "local"), address)
    return M.lanes(C, loadstore.load(M, C, access, address))


def _write(M, C, index: int, address, kind: str, values: np.ndarray) -> None:
    loadstore.store(M, C, Access(index, kind, int(kind[1:]) // 8, 1, "local"), M.lanes(C, address), values)


def _string(M, C, index: int, lane: int, address: int) -> str:
    """The C string at a generic address of one thread."""
    if address == 0:
        return "(null)"
    if address >> 40 == LOCAL_TAG:
        raw = M.local[:, C.gids[lane]].tobytes()[address & 0xFFFFFF:]
    else:
        allocation = M.memory.find(address)
        if allocation is None:
            raise M.fault(C, index, lane, f"a string at {address:#x}: {M.memory.nearest(address)}", "out-of-bounds", address)
        raw = allocation.view(1)[address - allocation.address:].tobytes()
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def vprintf(M: Machine, C: Cohort, index: int, format_at: Value, arguments_at: Value, returned: Value | None = None) -> None:
    """printf: each lane prints in lane order, as soon as it runs (on a GPU the text comes when the host synchronises). A launch
    prints as much as the buffer of a GPU holds; what comes after it is lost, and one line says so."""
    formats = _read(M, C, index, format_at, "u64")
    arguments = _read(M, C, index, arguments_at, "u64")
    counts = np.zeros(C.n, np.uint32)
    for lane in range(C.n):
        sub = type(C)(C.gids[lane:lane + 1], None, C.pc)
        text, counts[lane] = _formatted(M, sub, index, _string(M, C, index, lane, int(formats[lane])), int(arguments[lane]))
        _print(M, text)
    if returned is not None:
        _write(M, C, index, returned, "u32", counts)


def _print(M, text: str) -> None:
    if M.printed > PRINT_BYTES:
        return
    M.printed += len(text)
    if M.printed > PRINT_BYTES:
        text = f"\n(printf: this launch filled the buffer of {PRINT_BYTES >> 20} MiB; what it prints from here on is lost)\n"
    sys.stdout.write(text)


def _formatted(M, C, index: int, pattern: str, at: int) -> tuple[str, int]:
    """The text of one thread's printf and how many arguments it had. Arguments lie at `at`, each aligned to its size."""
    place, count = at, 0

    def argument(kind: str):
        nonlocal place, count
        width = int(kind[1:]) // 8
        place = -(-place // width) * width
        value = _read(M, C, index, np.array([place], np.uint64), kind)[0]
        place, count = place + width, count + 1
        return value

    def convert(match: re.Match) -> str:
        flags, width, precision, length, conversion = match.groups()
        if conversion == "%":
            return "%"
        size = "64" if length in LONG else "32"
        if width == "*":
            width = str(int(argument("s32")))
        if precision == "*":
            precision = str(int(argument("s32")))
        if any(len(given or "") > 9 or abs(int(given or 0)) > MOST_WIDTH for given in (width, precision)):
            raise EmulatorError(f"printf with a width or precision above {MOST_WIDTH} at {places.place(M.body[index])}")
        spec = f"%{flags}{width or ''}" + (f".{precision}" if precision is not None else "")
        if conversion in "di":
            value = int(argument("s" + size))
            return f"{spec}d" % ((value + 128) % 256 - 128 if length == "hh" else (value + 32768) % 65536 - 32768 if length == "h" else value)
        if conversion in "ouxX":
            value = int(argument("u" + size)) & {"hh": 0xFF, "h": 0xFFFF}.get(length, -1)
            return f"{spec}{'d' if conversion == 'u' else conversion}" % value
        if conversion == "c":
            return f"{spec}c" % chr(int(argument("u32")) & 0xFF)
        if conversion == "p":
            return f"%{flags}{width or ''}s" % hex(int(argument("u64")))
        if conversion == "s":
            return f"{spec}s" % _string(M, C, index, 0, int(argument("u64")))
        value = float(argument("f64"))
        return value.hex() if conversion in "aA" else f"{spec}{conversion}" % value
    return _CONVERSION.sub(convert, pattern), count


def assertfail(M: Machine, C: Cohort, index: int, *at: Value) -> NoReturn:
    """assert: the kernel ends with the condition, the file, line and function that failed, and the thread."""
    condition, file, function = (_string(M, C, index, 0, int(_read(M, C, index, at[k], "u64")[0])) for k in (0, 1, 3))
    line, gid = int(_read(M, C, index, at[2], "u32")[0]), int(C.gids[0])
    more = f" and {C.n - 1} more threads" if C.n > 1 else ""
    raise EmulatorError(f"{file}:{line}: {function}: block {M.block_index(gid)}, thread {gid % M.T}{more}: assertion "
                        f"`{condition}` failed (at {places.place(M.body[index])})")


def malloc(M: Machine, C: Cohort, index: int, size_at: Value, returned: Value) -> None:
    """malloc: zeroed memory of the device heap, null when the heap of 8 MiB is used up."""
    sizes = _read(M, C, index, size_at, "u64")
    heap = M.memory.heap
    out = np.zeros(C.n, np.uint64)
    for lane, nbytes in enumerate(sizes.tolist()):
        if nbytes and heap.used + nbytes <= HEAP_BYTES:
            out[lane] = heap.take(M.memory, nbytes)
    M.progress += 1
    _write(M, C, index, returned, "u64", out)


def free(M: Machine, C: Cohort, index: int, at: Value) -> None:
    """free: gives memory of the device heap back; freeing anything else is a fault."""
    for lane, address in enumerate(_read(M, C, index, at, "u64").tolist()):
        if address and not M.memory.heap.give(address):
            raise M.fault(C, index, lane, f"free of {address:#x}, which malloc did not return (or which was freed before)", "out-of-bounds", address)


HANDLERS = {"vprintf": vprintf, "__assertfail": assertfail, "malloc": malloc, "free": free}
RESOLVERS = {"call": _call}
