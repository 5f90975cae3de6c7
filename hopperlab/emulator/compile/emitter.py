# SPDX-License-Identifier: Apache-2.0
"""Writes the Python source of a kernel's basic blocks and compiles it (see translate.py).

Registers are local variables inside a block; what lives on is written back to R at its end.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import isa
from ..isa import UnsupportedInstruction
from ..ptx.ir import CARRY, Addr, Imm, Instr, Not, Reg, Sink, Sym
from . import masks, register_times
from .emitter_operands import Operands
from .translated import DTYPES, EXIT, HOME, Block, MachineOp

if TYPE_CHECKING:
    from ..ptx import cfg


class Emitter(Operands):
    """Writes the Python source of blocks. One instance a kernel."""

    # --- one block --------------------------------------------------------------------------------------------------
    def block(self, b: cfg.Block, graph: cfg.Cfg) -> Block:
        """The Block record of a cfg block; its function is compiled later, all at once."""
        body = self.function.body[b.start:b.end]
        slots = self.t.slots
        block = Block(b.id, None, (), frozenset(), tuple(sorted(slots[n] for n in b.live_in)), size=len(body),
                      first=body[0] if body else None)
        if body and (op := self.t.ops.get(body[0].index)) is not None and (op.gate or op.masked and body[0].index in self.t.apart):
            self._gate(block, body[0], op)
            block.live_in = tuple(sorted(slots[n] for n in b.live_in))
            body = body[1:]
        elif body and body[0].index in self.t.meetings:
            self._gate(block, body[0], op.meets)
        block.collective = any((op := self.t.ops.get(i.index)) is not None and op.collective for i in body)
        if block.gate is not None and block.gate.collective:
            block.collective, block.apart = True, self.t.apart.get(block.gate_instr.index, "")
        block.releases = any(i.op == "mbarrier" and i.mods[0] == "arrive" for i in body)
        block.publishes = any(i.index in self.t.flags for i in body)
        gathers = [op.masked for i in body if (op := self.t.ops.get(i.index)) is not None and op.collective]
        block.masked = bool(block.apart) or bool(gathers) and all(gathers) and not (block.gate is not None and block.gate.collective)
        if block.masked:
            block.mask = self._mask(self.function.body[b.start:b.end], block, b)
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
        block.gate, block.gate_instr, self.instr = op, instr, instr
        for operand, dtype in (*op.srcs, *op.dsts):
            if type(operand) is Reg:
                self._fits(operand, dtype)
            elif type(operand) is Addr and type(operand.base) is Reg:
                self._addresses(operand.base)
        if instr.guard is not None:
            self._fits(instr.guard[0], "pred")
        block.gate_srcs = tuple(self._gate_source(s) for s in op.srcs)
        block.gate_types = tuple(DTYPES[dtype or "u32"] for _, dtype in op.srcs)
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
            return ("const", np.uint64(operand.value & 0xFFFFFFFFFFFFFFFF).astype(DTYPES[dtype or "u32"]), 0)
        if type(operand) is Sym:
            return ("sym", operand.name, 0)
        raise UnsupportedInstruction(self.instr.opcode, self.instr.ptx_line, f"operand {operand!r} cannot be read as a value")

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
        self.instr = instr
        name = self.read(reg, "pred")
        return f"~{name}" if negated else name

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
        if instr.index in self.t.watched and not op.raw:
            self.lines.extend(f"M.watch(r{self.t.slots[d.name]})" for d, _ in op.dsts if type(d) is Reg)

    def _alu(self, instr: Instr) -> None:
        between_registers = instr.op == "mov" and type(instr.operands[1]) is Reg and type(instr.operands[0]) is Reg
        if between_registers and instr.guard is None and instr.mods[1:] == () and instr.mods[0] in HOME:
            source, target = instr.operands[1], instr.operands[0]
            if HOME[source.type] == HOME[target.type] or source.name in self.t.tainted and HOME[target.type] in ("u32", "f32"):
                self.write(target, self._register(source, None, use=False), HOME[target.type])
                return
        alu = isa.resolve(instr)
        if alu is None:
            raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "this instruction is not implemented")
        if instr.guard is not None:
            self.guard = self._guard(instr)
            self.lines.append(f"g{instr.index} = {self.guard}")
            self.guard = f"g{instr.index}"
        dsts, sources = _flat_dsts(instr), _flat_sources(instr)
        if len(sources) != len(alu.ins) or len(dsts) != len(alu.outs):
            raise UnsupportedInstruction(instr.opcode, instr.ptx_line, f"{len(dsts)} results and {len(sources)} sources; it has {len(alu.outs)} and {len(alu.ins)}")
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
                    self.write(dst, part, HOME[dst.type] if op.raw else dtype)

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
