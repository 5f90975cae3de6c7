"""Device functions that were not inlined: a kernel and everything it calls become one function without calls.

Arguments travel in local memory, a call is a branch, `ret` a branch back through a register that holds the call's number.
Functions that can meet themselves again, or are called through a pointer, keep their variables in stack frames.
What is not defined in the module (vprintf, __assertfail, malloc) stays a call, see ops/calls.py. PTX ISA 7.1, 9.7.12.5.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from .isa import UnsupportedInstruction
from .ptx import cfg
from .ptx.ir import Addr, Function, Imm, Instr, Label, Module, Not, PredPair, Reg, Relocation, Sym, TensorAddr, Variable, Vec

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


def target_of(instr: Instr):
    """(returned operands, target operand, argument operands) of a call."""
    operands = list(instr.operands)
    returned = operands.pop(0).items if type(operands[0]) is Vec else ()
    return returned, operands[0], operands[1].items if len(operands) > 1 and type(operands[1]) is Vec else ()


def link(module: Module, kernel: Function) -> Function:
    """The kernel itself when it calls nothing, else a Linked function. Raises UnsupportedInstruction for a call it cannot make."""
    if not any(i.op == "call" for i in kernel.body):
        return kernel if not _mentions(kernel, module) else _Linker(module, kernel).run()
    return _Linker(module, kernel).run()


def _mentions(function: Function, module: Module) -> list[str]:
    """Functions whose address `function` takes."""
    names = {o.name for i in function.body if i.op != "call" for o in i.operands if type(o) is Sym}
    return [n for n in module.functions if n in names]


class _Linker:
    """One link: parts in the order they are reached, then one body."""

    def __init__(self, module: Module, kernel: Function):
        self.module = module
        self.out = Linked(kernel.name, True, kernel.params, kernel.ret, [], {}, dict(kernel.registers), [], kernel.directives,
                          kernel.pragmas, dict(kernel.branch_targets), linkage=kernel.linkage, defined=True, ptx_line=kernel.ptx_line)
        self.parts = {kernel.name: Part(kernel, "")}
        self.pointed: list[str] = []
        self.now: Instr | None = None
        self.unique = 0

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
        for part in self.parts.values():
            self._write(part)
        self._returns()
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
            if v.name in part.places or v.space == "param" and v.name in actuals and self._defined(actuals[v.name]):
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

    def _defined(self, target) -> bool:
        return type(target) is Reg or self.module.functions[target.name].defined

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
            if not self._defined(target):
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

    # --- the body -----------------------------------------------------------------------------------------------------
    def emit(self, op: str, mods: tuple, operands: tuple, guard=None) -> None:
        """Append an instruction at the line of the one being rewritten."""
        now, body = self.now, self.out.body
        body.append(Instr(op, mods, operands, guard, now.site, now.ptx_line, len(body)))

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
        if instr.op == "call" and self._defined(target_of(instr)[1]):
            skip = self.fresh("skip")
            if guard:
                self.emit("bra", (), (Label(skip),), (guard[0], not guard[1]))
            self._call(part, instr)
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


def _closure(edges: dict[str, set[str]], start: set[str]) -> set[str]:
    found, work = set(start), list(start)
    while work:
        for name in edges[work.pop()] - found:
            found.add(name)
            work.append(name)
    return found


def _number(value: int) -> Imm:
    return Imm(value, "int", value)


_SIZE = {"8": "b8", "16": "b16", "32": "b32", "64": "b64"}


def _bits(kind: str) -> str:
    """The untyped PTX type as wide as `kind`."""
    if kind in ("f16x2", "bf16x2", "tf32"):
        return "b32"
    return "pred" if kind == "pred" else _SIZE[kind.lstrip("busf")]
