"""For the whole suite: where HOPPERLAB_REQUIRE_BROWSER=1 is set (as .ci/run does), a skipped browser test is a failure."""
from __future__ import annotations

import os

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    in_browser = "ui" in item.path.parts[:-1]
    if report.skipped and in_browser and os.environ.get("HOPPERLAB_REQUIRE_BROWSER") == "1":
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"browser tests must run here (HOPPERLAB_REQUIRE_BROWSER=1), but this one was skipped: {reason}"
