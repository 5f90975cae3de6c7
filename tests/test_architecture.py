"""The shape of the package: imports point one way, modules and functions stay small, and what is public is explained."""

import ast
from pathlib import Path

import pytest

import hopperlab

ROOT = Path(hopperlab.__file__).parent
ROOMS = ("hopper", "emulator", "runtime", "measure", "show", "grading")
"""Each room may import itself and the rooms before it (docs: DESIGN, Layout)."""

ABOVE_ALL = {"cli", "__main__", "doctor", "lab", "workspace", "notebooks"}
"""What stands above the rooms: they may import any room, and no room imports them."""

GPU_AND_NOTEBOOK = {"cupy", "cuda", "torch", "triton", "matplotlib", "IPython", "ipywidgets", "nbformat", "ipykernel"}

MAX_MODULE_LINES, MAX_FUNCTION_LINES = 450, 70

MODULES = sorted(ROOT.rglob("*.py"))
BY_NAME = {path.relative_to(ROOT).as_posix(): path for path in MODULES}


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(path):
    """Dotted names of every module that `path` imports, also inside functions, with relative imports resolved."""
    package = ("hopperlab", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *filter(None, [node.module])))
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def room(dotted):
    """The room (or top-level module) of hopperlab a dotted name lies in; None for other packages, "" for hopperlab itself."""
    parts = dotted.split(".")
    if parts[0] != "hopperlab":
        return None
    name = parts[1] if len(parts) > 1 else ""
    return name if name in {*ROOMS, *ABOVE_ALL, "kernels", "recordings"} else ""


def modules_of(*rooms):
    return [name for name in BY_NAME if name.split("/")[0] in rooms]


@pytest.mark.parametrize("name", modules_of(*ROOMS))
def test_imports_point_one_way(name):
    own = ROOMS.index(name.split("/")[0])
    for dotted in imported(BY_NAME[name]):
        target = room(dotted)
        if target in ROOMS:
            assert ROOMS.index(target) <= own, f"{name} imports {dotted}: {ROOMS[own]} stands below {target}"
        assert target not in ABOVE_ALL, f"{name} imports {dotted}, which stands above the rooms"
        if target == "":
            assert own >= ROOMS.index("measure"), f"{name} imports {dotted}: the public names are made of the rooms up to runtime"


@pytest.mark.parametrize("name", modules_of("hopper", "emulator"))
def test_formulas_and_emulator_need_neither_gpu_nor_notebook(name):
    for dotted in imported(BY_NAME[name]):
        assert dotted.split(".")[0] not in GPU_AND_NOTEBOOK, f"{name} imports {dotted}"


def test_hopper_imports_nothing_of_ours_outside_itself():
    for name in modules_of("hopper"):
        assert {room(dotted) for dotted in imported(BY_NAME[name])} <= {None, "hopper"}


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_modules_and_functions_stay_small(name):
    text = BY_NAME[name].read_text(encoding="utf-8")
    assert text.count("\n") <= MAX_MODULE_LINES, f"{name} has {text.count(chr(10))} lines: a name is missing"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            assert lines <= MAX_FUNCTION_LINES, f"{name}: {node.name} has {lines} lines: a name is missing"


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_modules_open_with_what_lives_there(name):
    tree = tree_of(BY_NAME[name])
    assert not tree.body or ast.get_docstring(tree), f"{name} opens without a docstring"


def public_definitions(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))


@pytest.mark.parametrize("name", modules_of("hopper"))
def test_public_formulas_are_typed_and_explained(name):
    for node in public_definitions(tree_of(BY_NAME[name])):
        assert ast.get_docstring(node), f"{name}: {node.name} has no docstring"
        if isinstance(node, ast.FunctionDef):
            untyped = [a.arg for a in (*node.args.args, *node.args.kwonlyargs) if a.annotation is None and a.arg not in ("self", "cls")]
            assert not untyped and node.returns is not None, f"{name}: {node.name} lacks types for {untyped or 'its result'}"


def test_no_unfinished_work():
    for name, path in BY_NAME.items():
        text = path.read_text(encoding="utf-8")
        for mark in ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error"):
            assert mark not in text, f"{name} still says {mark}"
