"""The text of an answer: what a cell may hold, and taking it apart without running it.

CUDA answers are interpreted by the emulator, so that nothing of them runs natively; what would reach beyond them (files of the
machine, other line numbers, compile options) is refused. Python answers hold imports, constants and functions, nothing that runs when the cell does.
"""
from __future__ import annotations

import ast
import re

from .exercise import CUDA, Exercise

MOST_BYTES = 64_000
MAGIC = re.compile(r"^%%cuda[ \t]+(?P<name>\w+)[ \t]*(?P<options>[^\n]*)(?:\n|$)")
PYTHON_IMPORTS = {"numpy", "math", "itertools", "functools"}


class Refused(ValueError):
    """An answer that is not tried at all; the message says what it must not hold."""


def body(exercise: Exercise, cell: str) -> str:
    """The CUDA or Python text of an answer cell. Raises Refused for a cell of another form."""
    if len(cell.encode("utf-8", "replace")) > MOST_BYTES:
        raise Refused(f"the answer is longer than {MOST_BYTES:,} bytes")
    if "\0" in cell:
        raise Refused("the answer holds a NUL character")
    return _cuda(exercise, cell) if exercise.kind == CUDA else _python(exercise, cell)


def _cuda(exercise: Exercise, cell: str) -> str:
    first = MAGIC.match(cell)
    if not first or first["name"] != exercise.name:
        raise Refused(f"the answer's first line must be `%%cuda {exercise.name}`")
    if first["options"].strip():
        raise Refused(f"compile options are not taken: the answer's first line must be `%%cuda {exercise.name}` and nothing else")
    text = cell[first.end():]
    check_cuda(text)
    return text


def check_cuda(text: str) -> None:
    """Raises Refused for #include of what is not ours, #line, and other directives that reach beyond the answer."""
    joined = re.sub(r"\\[ \t]*\r?\n", "", text.replace("??/", "\\").replace("??=", "#").replace("%:", "#"))
    joined = re.sub(r"/\*.*?\*/", " ", joined, flags=re.DOTALL)
    for line in joined.splitlines():
        directive = re.match(r"\s*#\s*(\w+|\d+)?\s*(.*)", line)
        if not directive or not directive[1]:
            continue
        word, rest = directive[1], directive[2].split("//")[0].strip()
        if word in ("include", "include_next", "import", "embed"):
            if word != "include" or not re.fullmatch(r"<hopperlab/[a-z0-9_]+\.cuh>", rest):
                raise Refused(f"#{word} {rest}: only the course's own headers, <hopperlab/….cuh>, may be included")
        elif word == "line" or word.isdigit():
            raise Refused("#line is not taken: messages must name the answer's own lines")


def _python(exercise: Exercise, cell: str) -> str:
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise Refused(f"the answer is no Python: {problem}") from None
    for node in tree.body:
        if isinstance(node, ast.Import) and all(alias.name in PYTHON_IMPORTS for alias in node.names):
            continue
        if isinstance(node, ast.ImportFrom) and not node.level and node.module in PYTHON_IMPORTS:
            continue
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and not _runs(node):
            continue
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _plain(node):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        raise Refused(f"line {node.lineno}: an answer holds imports of numpy, math, itertools or functools, constants and functions, nothing else")
    if not any(isinstance(node, ast.FunctionDef) and node.name == exercise.name for node in tree.body):
        raise Refused(f"the answer must define the function {exercise.name}")
    return cell


def _runs(function: ast.FunctionDef) -> bool:
    """True when defining the function would already run something: defaults or annotations that are not constants."""
    given = [*function.args.defaults, *filter(None, function.args.kw_defaults)]
    return any(not isinstance(value, (ast.Constant, ast.UnaryOp)) for value in given)


def _plain(node: ast.Assign | ast.AnnAssign) -> bool:
    """True for NAME = constant, tuple, list or arithmetic of them."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    allowed = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.List, ast.Dict, ast.Name, ast.Load, ast.operator, ast.unaryop)
    return all(isinstance(t, ast.Name) for t in targets) and node.value is not None and all(isinstance(n, allowed) for n in ast.walk(node.value))
