# SPDX-License-Identifier: Apache-2.0
"""How the suite itself is run: what `make test` leaves out, that it still visits the whole course, and what CI demands."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import hopperlab as hl
import numpy as np
import pytest
from support import once, ptx_alone, sampling, timing, visits
from support.kept_launches import kept_launches

from hopperlab.runtime.compile import assemble, nvrtc, toolchain


ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
nvidias = pytest.mark.skipif(not toolchain.has_nvrtc() or assemble.ptxas() is None, reason="NVRTC and ptxas are not installed")
STEPS, SHAPES = ("a", "b", "c", "d"), ("x", "y", "z")
CASES = [{"step": step, "shape": shape, "choice": SimpleNamespace(name=step)} for step in STEPS for shape in SHAPES]


def target(name):
    """The commands of a target of the Makefile, as make would run them."""
    return subprocess.run(["make", "--dry-run", name], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_test_leaves_out_what_is_thorough_and_test_all_nothing():
    quick, whole = (next(line for line in target(name).splitlines() if "-m pytest" in line) for name in ("test", "test-all"))
    assert '-m "not thorough"' in quick and "thorough" not in whole
    assert "--visits" in quick and "--visits" in whole
    assert "--every-case" in next(line for line in target("test-every").splitlines() if "-m pytest" in line)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_what_make_starts_keeps_bytecode():
    done = subprocess.run(["make", "--silent", "--eval", "shown:; @echo [$$PYTHONDONTWRITEBYTECODE]", "shown"], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_ci_runs_everything_and_demands_browser_and_sandbox():
    script = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^make (lint|site|test-all)\b", script, re.MULTILINE) == ["lint", "site", "test-all"] and script.rstrip().endswith("make test-all")
    assert "HOPPERLAB_REQUIRE_BROWSER=1" in script and "HOPPERLAB_REQUIRE_SANDBOX=1" in script
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")]).returncode == 0


def test_one_case_stays_for_each_value_and_the_other_parameters_vary():
    stay = [CASES[number] for number in sorted(sampling.kept(CASES, by="step"))]
    assert [case["step"] for case in stay] == list(STEPS) and [case["shape"] for case in stay] == ["x", "y", "z", "x"]
    assert sampling.kept(CASES, by="choice.name") == sampling.kept(CASES, by="step")
    assert sampling.kept(CASES, by=("step", "shape")) == set(range(len(CASES)))


@pytest.mark.parametrize("name", sampling.ORDERS)
def test_of_cases_that_differ_in_the_schedule_one_stays_by_turns(name):
    cases = [{"shape": shape, name: schedule, "seed": 0} for shape in SHAPES for schedule in ("lazy", "eager")]
    assert [sorted(sampling.schedule_each(cases, first)) for first in (0, 1)] == [[0, 3, 4], [1, 2, 5]]


class Case:
    """Stands for a test that pytest collected."""

    def __init__(self, name, number, path="runtime/test_a.py", sampled=None, thorough=False, **params):
        self.nodeid, self.path, self.marks = f"{path}::{name}[{number}]", TESTS / path, []
        self.callspec, self.own = SimpleNamespace(params=params), {"sampled": sampled and SimpleNamespace(kwargs=sampled), "thorough": thorough}

    def get_closest_marker(self, name):
        return self.own[name]

    def add_marker(self, mark):
        self.marks.append(mark.name)


@pytest.fixture
def first_turn(monkeypatch):
    monkeypatch.setattr(sampling, "turn_of", lambda name: 0)


def numbers(cases, **how):
    """(those that stay for make test, those that make test-all runs), by number."""
    made = [Case("test", number, **how, **case) for number, case in enumerate(cases)]
    left_out = sampling.mark_thorough(made)
    return [n for n, item in enumerate(made) if not item.marks], [n for n, item in enumerate(made) if item not in left_out]


def test_of_the_schedules_of_a_case_one_stays_and_two_run(first_turn):
    cases = [{"shape": shape, "schedule": schedule} for shape in SHAPES[:2] for schedule in ("lazy", "eager", "random")]
    assert numbers(cases) == ([0, 4], [0, 1, 4, 5]) and numbers([*cases, {"shape": "z", "schedule": "lazy"}]) == ([0, 4, 6], [0, 1, 4, 5, 6])
    assert numbers(cases, sampled={"every": 6}) == ([0], [0, 1, 4, 5]) and numbers(cases, sampled={"every": 6, "ci": 2}) == ([0], [0, 4])


def test_in_rooms_of_many_cases_every_sixteenth_stays_and_all_run(first_turn):
    cases = [{"n": n} for n in range(19)]
    assert numbers(cases, path="emulator/test_a.py") == ([0, 16], [*range(19)]) and numbers(cases) == ([*range(19)], [*range(19)])
    assert numbers(cases, path="emulator/test_a.py", sampled={"every": 1})[0] == [*range(19)] and numbers(cases[:3], path="kernels/test_a.py")[0] == [0]


def test_of_other_cases_of_kernels_every_fourth_runs(first_turn):
    cases = [{"n": n} for n in range(18)]
    assert numbers(cases, path="kernels/test_a.py") == ([0, 16], [0, 4, 8, 12, 16])
    assert numbers(cases, path="kernels/test_a.py", sampled={"every": 3, "thin": False}) == ([*range(0, 18, 3)], [*range(18)])
    assert numbers(cases, path="kernels/test_a.py", sampled={"every": 18, "ci": 6})[1] == [0, 6, 12]
    assert numbers(cases, path="kernels/test_a.py", sampled={"ci": 1}) == ([0, 16], [*range(18)]), "where they differ in what is broken"


def test_what_stays_runs_in_ci_whatever_one_in_how_many_does(first_turn):
    assert numbers([{"n": n} for n in range(9)], sampled={"every": 4}) == ([0, 4, 8], [*range(9)])
    assert numbers([{"n": n} for n in range(9)], sampled={"every": 4, "ci": 3}) == ([0, 4, 8], [0, 3, 4, 6, 8])


@pytest.mark.parametrize("turn", range(4))
def test_of_cases_that_are_all_thorough_some_run(turn, monkeypatch):
    monkeypatch.setattr(sampling, "turn_of", lambda name: turn)
    cases = [{"n": n, "thorough": True} for n in range(4)]
    assert numbers(cases) == ([], [*range(4)]) and numbers(cases, sampled={"ci": 2}) == ([], [turn % 2, turn % 2 + 2])
    assert numbers(cases, path="kernels/test_a.py") == ([], [turn])
    assert numbers(cases[:1], path="kernels/test_a.py") == ([], [0])


def test_which_cases_stay_does_not_depend_on_other_tests():
    ours = [Case("ours", n, path="emulator/test_a.py", n=n) for n in range(20)]
    sampling.mark_thorough(ours)
    alone = [bool(case.marks) for case in ours]
    ours = [Case("ours", n, path="emulator/test_a.py", n=n) for n in range(20)]
    sampling.mark_thorough([*(Case("theirs", n, path="emulator/test_0.py", n=n) for n in range(3)), *ours])
    assert [bool(case.marks) for case in ours] == alone and alone.count(False) in (1, 2)


def test_one_in_so_many_stays():
    assert sampling.kept(CASES, every=5) == {0, 5, 10}


@pytest.mark.parametrize("how", [{}, {"every": 2, "by": "step"}])
def test_a_sample_is_asked_for_in_one_way(how):
    with pytest.raises(ValueError, match="either every"):
        sampling.kept(CASES, **how)


def report(nodeid, *seen, outcome="passed", when="call"):
    return SimpleNamespace(nodeid=nodeid, when=when, passed=outcome == "passed", duration=1.5, user_properties=[("visits", [list(pair) for pair in seen])])


def test_only_what_a_passing_test_visited_counts():
    seen = [report("tests/kernels/test_a.py::test", ("kernel", "gemm/naive.cu")), report("tests/hopper/test_b.py::test", ("exercise", "04.1"), outcome="failed"),
            report("tests/test_c.py::test")]
    assert visits.made_by(seen) == {("kernel", "gemm/naive.cu"), ("test folder", "kernels")}


def test_what_was_not_visited_is_named():
    there = visits.everything()
    whole = [report(f"tests/{name}/test_a.py::test") for name in there["test folder"]]
    whole.append(report("tests/x/test_b.py::test", *((kind, name) for kind, names in there.items() for name in names)))
    assert visits.missing(whole) == {} and "NOT VISITED" not in "".join(visits.told(whole))
    whole[-1].user_properties[0][1].remove(["kernel", "gemm/final.cu"])
    assert visits.missing(whole) == {"kernel": ["gemm/final.cu"]}
    assert list(visits.told(whole))[1:] == ["NOT VISITED by any test that passed, kernel: gemm/final.cu"]


def test_there_is_as_much_to_visit_as_the_course_has():
    there = visits.everything()
    assert len(there["kernel"]) > 70 and len(there["compared cell"]) > 150 and len(there["exercise"]) >= 32
    assert {"hopper", "emulator", "runtime", "measure", "grading"} <= there["test folder"] and "gpu" not in there["test folder"]


def test_what_workers_share_is_made_once_and_a_failure_is_told_to_all(monkeypatch, tmp_path):
    places = SimpleNamespace(getbasetemp=lambda: tmp_path / f"gw{len(made)}")
    made = []
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    folders = {once.once(places, "kept", made.append) for _ in range(3)}
    assert folders == {tmp_path / "kept"} == set(made) and len(made) == 1
    with pytest.raises(ZeroDivisionError):
        once.once(places, "broken", lambda folder: 1 / 0)
    with pytest.raises(RuntimeError, match="another test could not make it: ZeroDivisionError"):
        once.once(places, "broken", made.append)


ADDS = """__device__ int calls;
extern "C" __global__ void add(const float* x, float* y, float by) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    SYNC
    y[threadIdx.x] += s[31 - threadIdx.x] + by;
    if (threadIdx.x == 0) calls++;
}"""


def added(module, values, by=1.0, schedule="lazy", hazards="collect", launches=1):
    """(y, what the session showed) of launches of ADDS on y = 0, in one session."""
    x, y = np.array(values, np.float32), np.zeros(32, np.float32)
    with hl.emulate(schedule=schedule, hazards=hazards) as session:
        for _ in range(launches):
            module.get_function("add")((1,), (32,), (x, y, np.float32(by)))
    return y.tolist(), [str(hazard) for hazard in session.hazards], dict(session.counters), len(session.timeline), session.launches


@pytest.mark.emulator_only
def test_a_launch_that_is_the_same_runs_once_and_leaves_the_same():
    clean, broken = (ADDS.replace("SYNC", sync) for sync in ("__syncwarp();", ""))
    every = ((clean, {}), (clean, {"by": 2.0}), (clean, {"values": range(1, 33)}), (clean, {"schedule": "eager"}), (broken, {}), (clean, {"launches": 3}))

    def shown():
        return [added(hl.RawModule(code=code, backend="emulator"), **{"values": range(32), **how}) for code, how in every]
    alone, store = shown(), {}
    with kept_launches(store) as found:
        assert shown() == alone and len(found) == 1 and len(store) == 7, "the first of three launches in a session is like the one that is alone"
        assert shown() == alone and len(found) == 9
        for _ in range(2):
            with pytest.raises(hl.HazardError):
                added(hl.RawModule(code=broken, backend="emulator"), range(32), hazards="raise")
    assert alone[4][1] and not alone[0][1]


@nvidias
def test_of_the_course_s_own_kernels_ptx_alone_is_made_and_ptxas_says_the_rest_when_asked(monkeypatch):
    """The same PTX, the same registers at entry, and those of a kernel without setmaxnreg from ptxas when somebody asks."""
    monkeypatch.delenv("HOPPERLAB_COMPILER", raising=False)
    names = "copy/bulk_copy.cu", "gemm/pingpong.cu"
    whole = {name: nvrtc.compile_source(nvrtc.Source(hl.kernel_source(name), name)) for name in names}
    monkeypatch.setattr(ptx_alone, "_which", "own")
    with ptx_alone.taken():
        own = {name: hl.RawModule(code=hl.kernel_source(name), name=name, backend="emulator") for name in names}
        edited = hl.RawModule(code=hl.kernel_source(names[0]) + "// edited\n", name=names[0], backend="emulator")
    for name, (kernel,) in ((name, module.kernel_names) for name, module in own.items()):
        assert own[name].ptx == whole[name].ptx and not own[name]._compiled.cubin and whole[name].cubin
        assert own[name].ptxas_info.kernels[kernel].registers == whole[name].info.kernels[kernel].registers > 0 and own[name].cubin
    assert own[names[1]].get_function("gemm").num_regs == whole[names[1]].info.kernels["gemm"].registers and edited._compiled.cubin


@nvidias
def test_what_a_test_of_the_emulator_compiles_is_ptx_alone_too(monkeypatch):
    monkeypatch.delenv("HOPPERLAB_COMPILER", raising=False)
    text = 'extern "C" __global__ void one(int* x) { *x = 1; }'
    with ptx_alone.taken():
        monkeypatch.setattr(ptx_alone, "_which", ptx_alone._which)
        made = []
        for path, marked in ((TESTS / "runtime" / "test_a.py", False), (TESTS / "emulator" / "hazards" / "test_a.py", False), (TESTS / "emulator" / "test_a.py", True)):
            ptx_alone.begin(path, marked)
            made.append(hl.RawModule(code=text, backend="emulator")._compiled)
    assert made[0].ptx == made[1].ptx and [one.assembled for one in made] == [True, False, True]


def test_the_time_is_told_by_file():
    assert timing.told([report("tests/a.py::one"), report("tests/a.py::two"),
                        report("tests/b.py::one")]) == "tests took 4 s in all, of which tests/a.py 3 s, tests/b.py 2 s"


def run(folder, *arguments, **variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{ROOT}:{TESTS}",
                                                                                  "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables})


@pytest.fixture
def suite(tmp_path):
    """A folder of tests with this suite's conftest: a browser test that is skipped, and a sampled one."""
    (tmp_path / "ui").mkdir()
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    thorough\n    sampled\n")
    (tmp_path / "ui" / "test_it.py").write_text("import pytest\ndef test_page():\n    pytest.skip('no Chromium')\n")
    (tmp_path / "test_none.py").write_text("import pytest\npytest.skip('nothing here', allow_module_level=True)\n")
    (tmp_path / "test_many.py").write_text("import pytest\n@pytest.mark.sampled(every=4, ci=3)\n@pytest.mark.parametrize('n', range(12))\ndef test_n(n): pass\n"
                                           "@pytest.mark.parametrize('schedule', ('lazy', 'eager'))\ndef test_order(schedule): pass\n"
                                           "@pytest.mark.parametrize('landing', ('lazy', 'eager'))\ndef test_landing(landing): pass\n")
    return tmp_path


def test_a_skipped_browser_test_fails_where_it_is_demanded(suite):
    free, strict = (run(suite, str(suite / "ui"), HOPPERLAB_REQUIRE_BROWSER=word) for word in ("", "1"))
    assert free.returncode == 0 and "1 skipped" in free.stdout, free.stdout + free.stderr
    assert strict.returncode == 1 and "browser tests must run here" in strict.stdout


def test_sampled_cases_are_left_out_only_where_that_is_asked_for(suite):
    few, all_of_them = (run(suite, *words, str(suite / "test_many.py")) for words in (("-m", "not thorough"), ()))
    assert "5 passed, 11 deselected" in few.stdout and "16 passed" in all_of_them.stdout, few.stdout + few.stderr


def test_a_run_that_visits_little_fails_with_visits(suite):
    done = run(suite, "--visits", str(suite / "test_many.py"), str(suite / "test_none.py"))
    assert done.returncode == 1 and re.search(r"^NOT VISITED .*kernel: .*gemm/final.cu", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "tests took " in done.stdout and "10 passed, 1 skipped, 6 deselected" in done.stdout       # of those that do not stay every third runs


def test_there_are_browser_tests_to_demand():
    assert any("def test_" in path.read_text() for path in (TESTS / "ui").glob("test_*.py"))
