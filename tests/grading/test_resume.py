# SPDX-License-Identifier: Apache-2.0
"""A grading run that is killed half-way goes on where it was: nothing is lost, nothing is graded twice."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.classroom import PHASES, RING, ROOT, hand_in, lesson, right, slow, words
from support.faulty_workers import dies, dies_once, raises
from support.patience import PATIENCE

from hopperlab.grading import grade_child, grade_pool, grader, reports, results, sandbox
from hopperlab.grading.grader import Asked

LEARNERS = 8
SCRIPT = """
import sys
from pathlib import Path
from support.classroom import lesson, slow
from hopperlab.grading import grader
from hopperlab.grading.grader import Asked

if __name__ == "__main__":
    where = Path(sys.argv[1])
    grader.grade(Asked(where / "class", lesson(), where / "out", workers=2, unsafe=True, work=slow, matches=lambda exercise, answer: False))
"""


def classroom(folder: Path) -> Path:
    log = folder / "log"
    for number in range(LEARNERS):
        hand_in(folder / "class" / f"learner{number}", right() | {PHASES: f"# log {log}\n# {number}", RING: ""})
    return log


def graded(folder: Path):
    return grader.grade(Asked(folder / "class", lesson(), folder / "out", workers=2, unsafe=True, work=slow, matches=lambda exercise, answer: False))


@pytest.mark.thorough
def test_killed_half_way_it_goes_on_and_loses_nothing(tmp_path):
    log = classroom(tmp_path)
    (tmp_path / "run.py").write_text(SCRIPT)
    stored = tmp_path / "out" / "results" / "04.1"
    run = subprocess.Popen([sys.executable, str(tmp_path / "run.py"), str(tmp_path)], cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"})
    until = time.monotonic() + 120 * PATIENCE
    while len(list(stored.glob("*.json"))) < 3 and time.monotonic() < until and run.poll() is None:
        time.sleep(0.02)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    kept = {path.name: path.read_bytes() for path in stored.glob("*.json")}
    assert 3 <= len(kept) < LEARNERS, "it must have been killed half-way"
    time.sleep(1.5 * PATIENCE)                                                # workers end with the process that started them
    begun = words(log, "begin")
    time.sleep(0.7 * PATIENCE)
    assert words(log, "begin") == begun, "a worker goes on without its grader"
    for part in stored.glob(".*"):
        assert not part.name.endswith(".json"), "a half-written file must not look like a result"
    report, _ = graded(tmp_path)
    assert len(report.rows) == LEARNERS and all(row.exercises[0].status == "right" for row in report.rows)
    assert {name: (stored / name).read_bytes() for name in kept} == kept, "what was finished is as it was"
    ended = words(log, "end")
    assert all(ended[Path(name).stem] == 1 for name in kept), "what was stored is not graded twice"
    assert len(list(stored.glob("*.json"))) == LEARNERS
    texts = reports.grades(report), reports.junit(report)
    (tmp_path / "whole").mkdir()
    assert texts == (lambda r: (reports.grades(r), reports.junit(r)))(graded(tmp_path)[0])


def test_half_a_result_counts_for_none(tmp_path):
    kept = results.Results(tmp_path)
    outcome = {"exercise": "04.1", "digest": "d", "seconds": {}}
    kept.put(outcome)
    assert kept.get("04.1", "d") == outcome
    path = kept.path("04.1", "d")
    path.write_bytes(path.read_bytes()[:20])
    assert kept.get("04.1", "d") is None
    kept.put(grade_child.failed({"exercise": "04.1", "digest": "e"}, "no memory"))
    assert kept.get("04.1", "e") is None


@pytest.mark.parametrize("work, says", [(dies_once, None), (dies, "ended 3 times"), (raises, "OSError: no space left")])
def test_a_worker_that_dies_is_replaced_and_a_task_that_cannot_be_done_says_so(tmp_path, work, says):
    tasks = [{"exercise": "04.1", "digest": str(i), "mark": str(tmp_path / str(i))} for i in range(2)]
    found = {outcome["digest"]: outcome for outcome in grade_pool.run_local(tasks, 2, work)}
    assert sorted(found) == ["0", "1"]
    for outcome in found.values():
        assert ("failed" not in outcome) if says is None else says in outcome["failed"]


@pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
@pytest.mark.thorough
def test_a_sandbox_that_nobody_watches_ends_by_itself():
    line = sandbox.command([sys.executable, "-c", "import time; time.sleep(600)"], limits=sandbox.Limits(seconds=1))
    done = subprocess.run(line, stdin=subprocess.DEVNULL, timeout=60 * PATIENCE)
    assert done.returncode != 0
