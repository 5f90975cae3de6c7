"""docs/: every hazard kind has its page, kernels on the pages show what they say, and snippets of emulator.md work."""
import ast
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in (DOCS / "hazards").glob("*.md") if path.stem != "README")
EMULATOR = ROOT / "hopperlab" / "emulator"
KIND = re.compile(r"[a-z]+(-[a-z]+)+|race|deadlock|misaligned")
pytestmark = [pytest.mark.emulator_only, pytest.mark.filterwarnings("ignore::hopperlab.runtime.errors.PtxasWarning")]


def emitted() -> set[str]:
    """Kinds that the emulator's code can give a hazard or a fault: literals in calls that report."""
    found = set()
    for path in EMULATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            words = [a.value for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if name in ("_add", "add") and len(words) and isinstance(node.args[0], ast.Name) and node.args[0].id == "M":
                found.add(words[0])
            elif name in ("fault", "MemoryFault", "Hazard"):
                found.update(word for word in words if KIND.fullmatch(word))
    return found


def kernels(path: Path) -> list[str]:
    return re.findall(r"```cuda\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def launch(source: str, schedule: str) -> list:
    how = re.search(r"// launch: (.*)", source)[1]
    names = {"hl": hl, "np": np, "x": np.arange(4096, dtype=np.float32), "y": np.zeros(4096, np.float32),
             "bf16": (np.arange(4096) % 5).astype(ml_dtypes.bfloat16).reshape(64, 64)}
    given = eval(f"dict({how})", names)                     # the page's own line
    kernel = hl.RawModule(code=source, backend="emulator").get_function("k")
    with hl.emulate(schedule=schedule, hazards="collect") as session:
        kernel((given["grid"],), (given["block"],), given["args"], shared_mem=given.get("shared_mem", 0))
    return session.hazards


def test_every_kind_that_the_code_can_report_has_a_page():
    kinds = emitted()
    assert {"race", "read-before-arrival", "out-of-bounds", "deadlock", "uninitialised-read"} <= kinds
    assert kinds == {path.stem for path in PAGES}


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_the_kernel_commits_it_and_its_twin_does_not(path):
    bad, clean = kernels(path)
    for schedule in ("lazy", "eager"):
        found = launch(bad, schedule)
        assert path.stem in {h.kind for h in found}, [str(h) for h in found]
        assert not launch(clean, schedule), [str(h) for h in launch(clean, schedule)]


def test_pages_have_their_parts_and_the_index_lists_them():
    index = (DOCS / "hazards" / "README.md").read_text(encoding="utf-8")
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.stem}\n") and f"[{path.stem}]({path.name})" in index
        for part in ("## On hardware", "## How to mend it", "## A kernel that commits it", "## Its clean twin"):
            assert part in text, (path.name, part)


def test_links_lead_somewhere():
    for path in (DOCS / "emulator.md", *DOCS.glob("hazards/*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_snippets_of_the_guide_run(capsys):
    """The python blocks of emulator.md, in order, in one namespace."""
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / "emulator.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, "docs/emulator.md", "exec"), names)
    assert "clean: " in capsys.readouterr().out
