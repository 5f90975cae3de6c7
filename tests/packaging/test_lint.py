# SPDX-License-Identifier: Apache-2.0
"""What checks the code: ruff and mypy as `make lint` and the hooks run them, types for those who use the package, and how git treats built files."""
import ast
import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import hopperlab as hl

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hopperlab"
MOST_COLUMNS = 170
NOT_YET: set[str] = set()
"""Folders whose public functions are not all annotated."""


def names_of_the_stub() -> set[str]:
    names = set()
    for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
    return names


def test_type_checkers_see_the_public_names():
    assert names_of_the_stub() == set(hl.__all__) - {"__version__"} | set(hl._ROOMS) - {"kernels", "recordings"}
    assert (PACKAGE / "py.typed").is_file()


def test_hooks_need_no_download_and_run_what_make_lint_runs():
    hooks = [hook for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"] for hook in repo["hooks"] if repo["repo"] == "local"]
    commands = {hook["id"]: hook["entry"].split() for hook in hooks}
    assert set(commands) == {"ruff", "mypy", "outputs"} and all(words[:2] == [".venv/bin/python", "-m"] for words in commands.values())
    lint = [line.split("-m ")[1].split() for line in (ROOT / "Makefile").read_text().splitlines() if "-m ruff" in line or "-m mypy" in line]
    assert [words[:len(command)] for words, command in zip(lint, (["ruff", "check"], ["mypy"]), strict=True)] == [commands["ruff"][2:4], commands["mypy"][2:]]
    assert importlib.util.find_spec(commands["outputs"][2]) is not None


@pytest.mark.parametrize(("path", "wanted"), [
    ("notebooks/09_multistage.ipynb", {"text": "set", "eol": "lf", "linguist-generated": "set", "merge": "binary"}),
    ("hopperlab/recordings/h200/ladder.json", {"eol": "lf", "linguist-generated": "set"}),
    ("hopperlab/runtime/module.py", {"eol": "lf", "linguist-generated": "unspecified"})])
def test_git_keeps_line_ends_and_never_merges_built_files(path, wanted):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git, or no checkout")
    lines = subprocess.run(["git", "check-attr", *wanted, "--", path], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {line.split(": ")[1]: line.split(": ")[2] for line in lines} == wanted


def too_long(path: Path) -> list[str]:
    """Places of lines longer than MOST_COLUMNS. A line inside a text of several lines is that text's: PTX, a page's template, CUDA."""
    source = path.read_text(encoding="utf-8")
    rows = {row for row, line in enumerate(source.splitlines(), 1) if len(line) > MOST_COLUMNS}
    if rows:
        tree = ast.parse(source)
        words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}          # docstrings are prose that wraps
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) or isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))]
        rows -= {row for node in texts if id(node) not in words and '"""' in "".join(source.splitlines()[node.lineno - 1:node.end_lineno])
                 for row in range(node.lineno, node.end_lineno + 1) if node.end_lineno > node.lineno}
    return [f"{path.relative_to(ROOT)}:{row}" for row in sorted(rows)]


@pytest.mark.parametrize("folder", ["hopperlab", "tests", "benchmarks", "docs", "solutions", "notebooks"])
def test_lines_fit(folder):
    found = [place for path in sorted((ROOT / folder).rglob("*.py")) if not {"build", ".venv"} & set(path.parts) for place in too_long(path)]
    assert not found, f"longer than {MOST_COLUMNS} characters: {', '.join(found)}"


def test_a_long_line_is_found_unless_it_is_inside_a_text(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    long = "x " * MOST_COLUMNS
    (tmp_path / "a.py").write_text(f'y = 1  # {long}\nz = """\n{long}\n"""\ndef f():\n    """One.\n\n    {long}\n    """\n')
    assert too_long(tmp_path / "a.py") == ["a.py:1", "a.py:8"]


def public_functions(path: Path):
    """Functions of a module and methods of its classes whose names, and whose class's name, have no leading underscore. Kernels in Triton are
    left out: its compiler reads their annotations as its own (tl.constexpr)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for body in (tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))):
        yield from (node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
                    and "triton.jit" not in map(ast.unparse, node.decorator_list))


def unannotated(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))]
    return [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")] + (["its result"] if node.returns is None else [])


@pytest.mark.parametrize("room", sorted({path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}))
def test_public_functions_are_annotated(room):
    """A case a room: hundreds of cases would take longer to count than to try."""
    lacking = {(path.relative_to(PACKAGE).as_posix(), node.name): found for path in sorted((PACKAGE / room).rglob("*.py") if (PACKAGE / room).is_dir()
            else [PACKAGE / room])
               if not any(path.is_relative_to(PACKAGE / folder) for folder in NOT_YET) for node in public_functions(path) if (found := unannotated(node))}
    assert not lacking, f"no types for {lacking}"
