# SPDX-License-Identifier: Apache-2.0
"""Writes the one body of a linked kernel: renamed instructions, calls as branches, saved registers, ways back (see link.py)."""
from __future__ import annotations

from .calling import SP, STACK, Linked, Part, defined, target_of
from ..ptx.ir import Addr, Function, Imm, Instr, Label, Module, Not, PredPair, Reg, Sym, TensorAddr, Vec


class Body:
    """The body under construction. `now`: the instruction being rewritten, whose line new ones get."""

    def __init__(self, out: Linked, parts: dict[str, Part], pointed: list[str], module: Module):
        self.out, self.parts, self.pointed, self.module = out, parts, pointed, module
        self.now: Instr | None = None
        self.unique = 0

    def write(self) -> None:
        """All functions, the kernel first, then the ways back from each."""
        for part in self.parts.values():
            self._write(part)
        self._returns()

    def emit(self, op: str, mods: tuple, operands: tuple, guard: tuple[Reg, bool] | None = None) -> None:
        """Append an instruction at the line of the one being rewritten."""
        now, body = self.now, self.out.body
        body.append(Instr(op, mods, operands, guard, now.site, now.ptx_line, len(body), now.near))

    def label(self, name: str) -> None:
        """A label here."""
        self.out.labels[name] = len(self.out.body)

    def fresh(self, what: str) -> str:
        """A name that nothing else has."""
        self.unique += 1
        return f"%{what}:{self.unique}"

    def register(self, name: str, kind: str) -> Reg:
        """A register of the whole."""
        self.out.registers[name] = kind
        return Reg(name, kind)

    def _write(self, part: Part) -> None:
        function = part.function
        at: dict[int, list[str]] = {}
        for name, index in function.labels.items():
            at.setdefault(index, []).append(part.prefix + name)
        if part.prefix:
            self.register(part.back.name, "u32")
            for name, kind in function.registers.items():
                self.register(part.prefix + name, kind)
            for table, labels in function.branch_targets.items():
                self.out.branch_targets[part.prefix + table] = tuple(part.prefix + n for n in labels)
            self.label(part.prefix)
        elif any(p.framed for p in self.parts.values()):
            self.now = function.body[0]
            self.emit("mov", ("u64",), (SP, Sym(STACK)))
        for instr in function.body:
            for name in at.get(instr.index, ()):
                self.label(name)
            self.now = instr
            self._instruction(part, instr)
        for name in at.get(len(function.body), ()):
            self.label(name)
        self._leave(part, None)

    def _instruction(self, part: Part, instr: Instr) -> None:
        if instr.op == "ret" and part.prefix:
            self._leave(part, instr.guard and (self._reg(part, instr.guard[0]), instr.guard[1]))
            return
        guard = instr.guard and (self._reg(part, instr.guard[0]), instr.guard[1])
        rewrite = {"brx": self._jump, "call": self._call}.get(instr.op)
        if rewrite is not None and (instr.op == "brx" or defined(self.module, target_of(instr)[1])):
            skip = self.fresh("skip")
            if guard:
                self.emit("bra", (), (Label(skip),), (guard[0], not guard[1]))
            rewrite(part, instr)
            if guard:
                self.label(skip)
            return
        source = instr.operands[1] if instr.op == "mov" else None
        base = source.base if type(source) is Addr else source
        if type(base) is Sym and type(place := part.places.get(base.name)) is int:
            offset = place + (source.offset if type(source) is Addr else 0)
            self.emit("add", ("u64",), (self._operand(part, instr.operands[0]), SP, _number(offset)), guard)
            return
        self.emit(instr.op, self._mods(part, instr), tuple(self._operand(part, o) for o in instr.operands), guard)

    def _mods(self, part: Part, instr: Instr) -> tuple:
        """ld.param and st.param of anything but a kernel's own parameters are local accesses."""
        if instr.op in ("ld", "st"):
            address = instr.operands[1 if instr.op == "ld" else 0]
            if type(address) is Addr and type(address.base) is Sym and address.base.name in part.places:
                return tuple("local" if m.startswith("param") else m for m in instr.mods)
        return instr.mods

    def _reg(self, part: Part, reg: Reg) -> Reg:
        return Reg(part.prefix + reg.name, reg.type) if part.prefix and reg.name != "%CF" else reg

    def _operand(self, part: Part, o):
        kind = type(o)
        if kind is Reg:
            return self._reg(part, o)
        if kind is Sym:
            place = part.places.get(o.name, o.name)
            return Addr(SP, place) if type(place) is int else Sym(place)
        if kind is Addr:
            place = part.places.get(o.base.name) if type(o.base) is Sym else None
            return Addr(SP, place + o.offset) if type(place) is int else Addr(self._operand(part, o.base), o.offset)
        if kind is TensorAddr:
            return TensorAddr(self._operand(part, o.map), o.offset, tuple(self._operand(part, c) for c in o.coords))
        if kind is Vec:
            return Vec(tuple(self._operand(part, i) for i in o.items))
        if kind is PredPair:
            return PredPair(self._operand(part, o.first), self._operand(part, o.second))
        if kind is Not:
            return Not(self._reg(part, o.reg))
        if kind is Label:
            return Label(part.prefix + o.name)
        return o

    # --- jump tables
    def _jump(self, part: Part, instr: Instr) -> None:
        """brx.idx: comparisons that halve the table; an index past its end is an error."""
        index, table = instr.operands
        labels = [part.prefix + name for name in part.function.branch_targets[table.name]]
        index, outside = self._reg(part, index), self.register("%outside", "pred")
        self.emit("setp", ("ge", "u32"), (outside, index, _number(len(labels))))
        self.emit("call", ("outside",), (Vec(()), index, _number(len(labels))), (outside, False))
        self._halve(index, labels, 0, len(labels))

    def _halve(self, index: Reg, labels: list[str], low: int, high: int) -> None:
        if len(set(labels[low:high])) == 1:
            self.emit("bra", (), (Label(labels[low]),))
            return
        middle, left, below = (low + high) // 2, self.fresh("left"), self.register("%below", "pred")
        self.emit("setp", ("lt", "u32"), (below, index, _number(middle)))
        self.emit("bra", (), (Label(left),), (below, False))
        self._halve(index, labels, middle, high)
        self.label(left)
        self._halve(index, labels, low, middle)

    # --- calls and returns --------------------------------------------------------------------------------------------
    def _call(self, part: Part, instr: Instr) -> None:
        returned, target, arguments = target_of(instr)
        callees = [self.parts[n] for n in self.pointed] if type(target) is Reg else [self.parts[target.name]]
        saves = [self._reg(part, r) for r in part.saved.get(instr.index, ())] + ([part.back] if part.cyclic else [])
        for k, reg in enumerate(saves):
            self._save(reg, part.save_at + 8 * k)
        self._arguments(part, callees[0].function, arguments)
        if type(target) is Reg:
            self._choose(part, target)
        if part.frame and part.framed:
            self.emit("add", ("u64",), (SP, SP, _number(part.frame)))
        back = self.fresh("back")
        for callee in callees:
            self.emit("mov", ("u32",), (callee.back, _number(len(callee.sites))))
            callee.sites.append(back)
        if type(target) is Reg:
            for callee in callees[1:]:
                self.emit("bra", (), (Label(callee.prefix),), (self._chosen(callee), False))
        self.emit("bra", ("uni",), (Label(callees[0].prefix),))
        self.label(back)
        if part.frame and part.framed:
            self.emit("sub", ("u64",), (SP, SP, _number(part.frame)))
        for k, reg in enumerate(saves):
            self._restore(reg, part.save_at + 8 * k)
        for actual, formal in zip(returned, callees[0].function.ret):
            if type(actual) is Reg:
                source = self._reg(callees[0], Reg(formal.name, formal.type))
                self.emit("mov", (_bits(source.type),), (self._reg(part, actual), source))

    def _choose(self, part: Part, target: Reg) -> None:
        """One predicate a function that the pointer may hold; any other value traps."""
        pointer = self._reg(part, target)
        known = self.register("%callable", "pred")
        self.emit("setp", ("eq", "u64"), (known, pointer, _number(self.out.addresses[self.pointed[0]])))
        for name in self.pointed[1:]:
            chosen = self._chosen(self.parts[name])
            self.emit("setp", ("eq", "u64"), (chosen, pointer, _number(self.out.addresses[name])))
            self.emit("or", ("pred",), (known, known, chosen))
        self.emit("call", ("unknown",), (Vec(()), pointer), (known, True))

    def _chosen(self, callee: Part) -> Reg:
        return self.register(callee.prefix + "%chosen", "pred")

    def _arguments(self, part: Part, function: Function, arguments) -> None:
        """Arguments in registers (`.reg` parameters) go through temporaries: a callee's may be the caller's own."""
        moves = []
        for actual, formal in zip(arguments, function.params):
            if formal.space == "reg":
                kind = _bits(formal.type)
                temporary = self.register(self.fresh("argument"), formal.type)
                self.emit("mov", (kind,), (temporary, self._operand(part, actual)))
                moves.append((kind, Reg(function.name + ":" + formal.name, formal.type), temporary))
        for kind, formal, temporary in moves:
            self.emit("mov", (kind,), (formal, temporary))

    def _save(self, reg: Reg, at: int) -> None:
        if reg.type == "pred":
            word = self.register("%saved", "u32")
            self.emit("selp", ("u32",), (word, _number(1), _number(0), reg))
            reg = word
        self.emit("st", ("local", _bits(reg.type)), (Addr(SP, at), reg))

    def _restore(self, reg: Reg, at: int) -> None:
        word = self.register("%saved", "u32") if reg.type == "pred" else reg
        self.emit("ld", ("local", _bits(word.type)), (word, Addr(SP, at)))
        if reg.type == "pred":
            self.emit("setp", ("ne", "u32"), (reg, word, _number(0)))

    def _leave(self, part: Part, guard) -> None:
        if not part.prefix:
            self.emit("ret", (), (), guard)
            return
        if guard is None:
            self.emit("bra", ("uni",), (Label(part.prefix + "%leave"),))
        else:
            self.emit("bra", (), (Label(part.prefix + "%leave"),), guard)

    def _returns(self) -> None:
        """After all bodies: every function's way back to its calls."""
        for part in self.parts.values():
            if not part.prefix:
                continue
            self.label(part.prefix + "%leave")
            here = self.register("%here", "pred")
            for k, site in enumerate(part.sites[:-1]):
                self.emit("setp", ("eq", "u32"), (here, part.back, _number(k)))
                self.emit("bra", (), (Label(site),), (here, False))
            if part.sites:
                self.emit("bra", ("uni",), (Label(part.sites[-1]),))
            else:
                self.emit("trap", (), ())


def _number(value: int) -> Imm:
    return Imm(value, "int", value)


_SIZE = {"8": "b8", "16": "b16", "32": "b32", "64": "b64"}


def _bits(kind: str) -> str:
    """The untyped PTX type as wide as `kind`."""
    if kind in ("f16x2", "bf16x2", "tf32"):
        return "b32"
    return "pred" if kind == "pred" else _SIZE[kind.lstrip("busf")]
