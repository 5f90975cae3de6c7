# SPDX-License-Identifier: Apache-2.0
"""The leaderboard: order, ratios, what is not ranked, and the worker's limits, with times that are handed in."""
import json
import sys

import pytest
from support.patience import PATIENCE

from hopperlab.grading import rank
from hopperlab.grading.rank import ANSWER, Job, NotTimed, RankError, Row

SMALL, LARGE = (1024, 1024, 1024), (2048, 2048, 2048)
CELL = "%%cuda beat\n// of {}\n"


def times(mine, theirs, other=None):
    return {ANSWER: mine, "cublasGemmEx TN": theirs, "cublasGemmEx NN": other or [2 * ms for ms in theirs]}


def timer_of(by_learner):
    """A timer that knows a learner by the comment in its cell, and keeps the jobs it was given."""
    def timer(job):
        timer.jobs.append(job)
        found = by_learner[job.text.split("of ")[1].strip()]
        if isinstance(found, Exception):
            raise found
        return found
    timer.jobs = []
    return timer


def ranked(by_learner, **options):
    timer = timer_of(by_learner)
    rows = rank.rank({learner: CELL.format(learner) for learner in by_learner}, [SMALL], timer=timer, **options)
    return rows, timer.jobs


def test_faster_is_first_and_who_has_no_time_is_last():
    rows, _ = ranked({"ann": {SMALL: times([2.0], [1.0])}, "bob": NotTimed("it hangs"), "cid": {SMALL: times([1.0], [1.0])}, "dot": {SMALL: times([1.0], [1.0])}})
    assert [(found.learner, found.ratio, found.problem) for found in rows] == [("cid", 1.0, ""), ("dot", 1.0, ""), ("ann", 0.5, ""), ("bob", 0.0, "it hangs")]


def test_ratios_are_taken_round_by_round_and_the_median_counts():
    found = rank.row("ann", {SMALL: times([1.0, 2.0, 4.0], [1.5, 2.0, 3.0])})
    assert (found.ratio, found.ratio_min, found.ratio_max) == (1.0, 0.75, 1.5)
    assert found.tflops == pytest.approx(2 * 1024 ** 3 / 2.0e-3 / 1e12)


def test_shapes_count_alike_whatever_their_size():
    """The geometric mean over the shapes, in each round: twice as fast at one and half as fast at the other is a draw."""
    found = rank.row("ann", {SMALL: times([1.0, 1.0], [2.0, 4.0]), LARGE: times([20.0, 20.0], [10.0, 10.0])})
    assert found.ratio_min == pytest.approx(1.0) and found.ratio_max == pytest.approx(2 ** 0.5)
    assert found.tflops == pytest.approx((2 * 1024 ** 3 + 2 * 2048 ** 3) / 21e-3 / 1e12)


def test_the_peer_is_the_faster_entry_of_cublas_at_each_shape():
    found = rank.row("ann", {SMALL: times([1.0, 1.0], [2.0, 2.0], [1.0, 1.0]), LARGE: times([1.0, 1.0], [1.0, 1.0], [3.0, 0.5])})
    assert (found.ratio_min, found.ratio_max) == (1.0, 1.0)


@pytest.mark.parametrize("broken", [{}, {SMALL: {}}, {SMALL: times([], [])}, {SMALL: {ANSWER: [1.0]}}, {SMALL: times([1.0], [1.0, 2.0])},
                                    {SMALL: times([0.0], [1.0])}, {SMALL: times([float("nan")], [1.0])}, {SMALL: times([1.0], [-1.0])},
                                    {SMALL: times([1.0], [1.0]), LARGE: times([1.0, 1.0], [1.0, 1.0])}])
def test_times_that_are_none_are_not_ranked(broken):
    rows, _ = ranked({"ann": broken})
    assert rows[0].problem and rows[0].ratio == 0.0


def test_an_answer_of_another_form_never_reaches_the_gpu():
    timer = timer_of({})
    cells = {"ann": "%%cuda other\n", "bob": '%%cuda beat\n#include "/etc/passwd"\n', "cid": "%%cuda beat -lineinfo\n"}
    rows = rank.rank(cells, [SMALL], timer=timer)
    assert not timer.jobs and all(found.problem for found in rows)
    assert "only the course's own headers" in next(found.problem for found in rows if found.learner == "bob")


def test_the_job_holds_what_the_edition_asks_for():
    _, (job,) = ranked({"ann": {SMALL: times([1.0], [1.0])}}, constants={"ALPHA": 3}, rounds=5, key="autumn", seconds=7.0)
    assert (job.shapes, job.rounds, job.constants, job.key, job.seconds) == ((SMALL,), 5, {"ALPHA": 3}, "autumn", 7.0)
    assert "%%cuda" not in job.text


@pytest.mark.parametrize("shapes, rounds", [([], 3), ([SMALL], 0), ([(1, 1, 7)], 3), ([(0, 8, 8)], 3), ([(8, 8)], 3)])
def test_shapes_and_rounds_that_cannot_be(shapes, rounds):
    with pytest.raises(ValueError):
        rank.rank({}, shapes, rounds=rounds, timer=timer_of({}))


def test_without_a_gpu_the_error_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(rank.backend, "find_gpu", lambda: None)
    with pytest.raises(RankError, match="the leaderboard times kernels on a Hopper GPU: .*GPU"):
        rank.rank({"ann": CELL})


def test_a_gpu_that_a_queue_lends_out_is_no_place_for_a_race(monkeypatch):
    monkeypatch.setattr(rank.backend, "backend", lambda choice: choice)
    monkeypatch.setenv("HOPPERLAB_QUEUE", "/run/queue.sock")
    with pytest.raises(RankError, match="HOPPERLAB_QUEUE"):
        rank.rank({"ann": CELL})


def test_progress_names_every_learner_in_order():
    told = []
    ranked({"bob": NotTimed("x"), "ann": NotTimed("x")}, progress=told.append)
    assert told == ["1 of 2: ann", "2 of 2: bob"]


def test_the_table_is_printed_once_at_the_end(capsys):
    rows, _ = ranked({"bob": NotTimed("x"), "ann": {SMALL: times([1.0], [1.0])}})
    assert capsys.readouterr().out == rank.table(rows, [SMALL]) + "\n"
    shown = []
    ranked({"ann": NotTimed("x")}, show=shown.append)
    assert len(shown) == 1 and not capsys.readouterr().out


def test_the_table_gives_places_spreads_and_reasons():
    text = rank.table([Row("ann", 1.02, 0.99, 1.04, 771.4), Row("bob-the-builder", problem="it\nhangs")], [SMALL])
    first, second = text.splitlines()[-2:]
    assert first.split() == ["1.", "ann", "1.020", "(0.990", "to", "1.040)", "771"]
    assert second.split(maxsplit=1) == ["bob-the-builder", "not ranked: it hangs"]
    assert "1024 x 1024 x 1024" in text


# --- the worker process, played by a few lines of Python ------------------------------------------------------------------
def job(seconds=20.0 * PATIENCE):
    return Job("// text", (SMALL,), 2, {"ALPHA": 2}, "key", seconds)


def worker(code):
    return [sys.executable, "-c", "import json, os, sys, time\n" + code]


def test_the_request_reaches_the_worker_and_its_times_come_back():
    echo = ("asked = json.load(sys.stdin); json.dump({'times': [[shape, {'answer': [asked['rounds'], asked['constants']['ALPHA']], 'x': [1, 1]}] for shape in "
            "asked['shapes']]}, sys.stdout)")
    assert rank.in_worker(job(), worker(echo)) == {SMALL: {"answer": [2, 2], "x": [1, 1]}}


@pytest.mark.parametrize("code, says", [("time.sleep(60)", "did not finish within 0.5 s"), ("os._exit(3)", "exit code 3"), ("os.abort()", "ended without an answer"),
                                        ("print('1.234 of cuBLAS')", "ended without an answer"), ("print(json.dumps({'error': 'NotRight: 3 % wrong'}))", "3 % wrong")])
def test_a_worker_that_hangs_dies_or_refuses_costs_its_answer_alone(code, says):
    with pytest.raises(NotTimed, match=says):
        rank.in_worker(job(0.5 if "sleep" in code else 20.0 * PATIENCE), worker(code))


def test_the_worker_answers_as_data_what_goes_wrong_in_it():
    """Without a GPU the real worker says so; with one it says that the text is no answer."""
    with pytest.raises(NotTimed, match=r"^\w+(Error|Exception): "):
        rank.in_worker(Job("this is no CUDA", (SMALL,), 1, {"ALPHA": 2}, "key", 120.0 * PATIENCE))


def test_a_job_is_plain_data():
    assert json.loads(json.dumps({"shapes": job().shapes})) == {"shapes": [list(SMALL)]}
