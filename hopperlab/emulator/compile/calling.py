# SPDX-License-Identifier: Apache-2.0
"""How calls work here: operands of a call, addresses of functions, the stack, and where a function keeps its variables (see link.py)."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..ptx.ir import Function, Instr, Module, Reg, Variable, Vec

STACK_BYTES = 8192
STACK = "%stack"
SP = Reg("%sp", "u64")
FUNCTIONS = 0x7C00_0000_0000        # addresses of functions: 16 apart from here


@dataclass(slots=True)
class Linked(Function):
    """A kernel with the functions it calls; `addresses` gives every function whose address is taken."""

    addresses: dict[str, int] = field(default_factory=dict)


@dataclass
class Part:
    """One function of the whole. `places`: name of a variable -> its name in local memory, or its offset from the stack
    pointer (int). `sites`: labels that its calls return to. framed: it has a stack frame of `frame` bytes."""

    function: Function
    prefix: str
    framed: bool = False
    cyclic: bool = False
    frame: int = 0
    places: dict[str, str | int] = field(default_factory=dict)
    saved: dict[int, list[Reg]] = field(default_factory=dict)
    save_at: int = 0
    sites: list[str] = field(default_factory=list)

    @property
    def back(self) -> Reg:
        """The register that says which call to return to."""
        return Reg(f"{self.function.name}:%return", "u32")


def function_addresses(module: Module) -> dict[str, int]:
    """The address that every function of a module has."""
    return {name: FUNCTIONS + 16 * k for k, name in enumerate(module.functions)}


def target_of(instr: Instr) -> tuple[tuple[Any, ...], Any, tuple[Any, ...]]:
    """(returned operands, target operand, argument operands) of a call."""
    operands = list(instr.operands)
    returned = operands.pop(0).items if type(operands[0]) is Vec else ()
    return returned, operands[0], operands[1].items if len(operands) > 1 and type(operands[1]) is Vec else ()


def defined(module: Module, target: Any) -> bool:
    """True when a call's target has a body in this module (a pointer always leads to one)."""
    return type(target) is Reg or module.functions[target.name].defined


def abi_offsets(params: list[Variable], ret: list[Variable]) -> dict[str, int]:
    """Offset in a frame of every parameter in memory: the same for all functions of one signature."""
    places, at = {}, 0
    for v in (*params, *ret):
        if v.space != "reg":
            at = -(-at // v.align) * v.align
            places[v.name] = at
            at += v.size
    return places


def abi_size(params: list[Variable], ret: list[Variable]) -> int:
    """Bytes at the start of a frame that parameters take."""
    places = abi_offsets(params, ret)
    return max((places[v.name] + v.size for v in (*params, *ret) if v.name in places), default=0)
