# SPDX-License-Identifier: Apache-2.0
"""Operands of PTX instructions: registers, immediates, symbols, addresses.

Plain frozen dataclasses without behaviour; `ir.py` re-exports every name. PTX ISA 6 (Instruction Operands).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reg:
    """A register. `name` is unique within its function: a register declared in a nested `{ }` block gets the suffix
    `.N` (the block's number), which no written PTX name can have. `type` is the declared one without its dot."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant. `kind` is 'int', 'f32' (0f…) or 'f64' (0d… and decimal); `value` is the number as written and
    `bits` its pattern (64 bits for 'int' in two's complement and for 'f64', 32 bits for 'f32')."""

    value: int | float
    kind: str
    bits: int


@dataclass(frozen=True, slots=True)
class Sym:
    """The address of a variable or function, or a parameter, by its unique name."""

    name: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as '%tid.x', '%clock64' or '%laneid' (PTX ISA 10)."""

    name: str

    @property
    def tells_time(self) -> bool:
        """True for the clocks: %clock, %clock_hi, %clock64, %globaltimer and its halves."""
        return self.name.startswith(("%clock", "%globaltimer"))


@dataclass(frozen=True, slots=True)
class Vec:
    """`{a, b, …}`; also the parenthesised lists of `call`."""

    items: tuple


@dataclass(frozen=True, slots=True)
class Addr:
    """`[base + offset]`, offset in bytes; an absolute address has an Imm base. As a plain source (`mov.u64 d, a+8;`,
    `mov.u64 d, a[2];`) it is the address itself."""

    base: Reg | Sym | Imm
    offset: int = 0


@dataclass(frozen=True, slots=True)
class TensorAddr:
    """`[map + offset, {c0, c1, …}]`: a tensor map and the coordinates of a box, innermost first."""

    map: Reg | Sym | Imm
    offset: int
    coords: tuple


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target, or the name of a `.branchtargets`, `.calltargets` or `.callprototype` table."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


@dataclass(frozen=True, slots=True)
class PredPair:
    """`first|second`, the two results of setp, elect.sync, shfl.sync and match.sync."""

    first: Reg | Sink
    second: Reg | Sink


@dataclass(frozen=True, slots=True)
class Not:
    """`!p` as a source operand."""

    reg: Reg


# The carry flag that add.cc, sub.cc and mad.cc write and addc, subc and madc read (PTX ISA 9.7.2).
CARRY = Reg("%CF", "pred")
