# SPDX-License-Identifier: Apache-2.0
"""The line below a cell: only where a person watches, one line that is replaced, and gone at the end without a text that a check would compare."""
import sys

import pytest

from hopperlab.runtime import notebook_line


@pytest.mark.parametrize("session, pytest_runs, kernel, expected", [("/a.ipynb", False, True, True), ("", False, True, False), ("/a.ipynb", True, True, False),
                                                                    ("/a.ipynb", False, False, False)])
def test_only_a_front_ends_kernel_is_watched(monkeypatch, session, pytest_runs, kernel, expected):
    monkeypatch.setenv("JPY_SESSION_NAME", session)
    monkeypatch.setitem(sys.modules, "ipykernel", object()) if kernel else monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setenv("PYTEST_VERSION", "9") if pytest_runs else monkeypatch.delenv("PYTEST_VERSION", raising=False)
    assert notebook_line.watched() == expected


def test_it_is_one_display_that_is_replaced_and_emptied(monkeypatch):
    IPython = pytest.importorskip("IPython.display", reason="IPython comes with the lab extra")
    told = []

    class Handle:
        def update(self, bundle, raw):
            told.append(bundle)

    def display(bundle, raw, display_id):
        told.append(bundle)
        return Handle()

    monkeypatch.setattr(IPython, "display", display)
    line = notebook_line.NotebookLine()
    line.close()
    assert told == []
    line.say("1 < 2")
    line.say("2 of 2")
    line.close()
    line.close()
    assert ["1 &lt; 2" in told[0]["text/html"], "2 of 2" in told[1]["text/html"], told[2]] == [True, True, {"text/html": ""}]
    assert all("text/plain" not in bundle for bundle in told)
