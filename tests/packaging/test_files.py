# SPDX-License-Identifier: Apache-2.0
"""Makefile and repository hygiene."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hopperlab.authoring.docs import readme

ROOT = Path(__file__).resolve().parents[2]
MAKE = shutil.which("make")
needs_make = pytest.mark.skipif(MAKE is None, reason="make is not installed")


@needs_make
def test_help_lists_every_documented_target():
    shown = subprocess.run([MAKE, "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"help", "lab", "test", "doctor", "gpu-outputs", "clean"} <= set(targets)
    for target in targets:
        assert re.search(rf"^\s+{target}\s+\S", shown, re.MULTILINE), target


@needs_make
@pytest.mark.parametrize("target", ["lab", "test", "test-all", "lint", "doctor", "install", "gpu-test", "gpu-outputs", "notebooks",
                                    "check-notebooks", "site", "bundle", "bench", "clean"])
def test_every_target_can_be_planned(target):
    subprocess.run([MAKE, "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("recipe, most", [("An instruction", 3), ("A hazard", 4), ("A lesson", 4), ("An exercise", 3)])
def test_a_recipe_takes_few_files_and_names_only_what_there_is(recipe, most):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"### {recipe}\n")[1].split("\n### ")[0]
    assert 3 <= len(re.findall(r"^\d\. ", text, re.MULTILINE)) <= most
    named = [path for path in re.findall(r"`([\w./]+/[\w.]*)`", text) if not re.search(r"NN|KIND|FAMILY|SUBJECT", path)]
    assert len(named) >= 2 and not [path for path in named if not (ROOT / path).exists() and not (ROOT / "hopperlab" / path).exists()]


@needs_make
def test_an_old_python_is_refused_by_name(tmp_path):
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; *) echo "Python 3.9.1";; esac\n')
    old.chmod(0o755)
    result = subprocess.run([MAKE, "-f", str(ROOT / "Makefile"), "-C", str(tmp_path), ".venv/stamps/venv", f"PYTHON={old}"],
                            capture_output=True, text=True)
    assert result.returncode and "needs Python 3.11 or newer" in result.stdout and "3.9.1" in result.stdout


def test_work_is_ignored():
    assert "work/" in (ROOT / ".gitignore").read_text().split()


def test_the_readme_links_to_what_exists_and_lists_every_lesson():
    text = (ROOT / "README.md").read_text()
    linked = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    assert [target for target in linked if not (ROOT / target).exists()] == []
    lessons = {path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert lessons == {target for target in linked if target.endswith(".ipynb")}, "write the table again: python -m hopperlab.authoring readme"


@pytest.mark.parametrize("page, text", list(readme.pages(ROOT)), ids=lambda value: value if value.endswith(".md") else "")
def test_tables_of_lessons_and_hazards_are_those_that_are_written(page, text):
    assert text == (ROOT / page).read_text(encoding="utf-8"), "write it again: python -m hopperlab.authoring readme"


def test_the_list_of_kinds_in_another_language_follows_the_pages(tmp_path):
    shutil.copytree(ROOT / "docs" / "hazards", tmp_path / "docs" / "hazards")
    shutil.copytree(ROOT / "docs" / "zh" / "hazards", tmp_path / "docs" / "zh" / "hazards")
    own = tmp_path / "docs" / "zh" / "hazards"
    (own / "race.md").write_text((own / "race.md").read_text(encoding="utf-8").replace("# race：竞争", "# race：抢"), encoding="utf-8")
    (own / "deadlock.md").unlink()
    ((page, text),) = readme._lists_of_kinds(tmp_path)
    assert page == "docs/zh/hazards/README.md" and "[race](race.md)（抢）" in text and "[deadlock](../../hazards/deadlock.md)，" in text


def test_a_stale_table_is_written_anew_and_a_kind_without_a_page_is_named(tmp_path, monkeypatch):
    pages = tmp_path / "docs" / "hazards"
    shutil.copytree(ROOT / "docs" / "hazards", pages)
    monkeypatch.setattr(readme, "TABLES", {"docs/hazards/README.md": readme.TABLES["docs/hazards/README.md"]})
    index, right = pages / "README.md", (ROOT / "docs" / "hazards" / "README.md").read_text(encoding="utf-8")
    assert readme.write(tmp_path) == []
    index.write_text("".join(line for line in right.splitlines(keepends=True) if "race.md" not in line or not line.startswith("|")), encoding="utf-8")
    assert index.read_text(encoding="utf-8") != right
    assert readme.write(tmp_path) == ["docs/hazards/README.md"] and index.read_text(encoding="utf-8") == right
    index.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks the lines"):
        readme.write(tmp_path)
    (pages / "race.md").unlink()
    with pytest.raises(ValueError, match="race.md is missing"):
        readme.block("docs/hazards/README.md", tmp_path)
