# SPDX-License-Identifier: Apache-2.0
"""docs/: every hazard kind has its page, kernels on the pages show what they say, and snippets of emulator.md work."""
import ast
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.emulator.hazards.kinds import Kind
from support import hazard_cases

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in (DOCS / "hazards").glob("*.md") if path.stem != "README")
EMULATOR = ROOT / "hopperlab" / "emulator"
KIND = re.compile(r"[a-z]+(-[a-z]+)+|race|deadlock|misaligned")
pytestmark = [pytest.mark.emulator_only, pytest.mark.filterwarnings("ignore::hopperlab.runtime.errors.PtxasWarning")]


def kernels(path: Path) -> list[str]:
    return re.findall(r"```cuda\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def launch(source: str, schedule: str) -> list:
    how = re.search(r"// launch: (.*)", source)[1]
    names = {"hl": hl, "np": np, "x": np.arange(4096, dtype=np.float32), "y": np.zeros(4096, np.float32),
             "bf16": (np.arange(4096) % 5).astype(ml_dtypes.bfloat16).reshape(64, 64)}
    given = eval(f"dict({how})", names)                     # the page's own line
    kernel = hl.RawModule(code=source, backend="emulator").get_function("k")
    with hl.emulate(schedule=schedule, hazards="collect", levels={"unfenced-overwrite": "warning"}) as session:
        kernel((given["grid"],), (given["block"],), given["args"], shared_mem=given.get("shared_mem", 0))
    return [*session.hazards, *session.warnings]


def test_every_kind_has_a_page_and_kernels_that_commit_it():
    kinds = {str(kind) for kind in Kind}
    assert kinds == {path.stem for path in PAGES}
    assert kinds == {case.kind for case in hazard_cases.all_cases() if not case.clean}


def test_pages_and_the_index_say_of_a_kind_what_the_list_says():
    index = (DOCS / "hazards" / "README.md").read_text(encoding="utf-8")
    for kind in Kind:
        assert f"| [{kind}]({kind}.md) | {kind.says} |" in index
        assert f"**{kind.says}.**" in (DOCS / "hazards" / f"{kind}.md").read_text(encoding="utf-8")


def test_faults_are_of_a_kind_that_is_listed():
    """Machine and handlers name kinds of faults as text; each is one of the list."""
    found = set()
    for path in EMULATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("fault", "MemoryFault"):
                words = [n.value for a in node.args for n in ast.walk(a) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                found.update(word for word in words if KIND.fullmatch(word))
    assert {"out-of-bounds", "misaligned", "illegal-descriptor", "barrier-misuse"} <= found <= {str(kind) for kind in Kind}


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
