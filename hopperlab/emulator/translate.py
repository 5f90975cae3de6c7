"""Basic blocks of PTX -> Python functions over NumPy arrays, once a kernel.

A block's function takes (M, C, R): the machine, the cohort and its register list. Arithmetic becomes inline expressions
(isa/), everything that touches memory, other threads or time becomes a call of a handler (ops/). Registers are local
variables inside a block; what lives on is written back to R at its end.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from . import isa, masks, meetings, register_times
from .isa import UnsupportedInstruction
from .ptx import cfg
from .ptx.ir import CARRY, Addr, Function, Imm, Instr, Not, Reg, Sink, Special, Sym

DTYPES = {
    "pred": np.bool_, "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "f16": np.float16,
    "u32": np.uint32, "s32": np.int32, "f32": np.float32, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
    "b128": np.complex128,         # moved, never computed with
}
HOME = {
    "pred": "pred", "b8": "u8", "u8": "u8", "s8": "u8", "b16": "u16", "u16": "u16", "s16": "u16", "f16": "u16", "bf16": "u16",
    "b32": "u32", "u32": "u32", "s32": "u32", "f32": "f32", "f16x2": "u32", "bf16x2": "u32", "tf32": "u32",
    "b64": "u64", "u64": "u64", "s64": "u64", "f64": "f64", "b128": "b128",
}
EXIT = -1


@dataclass(frozen=True)
class MachineOp:
    """How the engine runs an instruction that is not plain arithmetic.

    fn(M, C, info, *sources) returns the values of `dsts` (one value, or a tuple for several, or None for none).
    srcs: (operand, dtype or None for the register's own); dsts: (Reg or Sink, dtype).
    gate: the instruction can block; fn returns (pass_mask, wait) instead, see machine.py.
    collective: needs its warps whole. poll: spinning on it must yield to others.
    masked: a collective with a member mask, which may go on with part of a warp when the rest cannot come.
    raw: registers are handed over as they are, accumulator references included (wgmma).
    meets: a gate that stands before the first of a run of such instructions (meetings.py).
    """

    fn: Callable
    info: object
    srcs: tuple = ()
    dsts: tuple = ()
    gate: bool = False
    collective: bool = False
    poll: bool = False
    raw: bool = False
    masked: bool = False
    meets: MachineOp | None = None


@dataclass
class Block:
    """A translated basic block."""

    id: int
    fn: Callable | None
    uses: tuple[int, ...]
    defs: frozenset[int]
    live_in: tuple[int, ...]
    collective: bool = False
    masked: bool = False
    mask: int | tuple = 0xFFFFFFFF
    releases: bool = False
    gate: MachineOp | None = None
    gate_instr: Instr | None = None
    gate_srcs: tuple = ()
    gate_dsts: tuple = ()
    gate_guard: tuple | None = None
    first: Instr | None = None
    size: int = 0
    text: str = field(default="", repr=False)


class Translation:
    """All blocks of one kernel. `slots` maps register names to places in a frame's list."""

    def __init__(self, function: Function, resolve: Callable[[Instr, Function], MachineOp | None]):
        self.function = function
        self.ops: dict[int, MachineOp] = {}
        for instr in function.body:
            if instr.op in ("bra", "ret", "exit", "brx"):
                continue
            op = resolve(instr, function)
            if op is not None:
                self.ops[instr.index] = op
        gates = {i for i, op in self.ops.items() if op.gate}
        self.masks = masks.of_function(function, self.ops)
        self.meetings = meetings.first_of_runs(function, self.ops)
        heads = gates | masks.splits(self.masks) | self.meetings
        graph = cfg.build(function, split_before=lambda i: i.index in heads, split_after=lambda i: i.index in gates)
        self.times = register_times.plan(function, self.ops)
        self.times.extend_live(graph)
        extra = [name + register_times.TIME for name in sorted(self.times.tracked)]
        self.successors = [b.succs for b in graph.blocks]
        self.spans = [(b.start, b.end) for b in graph.blocks]
        self.classes: list[dict[str, int]] | None = None      # of the spans, see counting.py
        self.slots = {name: k for k, name in enumerate([*function.registers, CARRY.name, *extra])}
        self.tainted = self._tainted()
        emitter = Emitter(self)
        self.blocks = [emitter.block(b, graph) for b in graph.blocks]
        emitter.compile(self.blocks)

    def _tainted(self) -> set[str]:
        """Registers that can hold an accumulator in flight: wgmma results and whatever `mov` copies from them."""
        held = {r.name for i, op in self.ops.items() if op.raw for r in self.function.body[i].dsts()}
        if not held:
            return held
        moves = [(i.dsts()[0].name, i.operands[1].name) for i in self.function.body
                 if i.op == "mov" and type(i.operands[1]) is Reg and i.dsts()]
        grown = True
        while grown:
            before = len(held)
            held.update(d for d, s in moves if s in held)
            grown = len(held) > before
        return held


class Emitter:
    """Writes the Python source of blocks. One instance a kernel."""

    def __init__(self, translation: Translation):
        self.t = translation
        self.function = translation.function
        self.names: dict[str, object] = {"np": np, **{f"t_{k}": v for k, v in DTYPES.items()}}
        self.constants: dict[tuple, str] = {}
        self.source: list[str] = []

    # --- one block --------------------------------------------------------------------------------------------------
    def block(self, b, graph) -> Block:
        """The Block record of a cfg block; its function is compiled later, all at once."""
        body = self.function.body[b.start:b.end]
        slots = self.t.slots
        block = Block(b.id, None, (), frozenset(), tuple(sorted(slots[n] for n in b.live_in)), size=len(body),
                      first=body[0] if body else None)
        if body and (op := self.t.ops.get(body[0].index)) is not None and op.gate:
            self._gate(block, body[0], op)
            block.live_in = tuple(sorted(slots[n] for n in b.live_in))
            body = body[1:]
        elif body and body[0].index in self.t.meetings:
            self._gate(block, body[0], op.meets)
        block.collective = any((op := self.t.ops.get(i.index)) is not None and op.collective for i in body)
        if block.gate is not None and block.gate.collective:
            block.collective = True
        block.releases = any(i.op == "mbarrier" and i.mods[0] == "arrive" for i in body)
        gathers = [op.masked for i in body if (op := self.t.ops.get(i.index)) is not None and op.collective]
        block.masked = bool(gathers) and all(gathers) and not (block.gate is not None and block.gate.collective)
        if block.masked:
            block.mask = self._mask(body, block, b)
        self.lines, self.local, self.views, self.loaded = [], set(), {}, []
        self.body_defs: set[str] = set()
        ended = False
        for instr in body:
            if instr.op in ("bra", "ret", "exit", "brx"):
                self._leave(b)
                self._terminator(instr, b, graph)
                ended = True
                break
            self.instruction(instr)
        if not ended:
            self._leave(b)
            self.lines.append(f"return {b.succs[0] if b.succs else EXIT}")
        block.uses = tuple(slots[n] for n in self.loaded)
        block.defs = frozenset(slots[n] for n in self.body_defs)
        head = [f"r{slots[n]} = R[{slots[n]}]" for n in self.loaded]
        block.text = f"def b{b.id}(M, C, R):\n" + "".join(f"    {line}\n" for line in head + self.lines)
        return block

    def _gate(self, block: Block, instr: Instr, op: MachineOp) -> None:
        block.gate, block.gate_instr = op, instr
        block.gate_srcs = tuple(self._gate_source(s) for s in op.srcs)
        slots = self.t.slots
        block.gate_dsts = tuple((slots[d.name], DTYPES[HOME[d.type]]) if type(d) is Reg else None for d, _ in op.dsts)
        if instr.guard is not None:
            block.gate_guard = (slots[instr.guard[0].name], instr.guard[1])

    def _gate_source(self, source):
        """('reg', slot, offset) or ('const', value) or ('sym', name, offset)."""
        operand, dtype = source
        if type(operand) is Addr:
            base = operand.base
            if type(base) is Reg:
                return ("reg", self.t.slots[base.name], operand.offset)
            if type(base) is Sym:
                return ("sym", base.name, operand.offset)
            return ("const", np.uint64(base.bits + operand.offset), 0)
        if type(operand) is Reg:
            return ("reg", self.t.slots[operand.name], 0)
        if type(operand) is Not:
            return ("not", self.t.slots[operand.reg.name], 0)
        if type(operand) is Imm:
            return ("const", DTYPES[dtype or "u32"](operand.value & 0xFFFFFFFF), 0)
        if type(operand) is Sym:
            return ("sym", operand.name, 0)
        raise UnsupportedInstruction("gate operand", 0, f"operand {operand!r}")

    def _mask(self, body, block: Block, b) -> int | tuple:
        """The member mask of a block's first collective: a constant, or (slot,) of a register that is live at its head."""
        mask = self.t.masks[next(i.index for i in body if i.index in self.t.masks)]
        if type(mask) is int:
            return mask
        return (self.t.slots[mask],) if mask in b.live_in else masks.FULL

    def _leave(self, b) -> None:
        """Write live results back to R and drop what died here."""
        slots, live = self.t.slots, b.live_out
        for name in sorted(self.body_defs, key=slots.get):
            if name in live:
                self.lines.append(f"R[{slots[name]}] = r{slots[name]}")
        dead = [slots[n] for n in b.live_in if n not in live]
        if len(dead) == 1:
            self.lines.append(f"R[{dead[0]}] = None")
        elif dead:
            self.lines.append(" = ".join(f"R[{k}]" for k in sorted(dead)) + " = None")

    def _terminator(self, instr: Instr, b, graph) -> None:
        if instr.op in ("ret", "exit"):
            if instr.guard is None:
                self.lines.append(f"return {EXIT}")
                return
            fall = b.succs[-1]
            self.lines.append(f"return ({self._guard(instr)}, {EXIT}, {fall})")
            return
        if instr.op == "brx":
            raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "indirect branches are not implemented")
        target = graph.block_of_label[instr.operands[0].name]
        if instr.guard is None:
            self.lines.append(f"return {target}")
            return
        fall = next((s for s in b.succs if s != target), target)
        self.lines.append(f"return ({self._guard(instr)}, {target}, {fall})")

    def _guard(self, instr: Instr) -> str:
        reg, negated = instr.guard
        name = self.read(reg, "pred")
        return f"~{name}" if negated else name

    # --- operands ---------------------------------------------------------------------------------------------------
    def read(self, operand, dtype: str | None) -> str:
        """Expression of a source operand in `dtype` (None: the register's own)."""
        kind = type(operand)
        if kind is Reg:
            return self._register(operand, dtype)
        if kind is Imm:
            return self._constant(operand, dtype or "u32")
        if kind is Not:
            return f"~{self._register(operand.reg, 'pred')}"
        if kind is Special:
            value = f"M.special(C, {operand.name!r})"
            return value if dtype in (None, "u32", "u64") else f"{value}.view(t_{dtype})"
        if kind is Sym:
            return f"M.symbols[{operand.name!r}]"
        if kind is Addr:
            base = self.read(operand.base, "u64" if type(operand.base) is Imm else None)
            if not operand.offset:
                return base
            width = HOME[operand.base.type] if type(operand.base) is Reg else "u64"
            return f"({base} + {self._number(operand.offset, width)})"
        raise UnsupportedInstruction(kind.__name__, 0, f"operand {operand!r} cannot be read as a value")

    def _register(self, reg: Reg, dtype: str | None, use: bool = True) -> str:
        slot, home = self.t.slots[reg.name], HOME[reg.type]
        name = f"r{slot}"
        if reg.name not in self.local:
            self.local.add(reg.name)
            self.loaded.append(reg.name)
        if use and reg.name in self.t.tainted:
            self.lines.append(f"{name} = M.settled(C, {name}, {self.instr.index})")
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

    def write(self, reg, expression: str, dtype: str) -> None:
        """Assign a result (in `dtype`) to a register, in its home dtype; a guarded write keeps the old lanes."""
        if type(reg) is Sink:
            self.lines.append(expression)
            return
        name, home = f"r{self.t.slots[reg.name]}", HOME[reg.type]
        if dtype != home:
            expression = self._widen(expression, dtype, home)
        if self.guard is not None:
            expression = f"np.where({self.guard}, {expression}, {self._register(reg, None)})"
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

    # --- instructions -----------------------------------------------------------------------------------------------
    def instruction(self, instr: Instr) -> None:
        """Emit one instruction that is not a branch."""
        self.instr, self.guard = instr, None
        op = self.t.ops.get(instr.index)
        if op is None:
            self._alu(instr)
        elif instr.guard is None:
            self._machine(instr, op)
        else:
            self._guarded_machine(instr, op)

    def _alu(self, instr: Instr) -> None:
        if instr.op == "mov" and type(instr.operands[1]) is Reg and type(instr.operands[0]) is Reg and instr.guard is None:
            source, target = instr.operands[1], instr.operands[0]
            if HOME[source.type] == HOME[target.type]:
                self.write(target, self._register(source, None, use=False), HOME[source.type])
                return
        alu = isa.resolve(instr)
        if alu is None:
            raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "this instruction is not implemented")
        if instr.guard is not None:
            self.guard = self._guard(instr)
            self.lines.append(f"g{instr.index} = {self.guard}")
            self.guard = f"g{instr.index}"
        dsts, sources = _flat_dsts(instr), _flat_sources(instr)
        args = [self.read(s, d) for s, d in zip(sources, alu.ins, strict=True)]
        outs = alu.outs
        if alu.reads_cc:
            args.append(self._register(CARRY, None))
        if alu.writes_cc:
            dsts, outs = [*dsts, CARRY], (*outs, "pred")
        if alu.inline is not None:
            expression = "(" + alu.inline.format(*args) + ")"
        else:
            expression = f"{self._function(alu.fn)}({', '.join(args)})"
        if len(outs) == 1:
            self.write(dsts[0], expression, outs[0])
            return
        parts = [f"o{instr.index}_{k}" for k in range(len(outs))]
        self.lines.append(f"{', '.join(parts)} = {expression}")
        for dst, part, dtype in zip(dsts, parts, outs, strict=True):
            self.write(dst, part, dtype)

    def _function(self, fn) -> str:
        name = f"f{id(fn)}"
        self.names[name] = fn
        return name

    def _info(self, instr: Instr, op: MachineOp) -> str:
        self.names[f"I{instr.index}"] = op.info
        return f"I{instr.index}"

    def _machine(self, instr: Instr, op: MachineOp) -> None:
        if op.raw:
            args = [self._register(s, None, use=False) if type(s) is Reg and s.name in self.t.tainted else self.read(s, d)
                    for s, d in op.srcs]
        else:
            args = [self.read(s, d) for s, d in op.srcs]
        if op.raw:
            register_times.used(self, instr, args[-1])
        call = f"{self._function(op.fn)}({', '.join(['M', 'C', self._info(instr, op), *args])})"
        self._results(instr, op, call)

    def _results(self, instr: Instr, op: MachineOp, call: str) -> None:
        if not op.dsts:
            self.lines.append(call)
        elif len(op.dsts) == 1:
            self.write(op.dsts[0][0], call, op.dsts[0][1])
        else:
            parts = [f"o{instr.index}_{k}" for k in range(len(op.dsts))]
            self.lines.append(f"{', '.join(parts)} = {call}")
            for (dst, dtype), part in zip(op.dsts, parts):
                if type(dst) is not Sink:
                    self.write(dst, part, dtype)

    def _guarded_machine(self, instr: Instr, op: MachineOp) -> None:
        guard = self._guard(instr)
        args = [self.read(s, d) for s, d in op.srcs]
        olds = [self.read(d, dt) if type(d) is Reg else "None" for d, dt in op.dsts]
        listed = f"({', '.join(args)}{',' if args else ''})"
        old = f"({', '.join(olds)}{',' if olds else ''})"
        call = f"M.guarded(C, {self._function(op.fn)}, {self._info(instr, op)}, {guard}, {old}, {listed})"
        self._results(instr, op, call)

    # --- compile ----------------------------------------------------------------------------------------------------
    def compile(self, blocks: list[Block]) -> None:
        """Turn the collected source into functions."""
        text = "\n".join(b.text for b in blocks)
        exec(compile(text, f"<emulator {self.function.name}>", "exec"), self.names)
        for b in blocks:
            b.fn = self.names[f"b{b.id}"]


def _flat_dsts(instr: Instr) -> list:
    first = instr.operands[0]
    kind = type(first).__name__
    if kind == "Vec":
        return list(first.items)
    if kind == "PredPair":
        return [first.first, first.second]
    return [first]


def _flat_sources(instr: Instr) -> list:
    flat: list = []
    for operand in instr.operands[1:]:
        flat.extend(operand.items if type(operand).__name__ == "Vec" else (operand,))
    return flat
