# SPDX-License-Identifier: Apache-2.0
"""Device functions that were not inlined: a kernel and everything it calls become one function without calls.

Arguments travel in local memory, a call is a branch, `ret` a branch back through a register that holds the call's number.
Functions that can meet themselves again, or are called through a pointer, keep their variables in stack frames.
What is not defined in the module (vprintf, __assertfail, malloc) stays a call, see ops/calls.py. PTX ISA 7.1, 9.7.12.5.
Here is who calls whom and where variables lie; calls_as_branches.py writes the instructions.
"""
from __future__ import annotations

from dataclasses import replace

from ..isa import UnsupportedInstruction
from .calls_as_branches import Body
from .calling import SP, STACK, STACK_BYTES, Linked, Part, abi_offsets, abi_size, defined, function_addresses, target_of
from ..ptx import cfg, signatures
from ..ptx.ir import Function, Instr, Label, Module, Reg, Relocation, Sym, Variable


def link(module: Module, kernel: Function) -> Function:
    """The kernel itself when it calls nothing and has no jump table, else a Linked function. Raises UnsupportedInstruction for a
    call it cannot make."""
    signatures.check(kernel)
    if not any(i.op in ("call", "brx") for i in kernel.body):
        return kernel if not _mentions(kernel, module) else _Linker(module, kernel).run()
    return _Linker(module, kernel).run()


def _mentions(function: Function, module: Module) -> list[str]:
    """Functions whose address `function` takes."""
    names = {o.name for i in function.body if i.op != "call" for o in i.operands if type(o) is Sym}
    return [n for n in module.functions if n in names]


class _Linker:
    """One link: the parts in the order they are reached."""

    def __init__(self, module: Module, kernel: Function):
        self.module = module
        self.out = Linked(kernel.name, True, kernel.params, kernel.ret, [], {}, dict(kernel.registers), [], kernel.directives,
                          kernel.pragmas, dict(kernel.branch_targets), linkage=kernel.linkage, defined=True, ptx_line=kernel.ptx_line)
        self.parts = {kernel.name: Part(kernel, "")}
        self.pointed: list[str] = []

    def run(self) -> Linked:
        """Find the parts, lay out what they keep, write the body."""
        edges = self._reach()
        for name, part in self.parts.items():
            reached = _closure(edges, edges[name])
            part.cyclic = name in reached
            part.framed = part.cyclic or name in self.pointed
        known = function_addresses(self.module)
        self.out.addresses = {name: known[name] for name in self.pointed}
        for part in self.parts.values():
            self._lay_out(part)
        for part in self.parts.values():
            self._alias(part)
        Body(self.out, self.parts, self.pointed, self.module).write()
        if any(p.framed for p in self.parts.values()):
            self.out.variables.append(Variable(STACK, "local", "b8", STACK_BYTES, 16))
            self.out.registers[SP.name] = SP.type
        return self.out

    # --- which functions ----------------------------------------------------------------------------------------------
    def _reach(self) -> dict[str, set[str]]:
        """Parts reachable from the kernel, and who calls whom."""
        functions, edges, indirect = self.module.functions, {}, set()
        work = list(self.parts)
        in_data = {p.symbol for v in self.module.variables.values() if isinstance(v.init, list) for p in v.init if isinstance(p, Relocation)}
        while work:
            name = work.pop()
            function = self.parts[name].function
            calls = [target_of(i)[1] for i in function.body if i.op == "call"]
            edges[name] = {t.name for t in calls if type(t) is Sym and functions[t.name].defined}
            if any(type(t) is Reg for t in calls):
                indirect.add(name)
            taken = _mentions(function, self.module) + ([n for n in functions if n in in_data] if indirect else [])
            for callee in taken:
                if callee not in self.pointed and functions[callee].defined and not functions[callee].is_entry:
                    self.pointed.append(callee)
            for callee in (*sorted(edges[name]), *self.pointed):
                if callee not in self.parts:
                    signatures.check(functions[callee])
                    self.parts[callee] = Part(functions[callee], callee + ":")
                    work.append(callee)
        for name in indirect:
            edges[name] |= set(self.pointed)
        return edges

    # --- where variables lie ------------------------------------------------------------------------------------------
    def _lay_out(self, part: Part) -> None:
        function, out = part.function, self.out
        formals = [] if function.is_entry else [v for v in (*function.params, *function.ret) if v.space == "param"]
        actuals = {o.name: t for i in function.body if i.op == "call" for r, t, a in [target_of(i)] for o in (*r, *a) if type(o) is Sym}
        if part.framed:
            part.places.update(abi_offsets(function.params, function.ret))
            part.frame = abi_size(function.params, function.ret)
        for v in (*formals, *function.variables):
            if v.name in part.places or v.space == "param" and v.name in actuals and defined(self.module, actuals[v.name]):
                continue
            if v.space not in ("param", "local"):
                out.variables.append(replace(v, name=part.prefix + v.name))
                part.places[v.name] = part.prefix + v.name
            elif part.framed:
                part.frame = -(-part.frame // v.align) * v.align
                part.places[v.name] = part.frame
                part.frame += v.size
            else:
                part.places[v.name] = part.prefix + v.name
                out.variables.append(replace(v, name=part.prefix + v.name, space="local"))
        if part.cyclic:
            self._find_saved(part)
        part.frame = -(-part.frame // 16) * 16

    def _find_saved(self, part: Part) -> None:
        """Registers that live across each call of a function that may come back to itself, and room for them."""
        function = part.function
        graph = cfg.build(function, split_after=lambda i: i.op == "call")
        part.save_at = -(-part.frame // 8) * 8
        most = 0
        for block in graph.blocks:
            last = function.body[block.end - 1] if block.end > block.start else None
            if last is not None and last.op == "call":
                names = sorted(block.live_out - {r.name for r in last.dsts()})
                part.saved[last.index] = [Reg(n, function.registers[n]) for n in names]
                most = max(most, len(names) + 1)
        part.frame = part.save_at + 8 * most

    def _alias(self, part: Part) -> None:
        """Arguments of a call are written where the callee's parameters lie."""
        for instr in part.function.body:
            if instr.op != "call":
                continue
            returned, target, arguments = target_of(instr)
            if not defined(self.module, target):
                continue
            callee = self._signature(part, instr, target)
            formals = (*callee.params, *callee.ret)
            if len(arguments) + len(returned) != len(formals):
                raise UnsupportedInstruction(instr.opcode, instr.ptx_line, f"{len(arguments)} arguments for a function of {len(callee.params)}")
            place = self._formal_places(part, callee, type(target) is Reg)
            for actual, formal in zip((*arguments, *returned), formals):
                if type(actual) is Sym:
                    known = part.places.setdefault(actual.name, place[formal.name])
                    if known != place[formal.name]:
                        raise UnsupportedInstruction(instr.opcode, instr.ptx_line, f"parameter {actual.name} serves calls of different functions")

    def _signature(self, part: Part, instr: Instr, target):
        if type(target) is Sym:
            return self.module.functions[target.name]
        label = instr.operands[-1]
        prototypes = part.function.prototypes
        if type(label) is Label and label.name in prototypes:
            found = prototypes[label.name]
            named = [replace(v, name=f"{v.name}{k}") for k, v in enumerate((*found.params, *found.ret))]
            return replace(found, params=named[:len(found.params)], ret=named[len(found.params):])
        if not self.pointed:
            raise UnsupportedInstruction(instr.opcode, instr.ptx_line, "a call through a pointer, but no function's address is taken")
        return self.module.functions[self.pointed[0]]

    def _formal_places(self, caller: Part, callee, indirect: bool) -> dict:
        if indirect or self.parts[callee.name].framed:
            return {n: caller.frame + at for n, at in abi_offsets(callee.params, callee.ret).items()} | {
                v.name: None for v in (*callee.params, *callee.ret) if v.space == "reg"}
        return {v.name: callee.name + ":" + v.name for v in (*callee.params, *callee.ret)}


def _closure(edges: dict[str, set[str]], start: set[str]) -> set[str]:
    found, work = set(start), list(start)
    while work:
        for name in edges[work.pop()] - found:
            found.add(name)
            work.append(name)
    return found
