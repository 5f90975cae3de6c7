# SPDX-License-Identifier: Apache-2.0
"""What the text of a Python answer may hold: definitions, and constants made of constants. Nothing of the answer's own runs when the cell does.

Decided from the syntax tree alone. What a function does when it is called is not looked at: answers are called in a child process (python_answers.py).
"""
from __future__ import annotations

import ast
from collections.abc import Iterator

IMPORTS = {"__future__", "abc", "bisect", "collections", "collections.abc", "copy", "dataclasses", "enum", "fractions", "functools", "heapq", "itertools",
           "math", "numpy", "operator", "struct",
           "typing"}
TAKEN = ("an answer holds imports of " + ", ".join(sorted(IMPORTS - {"__future__", "typing"}))
         + " or typing, constants, functions and classes, nothing else (print and assert are left "
         "out); what must be computed goes into a function")
DECORATORS = {"functools": {"cache", "lru_cache", "cached_property", "total_ordering", "wraps"}, "dataclasses": {"dataclass"}, "abc": {"abstractmethod"}}
OWN = {"staticmethod", "classmethod", "property"}
ACCESSORS = {"getter", "setter", "deleter"}
CALLED = {"range", "len", "tuple", "list", "dict", "set", "frozenset", "zip", "enumerate", "min", "max", "sum", "abs", "int", "float", "round", "divmod",
          "reversed", "bool", "str",
          "sorted", "pow", "hex", "bin", "ord", "chr", "all", "any"}
"""Builtins that a constant may call: none of them calls what it is given."""
MAKERS = {"collections": {"namedtuple", "defaultdict", "deque", "Counter", "OrderedDict"}, "functools": {"partial"}, "operator": {"itemgetter", "attrgetter"},
          "dataclasses": {"field"}, "typing": {"TypeVar", "NewType", "NamedTuple"}, "enum": {"auto"}}
"""What may make the whole of a constant, and keeps what it is given without calling it."""
MAPPINGS = {"dict", "Counter", "OrderedDict"}
"""Of these, and of builtins, what calls the method `keys` of its argument, where that has one."""
CALCULATING = {
    "fractions": {"Fraction"}, "itertools": {"chain", "combinations", "count", "cycle", "islice", "pairwise", "permutations", "product", "repeat", "zip_longest"},
    "numpy": set("arange array asarray concatenate dtype exp2 eye float16 float32 float64 full int8 int16 "
                 "int32 int64 linspace log2 ones outer sqrt stack tile uint8 uint16 uint32 uint64 zeros".split())}
"""Functions by module, beside those of math, that a constant may call: none of them calls what it is given, or asks it more than its numbers."""
METHODS = set("bit_count bit_length copy count find get index items join keys lower replace rsplit split splitlines strip upper values".split())
"""Of strings, numbers, lists and dictionaries that the cell itself writes down."""
DISPLAYS = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.JoinedStr)
ENUMS = {"Enum", "IntEnum", "Flag", "IntFlag", "StrEnum"}
MIXED = {"int", "str", "float"}
"""Builtins that an enumeration may also be."""
SAID = {"__str__", "__repr__"}
"""Of an enumeration's methods with such names, those that do not run while it is made."""
HOOKS = {"__init_subclass__", "__set_name__", "__class_getitem__", "__prepare__", "__mro_entries__"}
"""Methods that run while classes are made."""
PLAIN = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Name, ast.Subscript, ast.Slice, ast.Call,
         ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Starred, ast.JoinedStr, ast.FormattedValue, ast.comprehension, ast.keyword,
         ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
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
        return all(_decorates(one, tree) for one in node.decorator_list) and not _runs(node, tree)
    if isinstance(node, ast.Assign):
        return all(_names(target) for target in node.targets) and _is_whole_constant(node.value, tree)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and _made_of(node.annotation, TYPES) and (node.value is None or _is_whole_constant(node.value, tree))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and _is_constant(node.value, tree) and (not isinstance(node.value, ast.Name) or _is_data(node.value, tree))
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
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []
    return [name for target in targets for name in _names(target)]


def _names(target: ast.expr) -> list[str]:
    """The names that the left side of an assignment binds: a name, or a tuple of names; [] where it is anything else."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return [part.id for part in parts if isinstance(part, ast.Name)] if all(isinstance(part, ast.Name) for part in parts) else []


def _makes_a_class(node: ast.ClassDef, tree: ast.Module) -> bool:
    """A class whose making runs nothing of the answer's: plain bases, no metaclass, no hooks, and nothing called by a name that the class gives another meaning."""
    if node.keywords or not all(isinstance(base, ast.Name) or _imported(base, tree)[0] in IMPORTS for base in node.bases) or not all(_decorates(one, tree)
            for one in node.decorator_list):
        return False
    names = {name for part in node.body for name in bound(part)}
    if names & HOOKS or any(word in names for part in node.body for word in _called_at_once(part)):
        return False
    if _is_enum(node, tree) and not all(_belongs_to_enum(base, tree) for base in node.bases) or _is_enum(node, tree) and any(
            isinstance(part, (ast.FunctionDef, ast.ClassDef)) and part.name.startswith("_") and part.name not in SAID for part in node.body):
        return False
    return all((_accesses(part, node) or only_defines(part, tree)) and not isinstance(part, (ast.Import, ast.ImportFrom)) for part in node.body)


def _is_enum(node: ast.ClassDef, tree: ast.Module) -> bool:
    """Whether a class is an enumeration, by a base of its own or of one of its bases."""
    return any(_imported(base, tree) in {("enum", name) for name in ENUMS} or (known := _class(base, tree)) is not None and known is not node and _is_enum(known, tree)
               for base in node.bases)


def _belongs_to_enum(base: ast.expr, tree: ast.Module) -> bool:
    """A base that an enumeration may have: one of enum's, an enumeration of the answer's, a builtin. Others could bring methods that run while it is made."""
    known = _class(base, tree)
    return _imported(base, tree)[0] == "enum" or known is not None and _is_enum(known, tree) or isinstance(base,
            ast.Name) and base.id in MIXED and not any(_origins(base.id, tree))


def _class(named: ast.expr, tree: ast.Module) -> ast.ClassDef | None:
    """The class of the cell that a name stands for, where it stands for nothing else."""
    if not isinstance(named, ast.Name) or len(list(_origins(named.id, tree))) != 1:
        return None
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == named.id), None)


def _member(node: ast.Attribute, tree: ast.Module) -> bool:
    """A member of an enumeration of the cell, or its value or name."""
    owner = _class(node.value, tree)
    if owner is not None and _is_enum(owner, tree):
        return any(isinstance(part, ast.Assign) and node.attr in bound(part) for part in owner.body)
    inner = node.value
    return (node.attr in ("value", "name") and isinstance(inner, ast.Attribute) and _member(inner, tree)
            and (known := _class(inner.value, tree)) is not None and not any(node.attr in bound(part) for part in known.body))


def _called_at_once(node: ast.stmt) -> Iterator[str]:
    """The names that are called while a statement of a class is executed: as decorators, in values and in defaults."""
    parts = [node.value] if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value else []
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield from (one.id for one in node.decorator_list if isinstance(one, ast.Name))
        parts = list(node.decorator_list)
    if isinstance(node, ast.FunctionDef):
        parts += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    for part in parts:
        yield from (call.func.id for call in ast.walk(part) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name))


def _accesses(node: ast.stmt, owner: ast.ClassDef) -> bool:
    """Another accessor (`@x.setter`) of a property that the class defines, and nothing else by its name."""
    if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1 or not isinstance(how := node.decorator_list[0], ast.Attribute):
        return False
    if how.attr not in ACCESSORS or not isinstance(how.value, ast.Name) or how.value.id != node.name or node.args.defaults or node.args.kw_defaults:
        return False
    before = [part for part in owner.body if node.name in bound(part)]
    ways = [part.decorator_list for part in before if isinstance(part, ast.FunctionDef)]
    return len(ways) == len(before) and [ast.unparse(way) for way in ways[0]] == ["property"] and all(
        len(way) == 1 and ast.unparse(way[0]) in {f"{node.name}.{word}" for word in ACCESSORS} for way in ways[1:])


def _decorates(node: ast.expr, tree: ast.Module) -> bool:
    """A decorator of the standard library, that calls nothing while it decorates. Its name must be bound once: by its import."""
    if isinstance(node, ast.Call):
        if not all(_made_of(one, (ast.Constant, ast.Name, ast.expr_context)) for one in (*node.args, *(key.value for key in node.keywords))):
            return False
        node = node.func
    if isinstance(node, ast.Name) and node.id in OWN:
        return True
    module, name = _imported(node, tree)
    return name in DECORATORS.get(module, ())


def _imported(node: ast.expr, tree: ast.Module) -> tuple[str, str]:
    """The module and the name in it that an expression (`field`, `dataclasses.field`) stands for; ('', '') unless its word is bound by one import only."""
    root = node.value if isinstance(node, ast.Attribute) else node
    if not isinstance(root, ast.Name) or len(origin := set(_origins(root.id, tree))) != 1:
        return "", ""
    module, name = origin.pop()
    if isinstance(node, ast.Attribute):
        return ("", "") if name else (module, node.attr)
    return module, name


def _origins(word: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """For each place where the cell binds `word`: the module and the name in it ('' for the module itself; no module where it is no import)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if (alias.asname or alias.name) == word)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names if (alias.asname or alias.name) == word)
        elif isinstance(node, ast.stmt) and word in bound(node):
            yield "", word


def _is_whole_constant(value: ast.expr, tree: ast.Module) -> bool:
    """A constant, or what one of MAKERS makes of constants."""
    if isinstance(value, ast.Call):
        module, name = _imported(value.func, tree)
        if name and name in MAKERS.get(module, ()):
            given = (*value.args, *(key.value for key in value.keywords))
            mapped = value.args[1:] if name == "defaultdict" else value.args if name in MAPPINGS else ()
            if name == "defaultdict" and not all(_makes_data(one, tree) for one in value.args[:1]):
                return False
            return all(key.arg for key in value.keywords) and all(_is_constant(one, tree) for one in given) and all(_is_no_class(one, tree) for one in mapped)
    return _is_constant(value, tree)


def _makes_data(factory: ast.expr, tree: ast.Module) -> bool:
    """Whether what a defaultdict asks for a value, as soon as another constant looks something up, runs nothing of the answer's."""
    if isinstance(factory, ast.Lambda):
        return _is_whole_constant(factory.body, tree) and not isinstance(factory.body, ast.Lambda)
    if isinstance(factory, ast.Attribute):
        return _imported(factory, tree)[0] in IMPORTS
    return isinstance(factory, ast.Constant) or isinstance(factory, ast.Name) and _is_no_definition(factory.id, tree)


def _is_constant(value: ast.expr, tree: ast.Module) -> bool:
    """A lambda, a list or a dictionary of constants, or an expression of constants that calls only functions of math and builtins of CALLED, none by another name."""
    if isinstance(value, ast.Lambda):
        return _defaults_are_constants(value.args, tree)
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(_is_constant(part, tree) for part in value.elts)
    if isinstance(value, ast.Dict) and all(value.keys):
        return all(_is_constant(part, tree) for part in (*filter(None, value.keys), *value.values))
    if not _made_of(value, (*PLAIN, ast.Attribute)):
        return False
    return all(_is_harmless(node, tree) for node in ast.walk(value))


def _is_harmless(node: ast.AST, tree: ast.Module) -> bool:
    """Whether a part of a constant runs nothing of the answer's."""
    if isinstance(node, ast.Attribute):
        return _imported(node, tree)[0] in IMPORTS or _member(node, tree) or node.attr in METHODS and _is_data(node.value, tree)
    if isinstance(node, ast.Call):
        return _calculates(node, tree)
    if isinstance(node, ast.FormattedValue):
        return not any(isinstance(part, ast.Attribute) and _imported(part, tree)[0] not in IMPORTS for part in ast.walk(node.value))
    if isinstance(node, ast.Dict):
        return all(_is_data(value, tree) for key, value in zip(node.keys, node.values) if key is None)
    return not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and (node.id in CALLED or any(module for module, _ in _origins(node.id, tree))))


def _calculates(node: ast.Call, tree: ast.Module) -> bool:
    """A call that a constant may hold: of a builtin, of a function of CALCULATING, or of a method of data."""
    if isinstance(node.func, ast.Name) and node.func.id in CALLED:
        mapping = node.func.id in MAPPINGS
        return mapping and all(key.arg for key in node.keywords) and all(_is_no_class(one, tree) for one in node.args) or not mapping and not node.keywords
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and _is_data(node.func.value, tree):
        return not node.keywords
    module, name = _imported(node.func, tree)
    if module == "math":
        return not node.keywords
    names = [part for one in (*node.args, *node.keywords) for part in ast.walk(one) if isinstance(part, ast.Name)]
    return name in CALCULATING.get(module, ()) and all(key.arg for key in node.keywords) and all(_is_data(part, tree) or _is_no_definition(part.id, tree)
            for part in names)


def _is_no_definition(word: str, tree: ast.Module) -> bool:
    """Whether the cell binds a name by imports only, or in comprehensions alone."""
    return all(module for module, _ in _origins(word, tree))


def _is_data(value: ast.expr, tree: ast.Module) -> bool:
    """Whether an expression is seen to be a number, a string, a list or the like: it is written down, or a name that the cell gives nothing else to."""
    if isinstance(value, DISPLAYS) or not isinstance(value, ast.Name):
        return isinstance(value, DISPLAYS)
    given = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and value.id in bound(node)]
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == value.id and isinstance(node.ctx, ast.Store)]
    return bool(given) and len(given) == len(stored) and all(_writes_down(node) for node in given)


def _writes_down(node: ast.stmt) -> bool:
    """One name, or several, for one thing that stands there."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return bool(targets) and all(isinstance(target, ast.Name) for target in targets) and isinstance(getattr(node, "value", None), DISPLAYS)


def _is_no_class(value: ast.expr, tree: ast.Module) -> bool:
    """Whether an argument is seen to be a list, a dictionary or the like; behind a name there may be a class of the answer's."""
    made = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in {"zip", "enumerate", "list", "tuple", "dict", "sorted", "reversed"}
    return made or _is_data(value, tree)


def _made_of(value: ast.expr, allowed: tuple[type[ast.AST], ...]) -> bool:
    return all(isinstance(node, allowed) for node in ast.walk(value))


def _defaults_are_constants(given: ast.arguments, tree: ast.Module) -> bool:
    return all(not isinstance(value, ast.Lambda) and _is_constant(value, tree) for value in (*given.defaults, *filter(None, given.kw_defaults)))


def _runs(function: ast.FunctionDef, tree: ast.Module) -> bool:
    """True when defining the function would already run something: defaults that are not made of constants, annotations that call."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    types = [annotation for annotation in (*(a.annotation for a in arguments), function.returns) if annotation is not None]
    return not _defaults_are_constants(given, tree) or not all(_made_of(value, TYPES) for value in types)
