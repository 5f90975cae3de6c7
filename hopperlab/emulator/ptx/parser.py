"""PTX text to `ir.Module`.

One compiled expression recognises a statement at a time; operands go through the caches of `scope.Scope`. Names of
variables and headers are `declarations`' business, source positions `locations`'.
"""

import re

from . import declarations
from .ir import Function, Instr, Module, PtxSyntaxError
from .locations import LineTable
from .operands import Label, Reg, Sym, Vec
from .scope import OperandError, Scope, split_operands
from .selectors import VIDEO, video_operands

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"', re.S)
_STATEMENT = re.compile(
    r"\s*+(?:"
    r"(?P<label>[A-Za-z_$%][\w$]*+)\s*+:(?!:)"
    r"|(?P<instr>(?:@\s*+(!?)\s*+([\w$%]++)\s++)?([a-z][\w.:]*+)([^;]*+);)"
    r"|(?P<loc>\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:[ \t]*,\s*function_name\s+([^,\n]+?)\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?)"
    r"|(?P<open>\{)"
    r"|(?P<close>\})"
    r"|(?P<directive>\.([a-z_]+)\b([^;\"]*+(?:\"[^\"]*\"[^;\"]*+)*);)"
    r"|(?P<empty>;)"
    r")"
)
_TOP_FUNCTION = re.compile(r'\s*(?:\.(?:visible|extern|weak|common)\s+)?\.(?:entry|func)\b(?:[^;{"]++|"[^"]*"\s*;?)*([;{])')
_TOP_SIMPLE = re.compile(
    r"\s*(?:\.version\s+(?P<major>\d+)\.(?P<minor>\d+)|\.target\s+(?P<target>\w+(?:[ \t]*,[ \t]*\w+)*)"
    r"|\.address_size\s+(?P<size>\d+)|\.file\s[^\n]*|\.section\s+[^\s{]+\s*\{[^}]*\}|\.loc\s[^\n]*"
    r'|\.pragma\s+"[^"]*"(?:\s*,\s*"[^"]*")*\s*;'
    r"|\.alias\s+(?P<alias>[\w$]+)\s*,\s*(?P<aliasee>[\w$]+)\s*;|;)"
)
_TOP_VARIABLE = re.compile(r'\s*\.[a-z](?:[^;"]++|"[^"]*")*;')
_NEXT_TEXT = re.compile(r"\s*([^\n;]*)")
_BLANK = re.compile(r"\s*")


def parse(text: str) -> Module:
    """Parse a PTX module. Raises PtxSyntaxError with the line and the offending text."""
    return _Parser(text).module()


def _without_comments(text: str) -> str:
    """Drop comments but keep every line break, so that offsets still give line numbers."""

    def blank(match: re.Match) -> str:
        found = match[0]
        return found if found[0] == '"' else "\n" * found.count("\n") or " "

    return _COMMENT.sub(blank, text)


class _Parser:
    """State of one parse: the text, a position with its line, the module under construction."""

    def __init__(self, text: str):
        self.text = _without_comments(text)
        self.result = Module()
        self.lines = LineTable(self.text)
        self.result.files = self.lines.files
        self.globals = Scope(None, 0)
        self.opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._counted = 0
        self._line = 1

    def line_at(self, position: int) -> int:
        """The 1-based line of an offset; offsets are asked for in rising order."""
        if position < self._counted:
            return self.text.count("\n", 0, position) + 1
        self._line += self.text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def error(self, position: int, message: str) -> PtxSyntaxError:
        """A complaint about the text at `position`."""
        match = _NEXT_TEXT.match(self.text, position)
        start = match.start(1) if match[1] else position
        return PtxSyntaxError(self.line_at(start), match[1].strip()[:80], message)

    def module(self) -> Module:
        """Parse the whole text."""
        at, end = 0, len(self.text.rstrip())
        while at < end:
            at = self._top_level(at)
        if self.result.version == (0, 0):
            raise PtxSyntaxError(1, self.text.strip()[:80], "no PTX: '.version' is missing")
        return self.result

    def _top_level(self, at: int) -> int:
        """Parse one module-level statement; returns where the next begins."""
        if match := _TOP_SIMPLE.match(self.text, at):
            self._simple(match)
            return match.end()
        start = _BLANK.match(self.text, at).end()
        try:
            if match := _TOP_FUNCTION.match(self.text, at):
                function = declarations.header(match[0][:-1])
                function.ptx_line = self.line_at(start)
                self._declare_function(function)
                if match[1] == ";":
                    return match.end()
                return _FunctionParser(self, function).body(match.end())
            if match := _TOP_VARIABLE.match(self.text, at):
                for variable in declarations.variables(match[0][:-1]):
                    if variable.name not in self.result.variables:
                        self.globals.declare(variable.name, Sym(variable.name))
                    self.result.variables[variable.name] = variable
                    self.globals.element_sizes[variable.name] = variable.element_size
                return match.end()
        except OperandError as error:
            raise error.at(self.line_at(start)) from error
        raise self.error(at, "unknown module-level statement")

    def _simple(self, match: re.Match) -> None:
        if match["major"]:
            self.result.version = (int(match["major"]), int(match["minor"]))
        elif match["target"]:
            self.result.target = match["target"].split(",")[0].strip()
        elif match["size"]:
            self.result.address_size = int(match["size"])
        elif match["alias"]:
            aliasee = self.result.functions.get(match["aliasee"])
            if aliasee is None:
                raise self.error(match.start(), "the aliased function is not declared")
            self.result.functions[match["alias"]] = aliasee
            self.globals.names[match["alias"]] = Sym(match["aliasee"])

    def _declare_function(self, function: Function) -> None:
        """Register a declaration or definition; a definition replaces earlier declarations."""
        if function.name not in self.globals.names:
            self.globals.declare(function.name, Sym(function.name))
        known = self.result.functions.get(function.name)
        if known is None or not known.defined:
            self.result.functions[function.name] = function


class _FunctionParser:
    """Parses one function body; `scope` is the innermost open block."""

    def __init__(self, parser: _Parser, function: Function):
        self.parser = parser
        self.function = function
        self.scope = Scope(parser.globals, 0)
        self.blocks = 0
        self.site = None
        self.last_label: str | None = None
        function.defined = True
        for variable in (*function.ret, *function.params):
            self._declare_parameter(variable)
        parser.lines.enter(function.name)

    def _declare_parameter(self, variable) -> None:
        if variable.space == "reg":
            self._declare_register(variable.name, variable.type, 1)
        else:
            self.scope.declare(variable.name, Sym(variable.name))

    def body(self, at: int) -> int:
        """Parse statements up to the function's closing brace; returns the offset after it."""
        text, match_at = self.parser.text, _STATEMENT.match
        start = at
        try:
            while True:
                match = match_at(text, at)
                if match is None:
                    raise self.parser.error(at, "not a PTX statement" if text[at:].strip() else "'}' is missing")
                kind = match.lastgroup
                start = match.start(kind)
                if kind == "instr":
                    self._instruction(match)
                elif kind == "loc":
                    self._loc(match)
                elif kind == "label":
                    self._label(match["label"])
                elif kind == "open":
                    self.blocks += 1
                    self.scope = Scope(self.scope, self.blocks)
                elif kind == "close":
                    if self._close_block():
                        return match.end()
                elif kind == "directive":
                    self._directive(match)
                at = match.end()
        except OperandError as error:
            raise error.at(self.parser.line_at(start)) from error

    def _instruction(self, match: re.Match) -> None:
        _, negated, guard_name, opcode, operand_text = match.group(2, 3, 4, 5, 6)
        parser, scope = self.parser, self.scope
        start = match.start(5)
        line = parser.line_at(start)
        known = parser.opcodes.get(opcode)
        if known is None:
            parts = opcode.split(".")
            known = parser.opcodes[opcode] = (parts[0], tuple(parts[1:]))
            if "" in parts:
                raise OperandError(opcode, "malformed opcode")
        op, mods = known
        guard = (scope.register(guard_name), negated == "!") if guard_name else None
        body = self.function.body
        instr = Instr(op, mods, (), guard, self.site, line, len(body))
        body.append(instr)
        if operand_text and not operand_text.isspace():
            if op in ("bra", "brx", "call"):
                instr.operands = self._branch_operands(instr, operand_text)
                return
            grouped = "{" in operand_text or "(" in operand_text
            pieces = split_operands(operand_text) if grouped else operand_text.split(",")
            if op[0] == "v" and op in VIDEO:
                pieces, instr.mods = video_operands(pieces, mods)
            cached, resolve = scope.cache.get, scope.operand
            instr.operands = tuple([cached(piece) or resolve(piece) for piece in pieces])

    def _branch_operands(self, instr: Instr, text: str) -> tuple:
        """Operands of bra, brx and call; labels are filled in when their block closes."""
        operands: list = []
        plain = 0
        label_from = {"bra": 0, "brx": 1, "call": 1}[instr.op]
        for piece in split_operands(text):
            piece = piece.strip()
            if piece.startswith("("):
                inside = piece[1:-1]
                items = [self.scope.operand(item) for item in inside.split(",")] if inside.strip() else []
                operands.append(Vec(tuple(items)))
                continue
            if plain >= label_from:
                self.scope.pending.append((instr, len(operands), piece))
                operands.append(Label(piece))
            else:
                operands.append(self.scope.operand(piece))
            plain += 1
        return tuple(operands)

    def _loc(self, match: re.Match) -> None:
        file, line, column, label, *at = match.group(8, 9, 10, 11, 12, 13, 14)
        self.site = self.parser.lines.loc(file, line, column, label, tuple(at) if label else None)

    def _label(self, name: str) -> None:
        if name in self.scope.labels:
            raise OperandError(name, "label defined twice in one block")
        unique = self.scope.labels[name] = self.scope.unique(name)
        self.function.labels[unique] = len(self.function.body)
        self.last_label = unique

    def _directive(self, match: re.Match) -> None:
        word, text = match.group(18, 19)
        function = self.function
        if word == "reg":
            for name, type_, lanes in declarations.registers(match["directive"][:-1]):
                self._declare_register(name, type_, lanes)
        elif word == "pragma":
            function.pragmas.append(text.strip().strip('"'))
        elif word in ("branchtargets", "calltargets", "callprototype"):
            self._table(word, text)
        elif declarations.is_declaration(word):
            for variable in declarations.variables(match["directive"][:-1]):
                written, variable.name = variable.name, self.scope.unique(variable.name)
                self.scope.declare(written, Sym(variable.name))
                function.variables.append(variable)
                self.scope.element_sizes[variable.name] = variable.element_size
        else:
            raise OperandError("." + word, "unknown directive in a function")

    def _declare_register(self, name: str, type_: str, lanes: int) -> None:
        scope, registers = self.scope, self.function.registers
        unique = scope.unique(name)
        if lanes == 1:
            registers[unique] = type_
            scope.declare(name, Reg(unique, type_))
            return
        parts = tuple(Reg(f"{unique}.{lane}", type_) for lane in "xyzw"[:lanes])
        scope.declare(name, Vec(parts))
        for lane, part in zip("xyzw", parts, strict=False):
            registers[part.name] = type_
            scope.declare(f"{name}.{lane}", part)

    def _table(self, word: str, text: str) -> None:
        """A `.branchtargets`, `.calltargets` or `.callprototype` belongs to the label just before it."""
        name = self.last_label
        if name is None or self.function.labels.pop(name, None) is None:
            raise OperandError("." + word, "a label must stand before it")
        if word == "callprototype":
            self.function.prototypes[name] = declarations.prototype(name, text)
            return
        entries = tuple(piece.strip() for piece in text.split(","))
        if word == "calltargets":
            self.function.call_targets[name] = entries
        else:
            self.function.branch_targets[name] = entries
            self.scope.pending.append((name, 0, entries))

    def _close_block(self) -> bool:
        """Resolve the labels of the block that ends; True when it was the function itself."""
        scope, outer = self.scope, None if self.scope.number == 0 else self.scope.parent
        for item in scope.pending:
            owner, position, name = item
            names = name if isinstance(name, tuple) else (name,)
            if not all(n in scope.labels for n in names):
                if outer is None:
                    missing = next(n for n in names if n not in scope.labels)
                    line = owner.ptx_line if isinstance(owner, Instr) else self.function.ptx_line
                    raise PtxSyntaxError(line, missing, "label not defined")
                outer.pending.append(item)
                continue
            unique = tuple(scope.labels[n] for n in names)
            if isinstance(owner, Instr):
                operands = list(owner.operands)
                operands[position] = Label(unique[0])
                owner.operands = tuple(operands)
            else:
                self.function.branch_targets[owner] = unique
        self.scope = outer
        if outer is None:
            self._check_branches()
        return outer is None

    def _check_branches(self) -> None:
        """Every branch goes to a label that stands before an instruction, every brx.idx has a table."""
        function = self.function
        for instr in function.body:
            if instr.op == "bra" and (not instr.operands or instr.operands[0].name not in function.labels):
                raise PtxSyntaxError(instr.ptx_line, instr.opcode, "no label to branch to")
            if instr.op == "brx" and (len(instr.operands) < 2 or instr.operands[1].name not in function.branch_targets):
                raise PtxSyntaxError(instr.ptx_line, instr.opcode, "no .branchtargets table to branch through")
