# SPDX-License-Identifier: Apache-2.0
"""Operands of the source that emitter.py writes: reading registers and constants in a dtype, assigning results."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import isa
from ..isa import UnsupportedInstruction
from ..ptx.ir import Addr, Imm, Instr, Not, Reg, Sink, Special, Sym
from . import register_times
from .translated import DTYPES, HOME


WIDER = frozenset({"ld", "ldu", "st", "cvt"})
POINTERS = frozenset({"b32", "u32", "s32", "b64", "u64", "s64"})


class Operands:
    """The state of an Emitter: names that the source uses, and of the block at hand the registers it has loaded, its views
    of them in other dtypes, and what it has written."""

    def __init__(self, translation):
        self.t = translation
        self.function = translation.function
        self.names: dict[str, object] = {"np": np, **{f"t_{k}": v for k, v in DTYPES.items()}}
        self.constants: dict[tuple, str] = {}
        self.source: list[str] = []
        self.lines: list[str] = []
        self.local: set[str] = set()
        self.views: dict[str, set[str]] = {}
        self.loaded: list[str] = []
        self.body_defs: set[str] = set()
        self.instr: Instr | None = None
        self.guard: str | None = None

    def read(self, operand: Any, dtype: str | None) -> str:
        """Expression of a source operand in `dtype` (None: the register's own)."""
        kind = type(operand)
        if kind is Reg:
            self._fits(operand, dtype)
            return self._register(operand, dtype)
        if kind is Imm:
            return self._constant(operand, dtype or "u32")
        if kind is Not:
            self._fits(operand.reg, "pred")
            return f"~{self._register(operand.reg, 'pred')}"
        if kind is Special:
            value = f"M.special(C, {operand.name!r})"
            return value if dtype in (None, "u32", "u64") else f"{value}.view(t_{dtype})"
        if kind is Sym:
            return f"M.symbols[{operand.name!r}]"
        if kind is Addr:
            if type(operand.base) is Reg:
                self._addresses(operand.base)
            base = self.read(operand.base, "u64" if type(operand.base) is Imm else None)
            if not operand.offset:
                return base
            width = HOME[operand.base.type] if type(operand.base) is Reg else "u64"
            return f"({base} + {self._number(operand.offset, width)})"
        raise UnsupportedInstruction(self.instr.opcode, self.instr.ptx_line, f"operand {operand!r} cannot be read as a value")

    def _fits(self, reg: Reg, dtype: str | None) -> None:
        """A register is as wide as what an instruction wants of it; loads, stores and conversions take a wider one (PTX ISA 9.4.1)."""
        home = HOME[reg.type]
        if dtype is None or home == dtype:
            return
        have, want = (0 if kind == "pred" else np.dtype(DTYPES[kind]).itemsize * 8 for kind in (home, dtype))
        if have != want and not (have > want > 0 and self.instr.op in WIDER):
            raise UnsupportedInstruction(self.instr.opcode, self.instr.ptx_line,
                                         f"{reg.name} (.{reg.type}) stands where {f'{want} bits are' if want else 'a predicate is'} needed")

    def _addresses(self, reg: Reg) -> None:
        """The base of an address is an integer of 32 or 64 bits."""
        if reg.type not in POINTERS:
            raise UnsupportedInstruction(self.instr.opcode, self.instr.ptx_line, f"{reg.name} (.{reg.type}) holds no address")

    def _register(self, reg: Reg, dtype: str | None, use: bool = True) -> str:
        slot, home = self.t.slots[reg.name], HOME[reg.type]
        name = f"r{slot}"
        if reg.name not in self.local:
            self.local.add(reg.name)
            self.loaded.append(reg.name)
        if use and reg.name in self.t.tainted:
            view = f".view(t_{home})" if reg.name in self.t.foreign else ""
            self.lines.append(f"{name} = M.settled(C, {name}, {self.instr.index}){view}")
        if dtype is None or dtype == home:
            return name
        key = f"{name}_{dtype}"
        if self.views.get(reg.name, ()) and key in self.views[reg.name]:
            return key
        self.lines.append(f"{key} = {self._cast(name, home, dtype)}")
        self.views.setdefault(reg.name, set()).add(key)
        return key

    @staticmethod
    def _cast(name: str, home: str, dtype: str) -> str:
        """The same bits in another dtype; a narrower one takes the low bits."""
        width, want = np.dtype(DTYPES[home]).itemsize, np.dtype(DTYPES[dtype]).itemsize
        if "pred" in (home, dtype):
            return f"{name}.astype(t_{dtype})"
        if width == want:
            return f"{name}.view(t_{dtype})"
        unsigned = f"u{width * 8}"
        source = name if home == unsigned else f"{name}.view(t_{unsigned})"
        narrow = f"u{want * 8}"
        cast = f"{source}.astype(t_{narrow})"
        return cast if dtype == narrow else f"{cast}.view(t_{dtype})"

    def _constant(self, imm: Imm, dtype: str) -> str:
        if dtype == "b128":
            raise UnsupportedInstruction(self.instr.opcode, self.instr.ptx_line, "a constant has 64 bits at most")
        return self._bind(isa.immediate(imm, dtype), dtype)

    def _number(self, value: int, dtype: str) -> str:
        bits = np.dtype(DTYPES[dtype]).itemsize * 8
        return self._bind(DTYPES[dtype](value & ((1 << bits) - 1)), dtype)

    def _bind(self, value, dtype: str) -> str:
        key = (dtype, value.tobytes())
        if key not in self.constants:
            self.constants[key] = f"K{len(self.constants)}"
            self.names[self.constants[key]] = value
        return self.constants[key]

    def write(self, reg: Reg | Sink, expression: str, dtype: str) -> None:
        """Assign a result (in `dtype`) to a register, in its home dtype; a guarded write keeps the old lanes."""
        if type(reg) is Sink:
            self.lines.append(expression)
            return
        self._fits(reg, dtype)
        name, home = f"r{self.t.slots[reg.name]}", HOME[reg.type]
        if dtype != home:
            expression = self._widen(expression, dtype, home)
        if self.guard is not None:
            expression = f"np.where({self.guard}, {expression}, {self._register(reg, None)})"
        if self.t.tainted:
            register_times.writes(self, reg)
        self.lines.append(f"{name} = {expression}")
        self.local.add(reg.name)
        self.body_defs.add(reg.name)
        self.views.pop(reg.name, None)
        if self.t.times.fragments or self.t.times.tracked:
            register_times.wrote(self, reg)

    @staticmethod
    def _widen(expression: str, dtype: str, home: str) -> str:
        width, want = np.dtype(DTYPES[dtype]).itemsize, np.dtype(DTYPES[home]).itemsize
        if width == want:
            return f"({expression}).view(t_{home})"
        if dtype[0] == "s":          # a signed narrow result fills its register sign-extended
            return f"({expression}).astype(t_s{want * 8}).view(t_{home})"
        return f"({expression}).astype(t_{home})"
