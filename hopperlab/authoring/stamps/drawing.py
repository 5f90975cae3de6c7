# SPDX-License-Identifier: Apache-2.0
"""Which definitions of show/ and lessons/ draw a cell's output, and one hash of them: read from the files, nothing is imported or run.

Stored outputs are English: a text that goes through the language (IN_LANGUAGE) counts as the text itself.
A cell reaches what its names mean, what those definitions use in turn, and the statements that a module runs on import. Comments, docstrings,
annotations and the place of a definition in its file do not count.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..hashes import PACKAGE

ROOMS = ("show", "lessons")
EVERYTHING = "*"            # in place of a name: all of a module
CHECKED = re.compile(r"\bhl\.check\(\s*[\"'](\d\d[a-z]?)\.\d+")
REPAIRED = re.compile(r"\A%%repair (\w+)")
IN_LANGUAGE = {"say", "named", "columns", "in_language"}      # of runtime/language.py and show/figure_words.py
IGNORED_FIELDS = {"ctx", "kind", "type_comment", "type_ignores"}


@dataclass
class Module:
    """One file: what each name is bound by, what its imports from these rooms mean, and the statements that bind nothing."""

    name: str
    bound: dict[str, list[ast.AST]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    loose: list[ast.AST] = field(default_factory=list)


class Drawing:
    """The files below one package folder, each read once."""

    def __init__(self, package: Path = PACKAGE):
        self._package = package
        self.module = lru_cache(maxsize=None)(self._read)
        self.shape = lru_cache(maxsize=None)(self._shape)

    def checked_by(self, source: str) -> set[tuple[str, str]]:
        """The exercises that a cell asks `hl.check` to judge, or the repairs of its lesson: all of their module."""
        lessons = self._package / "lessons"
        mended = [path.parent.name for number in REPAIRED.findall(source) for path in lessons.glob(f"l{number}_*/repairs.py")]
        if mended:
            return {(f"hopperlab.lessons.{room}.repairs", EVERYTHING) for room in mended}
        rooms = [path.parent.name for number in CHECKED.findall(source) for path in lessons.glob(f"l{number}_*/exercises.py")]
        return {(f"hopperlab.lessons.{room}.exercises", EVERYTHING) for room in rooms}

    def digest(self, reached: Iterable[tuple[str, str]]) -> str:
        """One hash of these definitions, given as (module, name); the order does not matter."""
        content = [f"{module}.{name} {self.shape(module, name)}" for module, name in sorted(set(reached))]
        return hashlib.sha256("\n".join(content).encode()).hexdigest()[:12] if content else ""

    def reached(self, roots: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """The definitions that `roots` use, themselves included, each as (module, name); what is defined elsewhere is left out."""
        found: set[tuple[str, str]] = set()
        todo = list(roots)
        while todo:
            step = self._home(*todo.pop())
            if step is None or step in found:
                continue
            found.add(step)
            todo += self._used_by(*step)
        return found

    def _home(self, dotted: str, name: str) -> tuple[str, str] | None:
        """Where a name of a module is defined: (module, name), through imports on the way; None outside of these rooms."""
        module = self.module(dotted)
        if module is None:
            return None
        if name == EVERYTHING or name in module.bound or name == "":
            return dotted, name
        if name in module.imports:
            return self._home(*module.imports[name])
        inner = f"{dotted}.{name}"
        return (inner, "") if self.module(inner) is not None else None

    def _used_by(self, dotted: str, name: str) -> Iterator[tuple[str, str]]:
        module = self.module(dotted)
        if name == EVERYTHING:
            yield from ((dotted, other) for other in (*module.bound, *module.imports))
        for node in (*module.loose, *module.bound.get(name, ())):
            yield from self.meant(node, {**{other: (dotted, other) for other in module.bound}, **module.imports}, module.name)
        yield dotted, ""

    def meant(self, tree: ast.AST, names: Mapping[str, tuple[str, str]], package: str = "") -> Iterator[tuple[str, str]]:
        """What the names used in `tree` mean: `names` says what each is; imports inside `tree` count too. `module.name` means that name; a
        module that is used in any other way means all of it."""
        names = dict(names)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names.update(imported(node, package))
        looked_into = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and (target := self._module_of(node.value, names)):
                looked_into.add(id(node.value))
                if not self._module_of(node, names):
                    yield target, node.attr
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in names and id(node) not in looked_into:
                whole = self._module_of(node, names)
                yield (whole, EVERYTHING) if whole else names[node.id]

    def _module_of(self, node: ast.AST, names: Mapping[str, tuple[str, str]]) -> str:
        """The module of these rooms that an expression means: 'hopperlab.show.style' for `style`; empty when it means none. A name that a package
        defines or imports goes before the file of that name."""
        if isinstance(node, ast.Name) and node.id in names:
            holder, name = names[node.id]
        elif isinstance(node, ast.Attribute):
            holder, name = self._module_of(node.value, names) or _dotted(node.value, names), node.attr
        else:
            return ""
        whole, package = f"{holder}.{name}" if name else holder, self.module(holder)
        defined = package is not None and (name in package.bound or name in package.imports)
        return whole if not defined and self.module(whole) is not None else ""

    def _shape(self, dotted: str, name: str) -> str:
        module = self.module(dotted)
        return " ".join(shape(node) for node in (module.bound.get(name, ()) if name else module.loose))

    def _read(self, dotted: str) -> Module | None:
        parts = dotted.split(".")
        if parts[0] != "hopperlab" or len(parts) < 2 or parts[1] not in ROOMS:
            return None
        path = self._package.joinpath(*parts[1:])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not file.is_file():
            return None
        package = dotted if path.is_dir() else dotted.rpartition(".")[0]
        module = Module(package)
        for node in _InEnglish().visit(_without_types(ast.parse(file.read_text(encoding="utf-8")))).body:
            _sort_in(node, module)
        return module


def _without_types(tree: ast.Module) -> ast.Module:
    """The same tree without annotations and without the body of `if TYPE_CHECKING`, which nothing drawn depends on."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            node.annotation = None if isinstance(node, ast.arg) else ast.Constant(None)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"))]
    return tree


class _InEnglish(ast.NodeTransformer):
    """Takes out what translates: the calls, of which their argument stays, and their imports."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`say(text)` is `text`."""
        self.generic_visit(node)
        return node.args[0] if isinstance(node.func, ast.Name) and node.func.id in IN_LANGUAGE and len(node.args) == 1 and not node.keywords else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        """An import without these names; none where nothing is left of it."""
        node.names = [alias for alias in node.names if alias.name not in IN_LANGUAGE]
        return node if node.names else None


def _sort_in(node: ast.AST, module: Module) -> None:
    """Put one statement of a module's top level where it belongs."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        module.imports.update(imported(node, module.name))
        return
    if offered := _offered(node):
        module.imports.update({name: (_absolute(home, module.name), name) for home, names in offered.items() for name in names.split()})
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names = {node.name}
    else:
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name in names - {"__all__"}:
        module.bound.setdefault(name, []).append(node)
    if not names and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        module.loose.append(node)


def _offered(node: ast.AST) -> dict[str, str]:
    """What a lesson's room offers (lessons/rooms.py): module, relative to the room -> its names, separated by blanks; empty for other statements."""
    call = getattr(node, "value", None)
    if isinstance(node, ast.Assign) and isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "offer":
        return ast.literal_eval(call.args[1])
    return {}


def _absolute(relative: str, package: str) -> str:
    """'..a.b' seen from the package 'x.y' is 'x.a.b'."""
    dots = len(relative) - len(relative.lstrip("."))
    parts = package.split(".")
    return ".".join([*parts[:len(parts) - dots + 1], relative.lstrip(".")])


def imported(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, tuple[str, str]]:
    """What an import binds: name -> (module, name there), where a module itself is (module, "")."""
    if isinstance(node, ast.Import):
        return {alias.asname or alias.name.split(".")[0]: (alias.name if alias.asname else alias.name.split(".")[0], "") for alias in node.names}
    base = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
    stem = ".".join([*base, *filter(None, [node.module])])
    return {alias.asname or alias.name: (stem, alias.name) for alias in node.names}


def _dotted(node: ast.AST, names: Mapping[str, tuple[str, str]]) -> str:
    """The dotted name that an expression spells: 'hopperlab.show' for `hl.show`; empty when it spells none."""
    if isinstance(node, ast.Name) and node.id in names:
        return ".".join(filter(None, names[node.id]))
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value, names)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def shape(node: ast.AST) -> str:
    """A tree as text that is the same for every version of Python: without positions, contexts and docstrings."""
    parts = []
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            value = value[1:] if ast.get_docstring(node, clean=False) is not None else value
        if name in IGNORED_FIELDS or value is None or value == []:
            continue
        parts.append(f"{name}={_shape_of(value)}")
    return f"{type(node).__name__}({' '.join(parts)})"


def _shape_of(value: object) -> str:
    if isinstance(value, ast.AST):
        return shape(value)
    return f"[{' '.join(map(_shape_of, value))}]" if isinstance(value, list) else repr(value)
