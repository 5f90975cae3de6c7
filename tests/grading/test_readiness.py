# SPDX-License-Identifier: Apache-2.0
"""A machine that cannot run what grading needs is said to be the fault, before anything is graded."""
import pytest

from hopperlab.grading import grader, readiness, sandbox

needs_sandbox = pytest.mark.skipif(sandbox.kind() is None, reason="nothing isolates here")


@pytest.fixture(autouse=True)
def _anew():
    readiness.check.cache_clear()
    yield
    readiness.check.cache_clear()


@pytest.mark.parametrize("unsafe", [pytest.param(False, marks=needs_sandbox), True])
@pytest.mark.sampled(every=2)
def test_this_machine_is_ready(unsafe):
    readiness.check(unsafe)


@pytest.mark.parametrize(("place", "words"), [("INSIDE", "in the sandbox"), ("OUTSIDE", "beside it")])
def test_a_missing_package_is_named_with_its_place(monkeypatch, place, words):
    monkeypatch.setattr(readiness, place, "import no_such_package")
    with pytest.raises(readiness.NotReadyError, match=f"{words}: ModuleNotFoundError: No module named 'no_such_package'.*PYTHONPATH"):
        readiness.check(True)


def test_grading_refuses_then(monkeypatch, tmp_path):
    monkeypatch.setattr(readiness, "INSIDE", "raise SystemExit(3)")
    with pytest.raises(grader.Refused, match="it ended with 3"):
        grader.grade(grader.Asked(tmp_path, edition=None, out=tmp_path / "report", unsafe=True))
