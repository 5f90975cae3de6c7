# SPDX-License-Identifier: Apache-2.0
"""The shape of the package: rooms, imports that point one way and never in a circle, small modules and functions, and words for what is public.

The rules are DESIGN's (Layout) and STYLE's (400 and 40 lines). None has exceptions by name: where one fails, a name or a room is missing.
"""

import ast
import graphlib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import hopperlab
from hopperlab.lessons import rooms

ROOT = Path(hopperlab.__file__).parent
ROOMS = ("hopper", "emulator", "runtime", "measure", "estimates", "show", "checking", "lessons", "grading", "authoring", "cli")
"""Each room may import itself and the rooms before it."""

EMULATOR = {"ptx": {"errors"}, "isa": {"errors", "ptx"}, "compile": {"errors", "ptx", "isa"}, "machine": {"errors", "ptx", "isa", "compile"},
            "ops": {"errors", "ptx", "isa", "compile", "machine"}, "hazards": {"errors", "ptx", "isa", "compile", "machine"},
            "observe": {"errors", "ptx", "isa", "compile", "machine", "hazards"}}
"""Every room of the emulator and what it may import besides itself; modules beside the rooms (launch, program, session) put them together and may import all."""

AUTHORING = {"learner": set(), "stamps": set(), "notebooks": {"learner", "stamps"}, "panels": {"stamps", "notebooks"}, "editions": {"learner", "notebooks"},
             "site": {"notebooks", "panels", "editions"}, "docs": {"editions", "panels", "site"},
             "shipping": {"notebooks"}}
"""Every room of authoring and what it may import besides itself and `hashes` and `course`; `verbs` and `__main__` beside them call all."""

SAME = {
    "attention": "attention's products", "attention_fp8": "attention in fp8", "clusters": "tiles in clusters", "copies": "copies", "counters": "what a run counted",
    "decoding": "attention of one query", "errors": "exceptions", "fp8": "products of fp8",
    "fp8_grouped": "products of fp8 by groups", "ir": "an intermediate representation", "launch": "starting a kernel", "loops": "loops of machine code or PTX",
    "magic": "a cell magic",
    "mbarrier": "mbarriers", "meetings": "where the warps of a warpgroup meet", "micro": "micro-experiments", "mixed": "products with smaller weights",
    "progress": "how far something is", "readme": "README's tables",
    "checks": "what a lesson asks of its learner", "exercise_figures": "pictures of exercises", "exercise_words": "words of exercises", "exercises": "exercises",
    "recorded": "what recordings say", "register_budget": "registers by role", "repairs": "repair cells",
    "register_times": "when registers of wgmma were computed", "roles": "lesson 11's roles", "session": "hl.emulate and what it leaves behind",
    "timelines": "timelines", "variables": "variables of a module", "variants": "products as controls", "wgmma": "wgmma", "worker": "a worker process",
}
"""Names that files of several rooms have, and the one thing that each of them means."""

ABOVE_ALL = {"__main__"}
"""What stands above the rooms: they may import any room, and no room imports them."""

NO_CODE = {"kernels", "recordings"}
"""Folders beside the rooms: CUDA, measured results, and compiled kernels of a release."""

GPU_AND_NOTEBOOK = {"cupy", "cuda", "torch", "triton", "matplotlib", "IPython", "ipywidgets", "nbformat", "ipykernel"}

PUBLIC = hopperlab._NAMES
"""Public names and the modules that they come from."""

MAX_MODULE_LINES, MAX_FUNCTION_LINES = 400, 40

MODULES = sorted(ROOT.rglob("*.py"))
BY_NAME = {path.relative_to(ROOT).as_posix(): path for path in MODULES}


@cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes_of(path):
    return tuple(ast.walk(tree_of(path)))


def from_here(path, level, module):
    """The dotted name that `from <level dots><module>` means in the file `path`."""
    package = ("hopperlab", *path.relative_to(ROOT).parts[:-1])
    return ".".join((*(package[: len(package) - level + 1] if level else ()), *filter(None, [module])))


@cache
def imported(path):
    """Dotted names of everything that `path` imports, also inside functions, with relative imports resolved; of the modules in which
    a lesson's room looks its names up (`offer`); and of those behind the public names that it takes from `hopperlab` (`hl.emulate`)."""
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{from_here(path, node.level, node.module)}.{alias.name}" for alias in node.names]
    homes = {home: len(home) - len(home.lstrip(".")) for home in rooms.read(tree_of(path)).values()}
    public = {alias.asname or alias.name for node in nodes_of(path) if isinstance(node, ast.Import) for alias in node.names if alias.name == "hopperlab"}
    found += [f"hopperlab.{PUBLIC[node.attr]}" for node in nodes_of(path)
              if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in public and node.attr in PUBLIC]
    return (*found, *(from_here(path, level, home.lstrip(".")) for home, level in homes.items()))


def module_of(dotted):
    """The module of hopperlab that holds what a dotted name says, as a path below ROOT; None for other packages.

    A name that is no module is looked up in the package or module before it. A package that is only on the way does not count.
    """
    parts = dotted.split(".")
    if parts[0] != "hopperlab":
        return None
    for end in range(len(parts), 0, -1):
        stem = "/".join(parts[1:end])
        for name in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
            if name in BY_NAME:
                return name
    return None


def room(dotted):
    """The room (or top-level module) of hopperlab a dotted name lies in; None for other packages, "" for hopperlab itself."""
    parts = dotted.split(".")
    if parts[0] != "hopperlab":
        return None
    name = parts[1] if len(parts) > 1 else ""
    return name if name in {*ROOMS, *ABOVE_ALL, *NO_CODE} else ""


def modules_of(*rooms):
    return [name for name in BY_NAME if name.split("/")[0] in rooms]


def each(names):
    """A test of each of these modules, a case a folder: thousands of cases would take longer to count than to try."""
    folders = {}
    for name in names:
        folders.setdefault("/".join(name.split("/")[:-1][:2]) or "beside the rooms", []).append(name)
    return pytest.mark.parametrize("names", folders.values(), ids=folders)


def test_there_are_these_rooms_and_no_others():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - NO_CODE == set(ROOMS)
    assert {name for name in BY_NAME if "/" not in name} == {"__init__.py", "__main__.py"}, "a module beside the rooms belongs into one"
    assert set(modules_of(*NO_CODE)) <= {"kernels/__init__.py"}, "these folders hold no Python"
    for house, inside in (("emulator", EMULATOR), ("authoring", AUTHORING)):
        assert {name.split("/")[1] for name in modules_of(house) if name.count("/") > 1} == set(inside)


def test_one_name_means_one_thing():
    """Two files of one name are about the same, and SAME says what that is."""
    stems = Counter(path.stem for path in MODULES if not path.stem.startswith("__"))
    assert {stem for stem, count in stems.items() if count > 1} == set(SAME), "give a file of its own subject a name of its own"


@each(modules_of(*ROOMS))
def test_imports_point_one_way(names):
    for name in names:
        own = ROOMS.index(name.split("/")[0])
        for dotted in imported(BY_NAME[name]):
            target = room(dotted)
            if target in ROOMS:
                assert ROOMS.index(target) <= own, f"{name} imports {dotted}: {ROOMS[own]} stands below {target}"
            assert target not in ABOVE_ALL, f"{name} imports {dotted}, which stands above the rooms"
            if target == "":
                assert own >= ROOMS.index("measure"), f"{name} imports {dotted}: the public names are made of the rooms up to runtime"


def test_no_circle_of_imports():
    """Between single modules, imports inside functions included."""
    graph = {name: {module_of(dotted) for dotted in imported(path)} - {None, name} for name, path in BY_NAME.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        pytest.fail("a circle of imports: " + " <- ".join(circle.args[1]))


def part_of(name, house):
    """The room of `house`, or the module beside its rooms, that a module of it belongs to; None for others."""
    return name.split("/")[1].removesuffix(".py") if name and name.startswith(f"{house}/") else None


def inside(house, below, names):
    """Modules of the rooms of `house` import of it what is `below` their own room only."""
    for name in names:
        own = part_of(name, house)
        for dotted in imported(BY_NAME[name]) if own in below else ():
            target = part_of(module_of(dotted), house)
            assert target in {None, own, *below[own]}, f"{name} imports {dotted}, which stands above it"


@each(modules_of("emulator"))
def test_the_emulators_rooms_stand_on_one_another(names):
    inside("emulator", EMULATOR, names)


@each(modules_of("authoring"))
def test_authorings_rooms_stand_on_one_another(names):
    inside("authoring", {room: {"hashes", "course", *below} for room, below in AUTHORING.items()}, names)


@each(name for name in modules_of("lessons") if name.count("/") > 1)
def test_a_lesson_uses_no_later_one(names):
    """l16x may use l16 and l04, never l17; of what stands beside the rooms, all but what finds the rooms (the catalogue)."""
    for name in names:
        own = name.split("/")[1]
        for dotted in imported(BY_NAME[name]):
            target = module_of(dotted)
            if target and target.startswith("lessons/"):
                other = target.split("/")[1]
                finds = any((module_of(one) or "").startswith("lessons/l") for one in imported(BY_NAME[target])) or other == "catalogue.py"
                assert other <= own if target.count("/") > 1 else not finds, f"{name} imports {dotted}: a lesson uses earlier ones only"


@each(modules_of("hopper", "emulator"))
def test_formulas_and_emulator_need_neither_gpu_nor_notebook(names):
    for name in names:
        for dotted in imported(BY_NAME[name]):
            assert dotted.split(".")[0] not in GPU_AND_NOTEBOOK, f"{name} imports {dotted}"


def test_hopper_imports_nothing_of_ours_outside_itself():
    for name in modules_of("hopper"):
        assert {room(dotted) for dotted in imported(BY_NAME[name])} <= {None, "hopper"}


@each(sorted(BY_NAME))
def test_modules_and_functions_stay_small(names):
    for name in names:
        text = BY_NAME[name].read_text(encoding="utf-8")
        assert text.count("\n") <= MAX_MODULE_LINES, f"{name} has {text.count(chr(10))} lines: a name is missing"
        for node in nodes_of(BY_NAME[name]):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                assert lines <= MAX_FUNCTION_LINES, f"{name}: {node.name} has {lines} lines: a name is missing"


@each(sorted(BY_NAME))
def test_modules_open_with_what_lives_there(names):
    for name in names:
        tree = tree_of(BY_NAME[name])
        assert not tree.body or ast.get_docstring(tree), f"{name} opens without a docstring"


def public_definitions(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))


@each(modules_of("hopper"))
def test_public_formulas_are_typed_and_explained(names):
    for name in names:
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
