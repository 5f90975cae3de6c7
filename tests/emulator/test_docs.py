# SPDX-License-Identifier: Apache-2.0
"""docs/: every hazard kind has its page (whose kernels hazards/test_hazards.py runs), and snippets of emulator.md work."""
import ast
import re
from pathlib import Path

import pytest

from hopperlab.emulator.hazards.kinds import Kind
from support import hazard_cases

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in (DOCS / "hazards").glob("*.md") if path.stem != "README")
EMULATOR = ROOT / "hopperlab" / "emulator"
KIND = re.compile(r"[a-z]+(-[a-z]+)+|race|deadlock|misaligned")
pytestmark = pytest.mark.emulator_only


def test_every_kind_has_a_page_that_explains_it_in_its_first_sentence():
    assert {str(kind) for kind in Kind} == {path.stem for path in PAGES}
    index = (DOCS / "hazards" / "README.md").read_text(encoding="utf-8")
    for path in PAGES:
        said = path.read_text(encoding="utf-8").splitlines()[2]
        assert re.fullmatch(r"\*\*[^*]+\.\*\*", said) and f"| [{path.stem}]({path.name}) | {said[2:-3]} |" in index


def test_faults_are_of_a_kind_that_is_listed():
    """Machine and handlers name kinds of faults as text; each is one of the list."""
    found = set()
    for path in EMULATOR.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("fault", "MemoryFault"):
                words = [n.value for a in node.args for n in ast.walk(a) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                found.update(word for word in words if KIND.fullmatch(word))
    assert {"out-of-bounds", "misaligned", "illegal-descriptor", "barrier-misuse"} <= found <= {str(kind) for kind in Kind}


def test_pages_have_their_parts_and_the_index_lists_them():
    index = (DOCS / "hazards" / "README.md").read_text(encoding="utf-8")
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {path.stem}\n") and f"[{path.stem}]({path.name})" in index
        for part in ("## On hardware", "## How to mend it", *hazard_cases.PARTS):
            assert part in text, (path.name, part)


def test_links_lead_somewhere():
    for path in (DOCS / "emulator.md", *DOCS.glob("hazards/*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.thorough
def test_snippets_of_the_guide_run(capsys):
    """The python blocks of emulator.md, in order, in one namespace."""
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / "emulator.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, "docs/emulator.md", "exec"), names)
    assert "clean: " in capsys.readouterr().out
