# SPDX-License-Identifier: Apache-2.0
"""The same grading on a Dask cluster: a worker killed midway costs nothing, and nothing is graded twice."""
import os
import signal
import threading
import time

import pytest
from support.classroom import PHASES, RING, hand_in, lesson, right, slow, words
from support.patience import PATIENCE

from hopperlab.grading import grade_pool, grader
from hopperlab.grading.grader import Asked

distributed = pytest.importorskip("distributed", reason="the extra [grading] is not installed")
LEARNERS = 8


@pytest.fixture
def cluster(tmp_path):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path / "dask")) as made:
        yield made


@pytest.mark.thorough
def test_a_worker_killed_midway_loses_nothing_and_nothing_is_graded_twice(tmp_path, cluster):
    log = tmp_path / "log"
    for number in range(LEARNERS):
        hand_in(tmp_path / "class" / f"learner{number}", right() | {PHASES: f"# log {log}\n# {number}", RING: ""})
    pids = [worker.pid for worker in cluster.workers.values()]
    killer = threading.Thread(target=_kill_after_two, args=(log, pids[0]), daemon=True)
    killer.start()
    asked = Asked(tmp_path / "class", lesson(), tmp_path / "out", unsafe=True, dask=cluster.scheduler_address, work=slow, matches=lambda exercise, answer: False)
    told = []
    report, _ = grader.grade(asked, lambda done, all: told.append((done, all)))
    killer.join(timeout=5 * PATIENCE)
    assert not killer.is_alive(), "a worker must have been killed while it graded"
    assert [row.exercises[0].status for row in report.rows] == ["right"] * LEARNERS
    assert told[-1] == (LEARNERS, LEARNERS) and len(told) == LEARNERS + 1, "each outcome came once"
    assert len(list((tmp_path / "out" / "results").rglob("*.json"))) == LEARNERS
    ended = words(log, "end")
    grader.grade(asked)
    assert words(log, "end") == ended, "a second run grades nothing again"


def _kill_after_two(log, pid):
    until = time.monotonic() + 60 * PATIENCE
    while len(words(log, "end")) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)


def test_no_scheduler_is_said():
    with pytest.raises(grade_pool.PoolError, match="no Dask scheduler"):
        list(grade_pool.run_dask([{"digest": "1", "exercise": "04.1"}], "tcp://127.0.0.1:9", slow, patience="2s"))
