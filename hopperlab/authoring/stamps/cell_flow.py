# SPDX-License-Identifier: Apache-2.0
"""Where the names of a notebook's cells come from, read from their sources; nothing is run.

`needed` says which cells must run for another one (mutations.py); `behind` says which statements an output rests on (made_of.py).
"""

from __future__ import annotations

import ast
import copy
import shlex
import symtable
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CUDA = "%%cuda"


@dataclass(eq=False)
class Statement:
    """One statement at the top level of a cell. The names it binds by import, by `def` or `class`, or to data; those it uses without binding them
    itself; those of which it assigns items or attributes; those it gives to a call. shows: it binds nothing, as print(…) does."""

    cell: str
    tree: ast.AST
    imported: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)

    @property
    def bound(self) -> set[str]:
        """Every name that it binds."""
        return self.imported | self.defined | self.data


def statements(cell: str, source: str) -> list[Statement]:
    """The statements of a cell; a `%%cuda NAME` cell is one that binds NAME."""
    if source.startswith(CUDA):
        name = (shlex.split(source.split("\n", 1)[0])[1:] or [""])[0]
        return [Statement(cell, ast.Pass(), data={name})]
    return [_statement(cell, node) for node in tree_of(source).body]


def tree_of(source: str) -> ast.Module:
    """The cell as Python, without its magics and shell lines (`%…`, `!…`); empty for a `%%` cell."""
    if source.startswith("%%"):
        return ast.Module([], [])
    return ast.parse("\n".join("" if line.startswith(("%", "!")) else line for line in source.split("\n")))


def _statement(cell: str, node: ast.stmt) -> Statement:
    found = Statement(cell, node)
    scope = symtable.symtable(ast.unparse(_Generators().visit(copy.deepcopy(node))), "cell", "exec")
    stored = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        found.imported = stored
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        found.defined = stored
    else:
        found.data = stored
    found.used = set(_free(scope))
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):      # a value is computed before its name is bound
        found.used -= stored
    for part in ast.walk(node):
        if isinstance(part, (ast.Subscript, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            found.changed |= {_base(part)} - found.data
        elif isinstance(part, ast.Call):
            found.given |= {name for argument in (*part.args, *(k.value for k in part.keywords)) for name in _handed(argument)} & found.used
    return found


class _Generators(ast.NodeTransformer):
    """Makes generator expressions of comprehensions: since Python 3.12 the symbol table counts a comprehension's own names among those around it."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        return self.generic_visit(ast.copy_location(ast.GeneratorExp(node.elt, node.generators), node))

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self.generic_visit(ast.copy_location(ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators), node))


def _free(scope: symtable.SymbolTable) -> Iterator[str]:
    """The names that a piece of code takes from outside of its functions."""
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (scope.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _free(inner)


def _handed(argument: ast.AST) -> Iterator[str]:
    """The names that an argument hands over as they are, also inside tuples and lists: not those of which it only reads an attribute."""
    if isinstance(argument, ast.Name):
        yield argument.id
    for part in (*getattr(argument, "elts", ()), *([argument.value] if isinstance(argument, (ast.Starred, ast.Subscript)) else ())):
        yield from _handed(part)


def _base(node: ast.AST) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _binder(name: str, at: int, before: int, listed: Sequence[Statement]) -> list[Statement]:
    """The statement that gives a name to statement number `at`: the nearest above, else (for a function's body) the last of the first `before`."""
    above = [s for s in reversed(listed[:at]) if name in s.bound]
    return (above or [s for s in reversed(listed[:before]) if name in s.bound])[:1]


def needed(sources: Mapping[str, str], cell: str, more: Sequence[str] = ()) -> list[str]:
    """The cells that must run for `cell`, itself included, in the notebook's order: those that define or change a name it uses, transitively.

    A name comes from the nearest statement above that binds it (or, for a function's body, from one further down); changes of its items count
    wherever they stand before `cell`.
    """
    listed = [s for name, text in sources.items() for s in statements(name, text)]
    chosen, todo = set(), [cell, *more]
    before = min((at for at, s in enumerate(listed) if s.cell == cell), default=len(listed))
    while todo:
        name = todo.pop()
        if name in chosen:
            continue
        chosen.add(name)
        for at, statement in enumerate(listed):
            if statement.cell == name:
                for used in statement.used:
                    sources_of = [s for s in listed[:before] if used in s.changed] + _binder(used, at, before, listed)
                    todo += [s.cell for s in sources_of]
    return [name for name in sources if name in chosen]


@dataclass
class Behind:
    """What stands behind a cell's output. own: its statements; code: all statements whose functions or data it uses; data: those of them whose data
    it uses; written: cells that may have written into that data, because they give it to a call (a launch writes into its arrays)."""

    own: list[Statement]
    code: set[Statement]
    data: set[Statement]
    written: set[str]


def behind(cell: str, listed: Sequence[Statement]) -> Behind:
    """What stands behind `cell`, transitively, in a notebook of these statements. Names that are only imported lead nowhere."""
    own = [s for s in listed if s.cell == cell]
    before = listed.index(own[-1]) + 1 if own else 0
    found, todo = Behind(own, set(own), set(), set()), [(s, False) for s in own]
    seen = set()
    while todo:
        statement, _ = step = todo.pop()
        if step in seen:
            continue
        seen.add(step)
        for used in statement.used:
            changers = [s for s in listed[:before] if used in s.changed]
            for other in changers + _binder(used, listed.index(statement), before, listed):
                data = used in other.data or other in changers
                if other is not statement and (data or used in other.defined):
                    found.code.add(other)
                    found.data |= {other} if data else set()
                    todo.append((other, data))
    names = set().union(*(s.used for s in found.code)) & set().union(*(s.data for s in listed))
    found.written = {s.cell for s in listed[:before] if s.given & names} - {cell}
    return found
