"""For the whole suite: --differential compares emulated launches with a GPU's; where .ci/run says so, a skipped test is a failure (MUST_RUN)."""
from __future__ import annotations

import os

import pytest


# Folder of tests, the variable that makes a skip there a failure (.ci/run sets it), and what they are.
MUST_RUN = (("ui", "HOPPERLAB_REQUIRE_BROWSER", "browser tests"), ("grading", "HOPPERLAB_REQUIRE_SANDBOX", "tests of the sandbox"))


def pytest_addoption(parser):
    parser.addoption("--differential", action="store_true", help="on a Hopper GPU: compare every emulated launch with the GPU's")


def pytest_configure(config):
    config.differential = None
    if config.getoption("--differential"):
        os.environ["HOPPERLAB_BACKEND"] = "emulator"        # tests that leave the place open are emulated, and then repeated
        from support.differential import Differential
        config.differential = Differential()
        config.differential.install()


@pytest.fixture(autouse=True)
def _compared_places(request, record_property):
    """Tests marked emulator_only are not repeated on the GPU; sums_of_fp8(two, four) allows floats of two and of four bytes other
    differences. What was compared travels in the test's report, so that it also arrives from xdist's workers."""
    compare = request.config.differential
    if compare is None:
        yield
        return
    from support.differential import RELATIVE
    compare.enabled = request.node.get_closest_marker("emulator_only") is None
    coarser = request.node.get_closest_marker("sums_of_fp8")
    compare.bounds = RELATIVE | (dict(zip((2, 4), coarser.args, strict=True)) if coarser else {})
    before = compare.counts()
    compare.kernels.clear()
    yield
    record_property("differential_kernels", sorted(compare.kernels))
    record_property("differential", [now - then for now, then in zip(compare.counts(), before, strict=True)])


def pytest_terminal_summary(terminalreporter, config):
    if config.differential is None:
        return
    from hopperlab.measure.exact_allocations import told
    totals, kernels = [0, 0, 0], set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for name, value in report.user_properties:
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
    for folder, variable, what in MUST_RUN:
        if report.skipped and folder in item.path.parts[:-1] and os.environ.get(variable) == "1":
            report.outcome = "failed"
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.longrepr = f"{what} must run here ({variable}=1), but this one was skipped: {reason}"
