# SPDX-License-Identifier: Apache-2.0
"""What the text of a Python answer may hold: definitions, and constants made of constants. Nothing of the answer's own runs when the cell does.

Decided from the syntax tree alone. What a function does when it is called is not looked at: answers are called in a child process (python_answers.py).
"""
from __future__ import annotations

import ast
from collections.abc import Iterator

IMPORTS = {"numpy", "math", "itertools", "functools", "collections", "dataclasses", "operator", "typing"}
TAKEN = ("an answer holds imports of " + ", ".join(sorted(IMPORTS - {"typing"})) + " or typing, constants, functions and classes, nothing else (print and assert are left out); "
         "what must be computed goes into a function")
DECORATORS = {"functools": {"cache", "lru_cache", "cached_property", "total_ordering", "wraps"}, "dataclasses": {"dataclass"}}
OWN = {"staticmethod", "classmethod", "property"}
CALLED = {"range", "len", "tuple", "list", "dict", "set", "frozenset", "zip", "enumerate", "min", "max", "sum", "abs", "int", "float", "round", "divmod", "reversed"}
"""Builtins that a constant may call: none of them calls what it is given."""
HOOKS = {"__init_subclass__", "__set_name__", "__class_getitem__", "__prepare__", "__mro_entries__"}
"""Methods that run while classes are made."""
PLAIN = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Name, ast.Subscript, ast.Slice, ast.Call,
         ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.keyword, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
TYPES = (ast.Constant, ast.Tuple, ast.List, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.BitOr, ast.expr_context)


def only_defines(node: ast.stmt, tree: ast.Module) -> bool:
    """True for a statement of the cell `tree` that runs nothing of the answer's when the cell does."""
    if isinstance(node, ast.Import):
        return all(alias.name in IMPORTS for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return not node.level and node.module in IMPORTS and all(alias.name != "*" for alias in node.names)
    if isinstance(node, ast.ClassDef):
        return _makes_a_class(node, tree)
    if isinstance(node, ast.FunctionDef):
        return all(_decorates(one, tree) for one in node.decorator_list) and not _runs(node)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) for target in node.targets) and _is_constant(node.value)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and _made_of(node.annotation, TYPES) and (node.value is None or _is_constant(node.value))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) or isinstance(node, ast.Pass)


def defines_function(node: ast.stmt, name: str) -> bool:
    """Whether a statement defines the function `name`, by def or as a lambda."""
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.Lambda) and name in bound(node)
    return isinstance(node, ast.FunctionDef) and node.name == name


def bound(node: ast.stmt) -> list[str]:
    """The names that a statement of an answer binds."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _makes_a_class(node: ast.ClassDef, tree: ast.Module) -> bool:
    """A class whose making runs nothing of the answer's: plain bases, no metaclass, no hooks."""
    if node.keywords or not all(isinstance(base, ast.Name) for base in node.bases) or not all(_decorates(one, tree) for one in node.decorator_list):
        return False
    names = {name for part in node.body for name in bound(part)}
    return not names & HOOKS and all(only_defines(part, tree) and not isinstance(part, (ast.Import, ast.ImportFrom, ast.ClassDef)) for part in node.body)


def _decorates(node: ast.expr, tree: ast.Module) -> bool:
    """A decorator of the standard library, that calls nothing while it decorates. Its name must be bound once: by its import."""
    if isinstance(node, ast.Call):
        if not all(_made_of(one, (ast.Constant, ast.Name, ast.expr_context)) for one in (*node.args, *(key.value for key in node.keywords))):
            return False
        node = node.func
    if isinstance(node, ast.Name) and node.id in OWN:
        return True
    root = node.value if isinstance(node, ast.Attribute) else node
    if not isinstance(root, ast.Name) or len(origin := list(_origins(root.id, tree))) != 1:
        return False
    module, name = origin[0]
    found = node.attr if isinstance(node, ast.Attribute) and not name else name
    return found in DECORATORS.get(module, ())


def _origins(word: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """For each place where the cell binds `word`: the module and the name in it ('' for the module itself; no module where it is no import)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if (alias.asname or alias.name) == word)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names if (alias.asname or alias.name) == word)
        elif isinstance(node, ast.stmt) and word in bound(node):
            yield "", word


def _is_constant(value: ast.expr) -> bool:
    """A lambda, or an expression of constants that calls only builtins of CALLED, and none of them by another name."""
    if isinstance(value, ast.Lambda):
        return _defaults_are_constants(value.args)
    if not _made_of(value, PLAIN):
        return False
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and (not isinstance(node.func, ast.Name) or node.func.id not in CALLED or node.keywords and node.func.id != "dict"):
            return False
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in CALLED:
            return False
    return True


def _made_of(value: ast.expr, allowed: tuple[type[ast.AST], ...]) -> bool:
    return all(isinstance(node, allowed) for node in ast.walk(value))


def _defaults_are_constants(given: ast.arguments) -> bool:
    return all(not isinstance(value, ast.Lambda) and _is_constant(value) for value in (*given.defaults, *filter(None, given.kw_defaults)))


def _runs(function: ast.FunctionDef) -> bool:
    """True when defining the function would already run something: defaults that are not made of constants, annotations that call."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    types = [annotation for annotation in (*(a.annotation for a in arguments), function.returns) if annotation is not None]
    return not _defaults_are_constants(given) or not all(_made_of(value, TYPES) for value in types)
