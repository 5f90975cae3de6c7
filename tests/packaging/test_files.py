"""Makefile, CI script and repository hygiene."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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
@pytest.mark.parametrize("target", ["lab", "test", "doctor", "install", "gpu-test", "gpu-outputs", "notebooks", "precompiled", "check-notebooks", "site", "bundle", "bench", "clean"])
def test_every_target_can_be_planned(target):
    subprocess.run([MAKE, "--dry-run", target], cwd=ROOT, capture_output=True, check=True)


@needs_make
def test_an_old_python_is_refused_by_name(tmp_path):
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; *) echo "Python 3.9.1";; esac\n')
    old.chmod(0o755)
    result = subprocess.run([MAKE, "-f", str(ROOT / "Makefile"), "-C", str(tmp_path), ".venv/stamps/venv", f"PYTHON={old}"],
                            capture_output=True, text=True)
    assert result.returncode and "needs Python 3.11 or newer" in result.stdout and "3.9.1" in result.stdout


def test_the_ci_script_runs_make_test_and_demands_the_browser():
    script = (ROOT / ".ci" / "run").read_text()
    assert script.rstrip().endswith("make site\nmake test") and "HOPPERLAB_REQUIRE_BROWSER=1" in script
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")]).returncode == 0


def test_there_are_browser_tests_to_demand():
    assert any("def test_" in path.read_text() for path in (ROOT / "tests" / "ui").glob("test_*.py"))


def test_a_skipped_browser_test_fails_where_it_is_demanded(tmp_path):
    import os
    import sys
    (tmp_path / "ui").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "ui" / "test_it.py").write_text("import pytest\ndef test_page():\n    pytest.skip('no Chromium')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    free = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOPPERLAB_REQUIRE_BROWSER": ""})
    strict = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOPPERLAB_REQUIRE_BROWSER": "1"})
    assert free.returncode == 0 and "1 skipped" in free.stdout
    assert strict.returncode == 1 and "browser tests must run here" in strict.stdout


def test_work_is_ignored():
    assert "work/" in (ROOT / ".gitignore").read_text().split()


def test_the_readme_links_to_what_exists_and_lists_every_lesson():
    text = (ROOT / "README.md").read_text()
    linked = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    assert [target for target in linked if not (ROOT / target).exists()] == []
    lessons = {path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert lessons == {target for target in linked if target.endswith(".ipynb")}, "write the table again: python -m hopperlab.notebooks readme"


def test_the_readmes_table_of_lessons_is_the_one_that_is_written():
    from hopperlab.notebooks import readme
    assert readme.table() in (ROOT / "README.md").read_text(encoding="utf-8"), "write it again: python -m hopperlab.notebooks readme"
