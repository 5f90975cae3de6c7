"""For the whole suite: --differential compares emulated launches with a GPU's; where HOPPERLAB_REQUIRE_BROWSER=1 is set (as .ci/run does), a skipped browser test is a failure."""
from __future__ import annotations

import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--differential", action="store_true", help="on a Hopper GPU: compare every emulated launch with the GPU's")


def pytest_configure(config):
    config.differential = None
    if config.getoption("--differential"):
        from support.differential import Differential
        config.differential = Differential()
        config.differential.install()


@pytest.fixture(autouse=True)
def _compared_places(request):
    """Tests marked emulator_only are not repeated on the GPU."""
    compare = request.config.differential
    if compare is not None:
        compare.enabled = request.node.get_closest_marker("emulator_only") is None
    yield


def pytest_terminal_summary(terminalreporter, config):
    compare = config.differential
    if compare is not None:
        terminalreporter.write_line(f"differential: {compare.compared} launches equal in both places, {compare.repeated} repetitions, "
                                    f"{compare.left_out} left out for their hazards")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    in_browser = "ui" in item.path.parts[:-1]
    if report.skipped and in_browser and os.environ.get("HOPPERLAB_REQUIRE_BROWSER") == "1":
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"browser tests must run here (HOPPERLAB_REQUIRE_BROWSER=1), but this one was skipped: {reason}"
