"""For the whole suite: --differential compares emulated launches with a GPU's; where HOPPERLAB_REQUIRE_BROWSER=1 is set (as .ci/run does), a skipped browser test is a failure."""
from __future__ import annotations

import os

import pytest


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
    """Tests marked emulator_only are not repeated on the GPU. What was compared travels in the test's report, so that it
    also arrives from xdist's workers."""
    compare = request.config.differential
    if compare is None:
        yield
        return
    compare.enabled = request.node.get_closest_marker("emulator_only") is None
    before = compare.counts()
    yield
    record_property("differential", [now - then for now, then in zip(compare.counts(), before, strict=True)])


def pytest_terminal_summary(terminalreporter, config):
    if config.differential is None:
        return
    totals = [0, 0, 0]
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                for name, counts in report.user_properties:
                    if name == "differential":
                        totals = [a + b for a, b in zip(totals, counts, strict=True)]
    terminalreporter.write_line(f"differential: {totals[0]} launches equal in both places, {totals[1]} repetitions, "
                                f"{totals[2]} left out for their hazards")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    in_browser = "ui" in item.path.parts[:-1]
    if report.skipped and in_browser and os.environ.get("HOPPERLAB_REQUIRE_BROWSER") == "1":
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"browser tests must run here (HOPPERLAB_REQUIRE_BROWSER=1), but this one was skipped: {reason}"
