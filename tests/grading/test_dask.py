# SPDX-License-Identifier: Apache-2.0
"""The same grading on a Dask cluster: workers that are killed and a scheduler that starts anew cost nothing, and nothing is lost or counted twice."""
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from support.classroom import PHASES, RING, hand_in, lesson, mortal, right, slow, words
from support.dask_processes import Local, Processes
from support.faulty_workers import dies_or_kills
from support.patience import PATIENCE

from hopperlab.grading import grade_cluster, grade_pool, grader, reports
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


def _outcomes(count, how, address):
    """What `count` tasks came to, by number; those of `how` end processes."""
    tasks = [{"digest": str(number), "exercise": "04.1", "how": how.get(number, "")} for number in range(count)]
    outcomes = list(grade_cluster.run(tasks, address, dies_or_kills, first=60 * PATIENCE, say=lambda line: None))
    assert sorted(int(outcome["digest"]) for outcome in outcomes) == list(range(count)), "each outcome came once"
    return {int(outcome["digest"]): outcome["failed"] for outcome in outcomes if "failed" in outcome}


@pytest.mark.thorough
def test_answers_that_end_their_process_each_time_end_no_worker_and_take_no_other_with_them(cluster):
    workers = {worker.pid for worker in cluster.workers.values()}
    assert _outcomes(40, {3: "dies", 7: "dies"}, cluster.scheduler_address) == dict.fromkeys((3, 7), "the worker process ended 3 times while grading it")
    assert {worker.pid for worker in cluster.workers.values()} == workers, "the deaths were children's"


@pytest.mark.thorough
def test_one_that_kills_its_worker_each_time_is_found_alone_and_no_other_is_blamed(tmp_path):
    with Processes(tmp_path, 2) as cluster:
        failed = _outcomes(12, {7: "kills"}, cluster.address)
    assert list(failed) == [7] and "also when they graded nothing else" in failed[7]


class Once:
    """A future whose result goes with its worker twice before it can be had."""
    key = "hopperlab-grade-1"

    def __init__(self):
        self.states = ["finished", "lost", "pending", "finished", "finished"]

    @property
    def status(self):
        return self.states[0]

    def add_done_callback(self, call):
        call(self)

    def release(self):
        self.states = ["released"]

    def result(self, timeout):
        del self.states[0]
        if self.status == "lost":
            raise distributed.client.FutureCancelledError(self.key, "worker died")
        return {"digest": "1"}


def test_a_result_that_goes_with_its_worker_is_waited_for_over_the_same_connection():
    made = Once()

    class Seen:
        status = "running"

        def submit(self, *given, **how):
            return made

        def nthreads(self):                              # asked after each look in vain: meanwhile it is made again
            del made.states[0]
            return {"tcp://worker": 1}
    assert list(grade_cluster._round(Seen(), {made.key: {"digest": "1"}}, slow, 1, lambda line: None, [])) == [{"digest": "1"}]


CLASS = 200


def _class(folder):
    """200 answers, no two alike: most are right, some wrong, some half right, some empty, and four end the process that judges them."""
    for number in range(CLASS):
        word = "DIES" if number in (11, 52, 103, 154) else {0: "WRONG", 1: "HALF"}.get(number % 7, "")
        hand_in(folder / f"learner{number:03}", right() | {PHASES: "" if number % 20 == 19 else f"# {word} {number}", RING: ""})


def _asked(folder, name, **how):
    return Asked(folder / "class", lesson(), folder / name, unsafe=True, work=mortal, matches=lambda exercise, answer: False, **how)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [Processes, Local])
@pytest.mark.sampled(every=1, ci=2)
def test_two_hundred_under_kills_come_to_the_same_reports_as_without_a_cluster(tmp_path, capsys, kind):
    _class(tmp_path / "class")
    plain = _asked(tmp_path, "plain", workers=2)
    report, timing = grader.grade(plain)
    pages = reports.write_all(report, timing, plain.out)
    told = []
    with kind(tmp_path, 4) as cluster:
        kills = {20: lambda: cluster.kill_worker(0), 60: cluster.kill_scheduler, 120: lambda: cluster.kill_worker(1)}

        def tell(done, all):
            told.append(done)
            kills.pop(done, lambda: None)()
        asked = _asked(tmp_path, "cluster", dask=cluster.address)
        found, timing = grader.grade(asked, tell)
        reports.write_all(found, timing, asked.out)
    assert not kills and (kind is Local or "lost touch with" in capsys.readouterr().err)
    assert told == list(range(len(told))) and len(told) - 1 == CLASS - CLASS // 20
    assert len(list((asked.out / "results").rglob("*.json"))) == len(told) - 1 - 4, "what failed is not kept"
    for page in pages:
        if not page.name.startswith("timing."):
            assert page.read_bytes() == (asked.out / page.relative_to(plain.out)).read_bytes(), page.name


@pytest.mark.thorough
def test_a_cluster_without_workers_is_said_and_given_up_after_a_while(tmp_path):
    said = []
    with Processes(tmp_path, 0) as cluster, pytest.raises(grade_pool.PoolError, match="no worker for 3 s.*same command"):
        list(grade_cluster.run([{"digest": "1", "exercise": "04.1"}], cluster.address, slow, first=60 * PATIENCE, away=3, say=said.append))
    assert said == ["the Dask cluster has no worker now; waiting for one"]


def test_a_cluster_that_takes_no_work_is_given_up(monkeypatch):
    def cancelled(*given):
        raise grade_cluster._OutOfTouch
        yield
    tried = []
    monkeypatch.setattr(grade_cluster, "_connected", lambda address, seconds: tried.append(seconds) or SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(grade_cluster, "_outcomes", cancelled)
    with pytest.raises(grade_pool.PoolError, match="takes no work.*same version"):
        list(grade_cluster.run([{"digest": "1", "exercise": "04.1"}], "tcp://x", slow, first=1, away=2, say=lambda line: None))
    assert tried == [1, 2, 2, 2]


def test_no_scheduler_is_said():
    with pytest.raises(grade_pool.PoolError, match="no Dask scheduler"):
        list(grade_cluster.run([{"digest": "1", "exercise": "04.1"}], "tcp://127.0.0.1:9", slow, first=2.0))
