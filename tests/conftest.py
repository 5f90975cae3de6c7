# SPDX-License-Identifier: Apache-2.0
"""For the whole suite: --differential compares emulated launches with a GPU's; --visits fails a run that leaves out a part of the course; sampled
tests keep some cases for `make test`; long ones come first (FIRST); where .ci/run says so, a skipped test is a failure (MUST_RUN); at the end stands
where the time went."""
from __future__ import annotations

import gc
import os
from contextlib import ExitStack

import pytest
from support import sampling, timing, visits
from support.patience import PATIENCE


# Folder of tests, the variable that makes a skip there a failure (.ci/run sets it), and what they are.
MUST_RUN = (("ui", "HOPPERLAB_REQUIRE_BROWSER", "browser tests"), ("grading", "HOPPERLAB_REQUIRE_SANDBOX", "tests of the sandbox"))


FIRST = ("ui", "packaging", "notebooks")        # folders whose single tests take longest: what is left at the end of a run is then short, and keeps all workers busy

os.environ.setdefault("PYTEST_TIMEOUT", str(300 * PATIENCE))        # pytest-timeout's limit of one test, in seconds
os.environ.setdefault("HOPPERLAB_CACHE_MB", "1024")     # the suite compiles thousands of kernels: with a learner's limit it would throw away what it needs again
os.environ.setdefault("HOPPERLAB_BOARD", "h200")        # on every machine: what tests ask of recordings, they ask of those that stored outputs show
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")        # products here are small, and each worker has a core of its own: BLAS's threads only wait for one another


def pytest_addoption(parser):
    parser.addoption("--differential", action="store_true", help="on a Hopper GPU: compare every emulated launch with the GPU's")
    parser.addoption("--every-case", action="store_true", help="with --visits: also the cases that `make test-all` leaves out, since they repeat a path")
    parser.addoption("--visits", action="store_true", help="fail unless every kernel, lesson, exercise and folder of tests is visited")


def pytest_configure(config):
    config.watched = ExitStack()
    if config.getoption("--visits"):
        config.watched.enter_context(visits.watch_launches())
    if not (config.getoption("--every-case") or config.getoption("--differential")):
        from support import ptx_alone
        config.watched.enter_context(ptx_alone.taken())
    config.differential = None
    if config.getoption("--differential"):
        os.environ["HOPPERLAB_BACKEND"] = "emulator"        # tests that leave the place open are emulated, and then repeated
        from support.differential import Differential
        config.differential = Differential()
        config.differential.install()


def pytest_unconfigure(config):
    config.watched.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Collecting makes millions of objects, of which nearly all stay until the end: Python's search for those that do not takes half of the time."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)            # the emulator makes and drops objects by the million, nearly none of them in circles
    gc.enable()


@pytest.hookimpl(tryfirst=True)         # before pytest looks at -m
def pytest_collection_modifyitems(config, items):
    left_out = set(sampling.mark_thorough(items))
    items.sort(key=lambda item: FIRST.index(item.path.parent.name) if item.path.parent.name in FIRST else len(FIRST))
    if left_out and config.getoption("--visits") and not config.getoption("--every-case"):
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def own_memory(monkeypatch):
    """The emulator's memory holds this test's arrays alone: hl.explore copies and compares whatever lies there, in a run of the suite gigabytes of lessons' arrays."""
    from hopperlab.emulator.machine import memory
    monkeypatch.setattr(memory, "_DEFAULT", memory.GlobalMemory())


@pytest.fixture(autouse=True)
def _compared_places(request, record_property):
    """Tests marked emulator_only are not repeated on the GPU; sums_of_fp8(two, four) and rounded_between(two, four) allow floats of two and of four
    bytes other differences. What was compared travels in the test's report, so that it also arrives from xdist's workers."""
    compare = request.config.differential
    if compare is None:
        yield
        return
    from support.differential import RELATIVE
    compare.enabled = request.node.get_closest_marker("emulator_only") is None
    coarser = request.node.get_closest_marker("sums_of_fp8") or request.node.get_closest_marker("rounded_between")
    compare.bounds = RELATIVE | (dict(zip((2, 4), coarser.args, strict=True)) if coarser else {})
    before = compare.counts()
    compare.kernels.clear()
    yield
    record_property("differential_kernels", sorted(compare.kernels))
    record_property("differential", [now - then for now, then in zip(compare.counts(), before, strict=True)])


def pytest_runtest_setup(item):
    from support import ptx_alone
    visits.begin()
    ptx_alone.begin(item.path, item.get_closest_marker("assembled") is not None)


def pytest_sessionfinish(session):
    """In the process that the user started: a run with --visits that left out a part of the course has failed."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--visits") and terminal is not None and session.exitstatus == pytest.ExitCode.OK and visits.missing(_reports(terminal)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _reports(terminalreporter):
    """Reports of tests; those of modules that were left out whole say `collect`."""
    return [report for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", "collect") != "collect"]


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    yield                       # the long list of skipped tests stands above
    reports = _reports(terminalreporter)
    if config.getoption("--visits"):
        for line in (*visits.told(reports), timing.told(reports)):
            terminalreporter.write_line(line)
    if config.differential is not None:
        _tell_differential(terminalreporter, reports)


def _tell_differential(terminalreporter, reports):
    from hopperlab.measure.profile.exact_allocations import told
    totals, kernels = [0, 0, 0], set()
    for name, value in (found for report in reports if report.when == "teardown" for found in report.user_properties):
        if name == "differential":
            totals = [a + b for a, b in zip(totals, value, strict=True)]
        elif name == "differential_kernels":
            kernels.update(value)
    terminalreporter.write_line(f"differential: {totals[0]} launches equal in both places, {totals[1]} repetitions, "
                                f"{totals[2]} left out for their hazards")
    terminalreporter.write_line(told(kernels))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.passed and report.when == "call" and item.config.getoption("--visits"):
        report.user_properties.append(("visits", visits.made()))
    for folder, variable, what in MUST_RUN:
        if report.skipped and folder in item.path.parts[:-1] and os.environ.get(variable) == "1":
            report.outcome = "failed"
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.longrepr = f"{what} must run here ({variable}=1), but this one was skipped: {reason}"
