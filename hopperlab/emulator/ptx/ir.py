# SPDX-License-Identifier: Apache-2.0
"""The parsed form of a PTX module: what `parser.parse` returns and the engine translates.

Plain data. Names are unique within a function (nested `{ }` blocks are alpha-renamed), so nothing downstream needs scopes.
"""

from dataclasses import dataclass, field

from ..errors import EmulatorError
from .access import registers as _registers
from .instruction_operands import (
    CARRY,
    Addr,
    Imm,
    Label,
    Not,
    PredPair,
    Reg,
    Sink,
    Special,
    Sym,
    TensorAddr,
    Vec,
)

__all__ = [
    "CARRY", "Addr", "Function", "Imm", "Instr", "Label", "Module", "Not", "PredPair", "Prototype", "PtxSyntaxError",
    "Reg", "Relocation", "Sink", "Site", "Special", "Sym", "TensorAddr", "TYPE_BITS", "Variable", "Vec",
]  # fmt: skip

# Bits of every fundamental type (PTX ISA 5.2). Predicates have no size in memory.
TYPE_BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32,
    "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64, "b128": 128,
    "texref": 64, "samplerref": 64, "surfref": 64,
}  # fmt: skip


class PtxSyntaxError(EmulatorError):
    """PTX that cannot be parsed: `line` (1-based, in the PTX text), `offending` text and the reason."""

    def __init__(self, line: int, offending: str, message: str):
        super().__init__(f"PTX line {line}: {message}: {offending!r}")
        self.line = line
        self.offending = offending
        self.message = message


@dataclass(frozen=True, slots=True)
class Site:
    """A position in CUDA source, from `.loc`. `inlined_at` is the call site this code was inlined into, so following
    it leads to the outermost frame, in the kernel itself. `function` is the readable name of the function that
    contains the position, None where the compiler does not say. Columns and lines count from 1; line 0 is unknown."""

    file: str
    line: int
    column: int
    function: str | None = None
    inlined_at: "Site | None" = None

    @property
    def outermost(self) -> "Site":
        """The frame that was not inlined anywhere: the line of the kernel's own source."""
        site = self
        while site.inlined_at is not None:
            site = site.inlined_at
        return site

    @property
    def chain(self) -> tuple["Site", ...]:
        """Frames from the outermost to the innermost (this one)."""
        frames = [self]
        while frames[-1].inlined_at is not None:
            frames.append(frames[-1].inlined_at)
        return tuple(reversed(frames))


@dataclass(slots=True)
class Instr:
    """One instruction. `guard` is (register, negated). `operands` are in written order and must not change after
    `dsts` or `srcs` has been asked. `near`: a site beside it, where it has no line of its own (nearest_lines.py)."""

    op: str
    mods: tuple[str, ...]
    operands: tuple
    guard: tuple[Reg, bool] | None
    site: Site | None
    ptx_line: int
    index: int
    near: Site | None = field(default=None, repr=False, compare=False)
    _access: tuple | None = field(default=None, repr=False, compare=False)

    @property
    def opcode(self) -> str:
        """The whole dotted name, such as 'ld.global.v4.f32'."""
        return ".".join((self.op, *self.mods))

    def dsts(self) -> tuple[Reg, ...]:
        """Registers written, in operand order; the carry flag last."""
        if self._access is None:
            self._access = _registers(self)
        return self._access[0]

    def srcs(self) -> tuple[Reg, ...]:
        """Registers read, in operand order, with the guard and, for a guarded write, what it writes."""
        if self._access is None:
            self._access = _registers(self)
        return self._access[1]


@dataclass(frozen=True, slots=True)
class Relocation:
    """A piece of an initialiser that holds an address: `size` bytes of `symbol` + `addend`, generic when the source
    says `generic(symbol)`. With a `mask` (`0xFF00(symbol)`, PTX ISA 5.4.4) the masked bits, shifted down, are meant."""

    symbol: str
    addend: int = 0
    size: int = 8
    generic: bool = False
    mask: int | None = None


@dataclass(slots=True)
class Variable:
    """A variable or parameter. `count` is the number of array elements (1 for a scalar, None for an unsized extern
    array) and `vector` the lanes of a `.v2`/`.v4` element. `init` is None, the bytes, or a list of bytes and
    Relocation pieces. A `.ptr` parameter has `is_pointer`, with the space and alignment it points to."""

    name: str
    space: str
    type: str
    count: int | None = 1
    align: int = 1
    init: bytes | list | None = None
    is_pointer: bool = False
    pointer_space: str | None = None
    pointer_align: int = 1
    vector: int = 1
    is_array: bool = False
    linkage: str = ""

    @property
    def element_size(self) -> int:
        """Bytes of one element."""
        return TYPE_BITS[self.type] * self.vector // 8

    @property
    def size(self) -> int:
        """Bytes of the whole variable; 0 for an unsized array."""
        return self.element_size * (self.count or 0)


@dataclass(slots=True)
class Prototype:
    """What `.callprototype` declares about the target of an indirect call."""

    name: str
    ret: list[Variable]
    params: list[Variable]


@dataclass(slots=True)
class Function:
    """A kernel (`is_entry`) or device function. `labels` map to an index of `body` (its length for a label at the
    end); only `defined` functions have a body, others are declarations. `directives` hold maxntid, reqntid and
    reqnctapercluster as (x, y, z), minnctapersm, maxnctapersm, maxclusterrank and maxnreg as int, explicitcluster,
    blocksareclusters and noreturn as True. `branch_targets` are the tables of brx.idx."""

    name: str
    is_entry: bool
    params: list[Variable] = field(default_factory=list)
    ret: list[Variable] = field(default_factory=list)
    body: list[Instr] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    directives: dict = field(default_factory=dict)
    pragmas: list[str] = field(default_factory=list)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    linkage: str = ""
    defined: bool = False
    ptx_line: int = 0


@dataclass(slots=True)
class Module:
    """One PTX text. `version` is (major, minor), `target` as written ('sm_90a'), `files` the `.file` table, `compiler` 'triton' where Triton made it."""

    version: tuple[int, int] = (0, 0)
    target: str = ""
    address_size: int = 64
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    compiler: str = ""

    @property
    def kernels(self) -> dict[str, Function]:
        """The entry functions by name."""
        return {name: f for name, f in self.functions.items() if f.is_entry and f.defined}

    @property
    def branch_targets(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Every brx.idx table by (function, table)."""
        return {(f.name, table): labels for f in self.functions.values() for table, labels in f.branch_targets.items()}
