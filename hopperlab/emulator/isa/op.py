# SPDX-License-Identifier: Apache-2.0
"""What every family of instructions shares: AluOp, the reader of modifiers, types, and the error for what is not there.

A family module turns an Instr into an AluOp. Nothing here knows an instruction; the tables of the families do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EmulatorError
from ..ptx import ir

if TYPE_CHECKING:
    from collections.abc import Collection


class UnsupportedInstruction(EmulatorError):
    """An instruction, modifier or type the emulator does not execute. `opcode` is the whole dotted name, `ptx_line`
    the 1-based line in the PTX text, `why` the reason (for newer instructions: the architecture that has them)."""

    def __init__(self, opcode: str, ptx_line: int, why: str):
        super().__init__(f"PTX line {ptx_line}: {opcode}: {why}")
        self.opcode, self.ptx_line, self.why = opcode, ptx_line, why


@dataclass(frozen=True, slots=True)
class AluOp:
    """One register-to-register instruction, as a function on NumPy arrays.

    `fn` takes one array of shape (n,), or NumPy scalar, a source operand in written order (vectors flattened), each in
    dtype `ins[i]`, and returns one value of dtype `outs[0]`, or a tuple when there are several `outs` (one for each
    written destination, `_` included). A `!p` operand arrives already negated. With `reads_cc` the carry flag is the
    last argument, with `writes_cc` the last result; neither is in `ins` or `outs`. `fn` never changes an argument but
    may return one. `inline` is the same function as an expression template ('{0} + {1}') which may use `np`.

    Dtype names: 'pred' (bool), 'u8' … 's64', 'f16', 'f32', 'f64', and 'b128': (n, 2) uint64, low half first.
    """

    fn: Callable
    ins: tuple[str, ...]
    outs: tuple[str, ...]
    inline: str | None = None
    reads_cc: bool = False
    writes_cc: bool = False


NUMPY = {
    "pred": np.bool_, "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "u32": np.uint32,
    "s32": np.int32, "u64": np.uint64, "s64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip

# The dtype that holds each PTX type (PTX ISA 5.2): bits and packed formats are unsigned integers.
DTYPE = {name: name for name in NUMPY} | {
    "b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "b128": "b128", "bf16": "u16", "f16x2": "u32",
    "bf16x2": "u32", "u16x2": "u32", "s16x2": "u32", "tf32": "u32", "e4m3": "u8", "e5m2": "u8", "e4m3x2": "u16",
    "e5m2x2": "u16",
}  # fmt: skip

BITS = {
    "pred": 1, "u8": 8, "s8": 8, "u16": 16, "s16": 16, "f16": 16, "u32": 32, "s32": 32, "f32": 32, "u64": 64,
    "s64": 64, "f64": 64, "b128": 128,
}  # fmt: skip

# Types and modifiers of other architectures, by the first that has them (PTX ISA 9).
NEWER = {
    "f32x2": "sm_100", "e2m1x2": "sm_100a", "e2m3x2": "sm_100a", "e3m2x2": "sm_100a", "ue8m0x2": "sm_100a",
    "e2m1x4": "sm_100a", "e2m3x4": "sm_100a", "e3m2x4": "sm_100a", "e4m3x4": "sm_100a", "e5m2x4": "sm_100a",
    "rs": "sm_100a", "e2m1": "sm_120a", "e2m3": "sm_120a", "e3m2": "sm_120a", "u8x4": "sm_120", "s8x4": "sm_120",
    "kind::f8f6f4": "sm_120a", "kind::mxf8f6f4": "sm_120a", "kind::mxf4": "sm_120a", "kind::mxf4nvf4": "sm_120a",
    "block_scale": "sm_120a",
}  # fmt: skip

# Types that appear as the last modifier of an instruction.
TYPES = frozenset(DTYPE) | (frozenset(NEWER) - {"rs"})


class Modifiers:
    """The dotted modifiers of one instruction, taken off one by one; `finish` rejects what nobody took."""

    def __init__(self, instr: ir.Instr):
        self.instr = instr
        self.left = list(instr.mods)

    def fail(self, why: str) -> UnsupportedInstruction:
        """The error for this instruction."""
        return UnsupportedInstruction(self.instr.opcode, self.instr.ptx_line, why)

    def flag(self, name: str) -> bool:
        """Take `.name`; False when it is not there."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def choose(self, names: Collection[str], default: str | None = None) -> str | None:
        """Take the first modifier that is one of `names`, else return the default."""
        for mod in self.left:
            if mod in names:
                self.left.remove(mod)
                return mod
        return default

    def require(self, names: Collection[str]) -> str:
        """Take the first modifier that is one of `names`; it is an error when there is none."""
        found = self.choose(names)
        if found is None:
            newer = next((mod for mod in self.left if mod in NEWER), None)
            if newer is not None:
                raise self.fail(self.unknown(newer, "modifier"))
            raise self.fail(f"needs one of {', '.join('.' + name for name in names)}")
        return found

    def type(self, allowed: Collection[str]) -> str:
        """Take the last modifier, which must be one of the `allowed` types."""
        last = self.left.pop() if self.left else ""
        if last not in allowed:
            raise self.fail(self.unknown(last, "type"))
        return last

    def finish(self) -> None:
        """Raise UnsupportedInstruction if a modifier is left."""
        if self.left:
            raise self.fail(self.unknown(self.left[0], "modifier"))

    @staticmethod
    def unknown(mod: str, what: str) -> str:
        """Why a modifier or type is not accepted."""
        if mod in NEWER:
            return f".{mod} needs {NEWER[mod]} or newer; Hopper (sm_90a) does not have it"
        return f"the {what} .{mod} is not one this instruction has on sm_90a" if mod else f"the {what} is missing"


def expression(template: str, ins: tuple[str, ...], outs: tuple[str, ...]) -> AluOp:
    """An AluOp whose `fn` and `inline` are one expression, such as '{0} + {1}'."""
    names = [f"x{i}" for i in range(len(ins))]
    source = f"lambda {', '.join(names)}: {template.format(*names)}"
    return AluOp(eval(source, {"np": np}), ins, outs, template)  # templates are constants of this package


def sources(instr: ir.Instr, first: int = 1) -> tuple:
    """Source operands in written order, vectors flattened; `first` is the number of destinations."""
    flat: list = []
    for operand in instr.operands[first:]:
        flat.extend(operand.items if type(operand) is ir.Vec else (operand,))
    return tuple(flat)


def constant(operand: Any) -> int | None:
    """The pattern of an immediate operand, or None for a register."""
    return operand.bits if type(operand) is ir.Imm else None


def immediate(imm: ir.Imm, dtype: str) -> np.generic:
    """An immediate operand as a NumPy scalar of `dtype`: a float literal in an integer operand means its bits, an
    integer literal in a float operand of 16 bits likewise (PTX ISA 4.5)."""
    if dtype == "pred":
        return np.bool_(imm.value != 0)
    kind = NUMPY[dtype]
    if dtype in ("f32", "f64"):
        return kind(imm.value)
    if imm.kind != "int" and dtype == "f16":
        return kind(imm.value)
    width = BITS[dtype]
    return np.array(imm.bits & (1 << width) - 1, dtype=f"u{width // 8}").view(kind)[()]


def unary(template_or_fn: str | Callable[..., Any], dtype: str, out: str | None = None) -> AluOp:
    """One source and one result of the same dtype (or `out`)."""
    return build(template_or_fn, (dtype,), (out or dtype,))


def binary(template_or_fn: str | Callable[..., Any], dtype: str, out: str | None = None) -> AluOp:
    """Two sources and one result of the same dtype (or `out`)."""
    return build(template_or_fn, (dtype, dtype), (out or dtype,))


def ternary(template_or_fn: str | Callable[..., Any], dtype: str, out: str | None = None) -> AluOp:
    """Three sources and one result of the same dtype (or `out`)."""
    return build(template_or_fn, (dtype,) * 3, (out or dtype,))


def build(template_or_fn: str | Callable[..., Any], ins: tuple[str, ...], outs: tuple[str, ...]) -> AluOp:
    """An AluOp from an expression template or from a function."""
    if isinstance(template_or_fn, str):
        return expression(template_or_fn, ins, outs)
    return AluOp(template_or_fn, ins, outs)
