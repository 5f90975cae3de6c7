# SPDX-License-Identifier: Apache-2.0
"""The text of an answer: what a cell may hold, and taking it apart without running it.

CUDA answers are interpreted by the emulator, so that nothing of them runs natively; what would reach beyond them (files of the
machine, other line numbers, compile options) is refused (cuda_text.py). Python answers hold imports, constants, functions and classes, nothing of their own
that runs when the cell does (python_text.py); what only tries them (`print(…)`, `assert`) is left out before anything runs.
"""
from __future__ import annotations

import ast
import builtins
import re

from . import cuda_text, python_text
from .exercise import CUDA, Exercise

MOST_BYTES = 64_000
MAGIC = re.compile(r"%%cuda[ \t]+(?P<name>\w+)(?P<options>[^\n]*)(?:\n|$)")
MARKERS = re.compile(r"NBVAL_[A-Z_]+|PYTEST_VALIDATE_IGNORE_OUTPUT")
INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")
CONTROL = re.compile("[\x01-\x08\x0b-\x1f\x7f-\x9f]")
RESERVED = {*dir(builtins), "hl", "show", "lesson", "hopperlab", "get_ipython", "display", "In", "Out", "exit", "quit"}


class Refused(ValueError):
    """An answer that is not tried at all; the message says what it must not hold."""


def body(exercise: Exercise, cell: str) -> str:
    """The CUDA or Python text of an answer cell; of Python without what only tries the answer. Raises Refused for a cell of another form."""
    if len(cell.encode("utf-8", "replace")) > MOST_BYTES:
        raise Refused(f"the answer is longer than {MOST_BYTES:,} bytes")
    _check_characters(cell)
    return _cuda(exercise, cell) if exercise.kind == CUDA else _python(exercise, cell)


def _check_characters(cell: str) -> None:
    """Raises Refused for characters that a reader does not see, and for comments that nbval obeys."""
    if "\0" in cell:
        raise Refused("the answer holds a NUL character")
    if any("\ud800" <= c <= "\udfff" for c in cell):
        raise Refused("the answer holds half of a surrogate pair, which is no character")
    if found := INVISIBLE.search(cell) or CONTROL.search(cell.replace("\r\n", "\n")):
        line = cell.count("\n", 0, cell.index(found[0])) + 1
        raise Refused(f"line {line} holds the invisible character U+{ord(found[0]):04X}")
    if found := MARKERS.search(cell):
        raise Refused(f"{found[0]} is a mark that nbval obeys; an answer must not hold it")


def to_run(exercise: Exercise, cell: str) -> str:
    """The cell as a notebook may run it: that of CUDA as it stands, that of Python as `body` gives it. Raises Refused."""
    text = body(exercise, cell)
    return cell if exercise.kind == CUDA else text


def _cuda(exercise: Exercise, cell: str) -> str:
    first = MAGIC.match(cell)
    if not first or first["name"] != exercise.name:
        raise Refused(f"the answer's first line must be `%%cuda {exercise.name}`")
    if first["options"].strip():
        raise Refused(f"compile options are not taken: the answer's first line must be `%%cuda {exercise.name}` and nothing else")
    text = cell[first.end():]
    try:
        cuda_text.check(text)
    except cuda_text.NotTaken as problem:
        raise Refused(str(problem)) from None
    return text


def _python(exercise: Exercise, cell: str) -> str:
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise Refused(f"the answer is no Python: {problem}") from None
    tried = [node for node in tree.body if _only_tries(node)]
    tree.body = [node for node in tree.body if node not in tried]
    for node in tree.body:
        if not python_text.only_defines(node, tree):
            raise Refused(f"line {node.lineno}: {python_text.TAKEN}")
        if taken := next((name for name in python_text.bound(node) if name in RESERVED or name.startswith("__")), None):
            raise Refused(f"line {node.lineno}: the name {taken} is not the answer's to define")
    if not any(python_text.defines_function(node, exercise.name) for node in tree.body):
        raise Refused(f"the answer must define the function {exercise.name}")
    return _without(cell, tried, tree.body)


def _only_tries(node: ast.stmt) -> bool:
    """True for `print(…)`, `assert …` and `if __name__ == "__main__":` at the top of an answer, which a learner left there."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "__name__ == '__main__'" and not node.orelse
    printed = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "print"
    return printed or isinstance(node, ast.Assert)


def _without(cell: str, left_out: list[ast.stmt], kept: list[ast.stmt]) -> str:
    """The cell with the lines of statements blank, so that the others keep their numbers. Raises Refused where a line holds both kinds."""
    lines = cell.split("\n")
    others = {line for node in kept for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    for node in left_out:
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            if line in others:
                raise Refused(f"line {line}: print and assert are left out of an answer; put them on lines of their own")
            lines[line - 1] = ""
    return "\n".join(lines)
