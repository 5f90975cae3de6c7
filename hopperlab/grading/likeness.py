# SPDX-License-Identifier: Apache-2.0
"""Whether two answers are the same program in other words: token streams, Python's syntax trees, and the PTX that CUDA answers compile to.

A form is what stays when names, comments, spaces, empty statements, the order of statements and the spelling of numbers are taken away.
Equal forms are a reason to ask and no proof. Nothing here runs or compiles what a learner wrote: PTX comes from the sandbox.
"""
from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

import hopperlab as hl

from ..checking import python_text
from ..checking.cuda_text import TOKEN
from ..checking.exercise import CUDA, Exercise
from ..lessons.catalogue import find
from . import generate, regions
from .compiled import compiled_form, digest

ENOUGH_TOKENS = 25           # an answer of fewer tokens of its own may well be the same as everybody's
KEPT = frozenset("""and or not if else elif for while do return int float unsigned const break continue in is switch case goto template constexpr double char
                    short long bool void asm volatile struct sizeof static extern""".split())          # tell programs apart
HEADERS = Path(hl.__file__).parent / "kernels" / "include" / "hopperlab"


def tokens(exercise: Exercise, cell: str) -> list[str]:
    """The answer's tokens without comments and spaces, names replaced by the order of their first use, constants by theirs."""
    order: dict[str, str] = {word: word for word in KEPT}
    return [order.setdefault(token, f"n{len(order)}") if re.match(r"[A-Za-z_]", token) else token for token in _words(exercise, cell)]


def _words(exercise: Exercise, cell: str) -> list[str]:
    text = re.sub(r"\A%%cuda[^\n]*\n", "", cell.replace("\\\n", ""))
    if exercise.kind != CUDA:
        text = re.sub(r"#[^\n]*", " ", text)
    for name in exercise.constants:
        text = re.sub(rf"\b({re.escape(name)}\s*=\s*)[\w.']+", rf"\g<1>{name}", text)
    found = []
    for token in TOKEN.finditer(text):
        kind, value = token.lastgroup, token[0]
        if kind in ("line", "block") or value.isspace():
            continue
        found.append(_number(value) if kind == "number" else " ".join(value.split()) if kind == "string" else value)
    return found


def _number(word: str) -> str:
    """A literal in one spelling: 0x10, 16u and 1'6 are 16."""
    plain = word.replace("'", "").lower()
    digits = plain.rstrip("ul") if plain.startswith("0x") or not re.search(r"[.ep]", plain) else plain.rstrip("fl")
    try:
        return str(int(digits, 0 if not re.fullmatch(r"0[0-7]+", digits) else 8))
    except ValueError:
        try:
            return re.sub(r"\.0$", "", repr(float(digits)))
        except ValueError:
            return plain


def own(exercise: Exercise, cell: str, skeleton: str) -> int:
    """About how many tokens of an answer are not those that a learner starts from, or stand there more often."""
    return (Counter(_words(exercise, cell)) - Counter(_words(exercise, skeleton))).total()


def form(exercise: Exercise, cell: str) -> str:
    """A digest that is the same for answers of the same statements, in whatever order and with whatever names; '' for what cannot be read."""
    try:
        statements = _cuda_statements(exercise, cell) if exercise.kind == CUDA else _python_statements(exercise, cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return digest(statements)


def _cuda_statements(exercise: Exercise, cell: str) -> list[str]:
    """Statements split at ; and braces, names blanked but those of the course's headers and of CUDA; empty ones are none."""
    known = KEPT | _course_names()
    made: list[list[str]] = [[]]
    depth, before = 0, ""
    for word in _words(exercise, cell):
        depth += (word == "(") - (word == ")")
        if word in "{}" or word == ";" and depth <= 0:
            made.append([])
        elif word.startswith('"') and before.startswith('"') and made[-1]:
            made[-1][-1] = made[-1][-1][:-1] + word[1:]
        else:
            made[-1].append("n" if re.match(r"[A-Za-z_]", word) and word not in known else word)
        before = word
    return [" ".join(statement) for statement in made if statement]


@cache
def _course_names() -> frozenset[str]:
    """Names that an answer may use and not choose: functions of the course's headers, CUDA's own (with two underscores, or of coordinates)."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.cuh")))
    return frozenset(re.findall(r"__device__[^;{}()=]*?\b(\w+_\w+)\s*\(", text)) | {"threadIdx", "blockIdx", "blockDim", "gridDim", "x", "y", "z",
                                                                                    *re.findall(r"\b__\w+", text)}


def _python_statements(exercise: Exercise, cell: str) -> list[str]:
    known = {*dir(builtins), *python_text.IMPORTS, "np"}

    def header(node: ast.AST) -> str:
        """One statement without the statements in it."""
        if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) and target.id in exercise.constants for target in node.targets):
            return "constant"
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign([node.target], node.value)
        if isinstance(node, ast.AugAssign):
            node = ast.Assign([node.target], ast.BinOp(node.target, node.op, node.value))
        return _dumped(node, known)

    return [header(node) for node in ast.walk(_Plain().visit(ast.parse(cell))) if isinstance(node, ast.stmt) and not _empty(node)]


class _Plain(ast.NodeTransformer):
    """Takes away what changes nothing: `if True`, constants that nobody reads, and a name for what is returned at once."""

    def visit_If(self, node: ast.If) -> Any:
        """The branch that is taken, where a constant decides."""
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """The function without them."""
        self.generic_visit(node)
        read = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)}
        read |= {one.target.id for one in ast.walk(node) if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)}
        node.body = [one for one in node.body if not (isinstance(one, ast.Assign) and isinstance(one.value, (ast.Constant, ast.Name))
                                                      and all(isinstance(target, ast.Name) and target.id not in read for target in one.targets))]
        if len(node.body) > 1 and isinstance(last := node.body[-1], ast.Return) and isinstance(last.value, ast.Name):
            before = node.body[-2]
            if isinstance(before, ast.Assign) and len(before.targets) == 1 and isinstance(before.targets[0], ast.Name) and before.targets[0].id == last.value.id:
                node.body[-2:] = [ast.Return(before.value)]
        return node


def _empty(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.Name))) or isinstance(node, ast.AnnAssign) and node.value is None


def _dumped(node: Any, known: set[str]) -> str:
    if isinstance(node, list):
        return "[" + ",".join(_dumped(one, known) for one in node if not isinstance(one, ast.stmt)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name):
        return node.id if node.id in known else "n"
    if isinstance(node, ast.arg):
        return "n"
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr, ast.BitAnd, ast.BitXor)):        # either way round
        return type(node.op).__name__ + "(" + ",".join(sorted((_dumped(node.left, known), _dumped(node.right, known)))) + ")"
    skipped = {"ctx", "annotation", "returns", "type_comment", "type_params", "lineno", "kind", "simple"} | ({"name"} if isinstance(node, ast.FunctionDef) else set())
    return type(node).__name__ + "(" + ",".join(_dumped(value, known) for name, value in ast.iter_fields(node) if name not in skipped) + ")"


# --- the published solutions ------------------------------------------------------------------------------------------
def matches_public(root: Path, exercise: str, cell: str) -> bool:
    """True when an answer is the course's published solution: the same statements, whatever its comments, spaces, constants, names and order.

    Short solutions (fewer than ENOUGH_TOKENS tokens of their own) never match: honest answers coincide there.
    """
    asked = find(exercise)
    return long(root, exercise) and (tokens(asked, cell) == tokens(asked, public(root, exercise)[0]) or form(asked, cell) == form(asked, public(root, exercise)[0]))


def long(root: Path, exercise: str) -> bool:
    """Whether the published solution has enough tokens of its own that equal answers say something."""
    solution, skeleton = public(root, exercise)
    return own(find(exercise), solution, skeleton) >= ENOUGH_TOKENS


@cache
def public(root: Path, exercise: str) -> tuple[str, str]:
    """The published answer and what a learner starts from. Raises LookupError where there is none."""
    lesson, number = exercise.split(".")
    for path in generate.solutions(root):
        if path.name.startswith(f"{lesson}_"):
            cell = generate.answers_of(nbformat.read(path, as_version=4))[f"answer-{lesson}-{number}"]
            return regions.solution_without_stubs(cell), regions.without_solutions(cell)
    raise LookupError(f"no published solution of {exercise} in {root / 'solutions'}")


def public_forms(root: Path, exercise: str, constants: Mapping[str, Any]) -> frozenset[str]:
    """The PTX forms of the published solution, with the course's own constants and with an edition's; none for a Python or a short one."""
    asked = find(exercise)
    if asked.kind != CUDA or not long(root, exercise):
        return frozenset()
    solution = public(root, exercise)[0]
    return frozenset(form for form in (compiled_form(asked, text) for text in (solution, generate.with_constants(asked, solution, constants))) if form)
