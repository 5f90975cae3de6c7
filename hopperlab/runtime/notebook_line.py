# SPDX-License-Identifier: Apache-2.0
"""One line below a notebook's cell while a launch takes long, taken away at its end.

Only where a person watches: in a kernel that a front end opened for a notebook (Jupyter Server names the notebook in JPY_SESSION_NAME). A notebook that is
executed or tested keeps its outputs as they are.
"""
from __future__ import annotations

import html
import os
import sys
from typing import Any


def watched() -> bool:
    """True in a notebook's kernel that a front end opened; False where nbclient or pytest runs the notebook, and outside of notebooks."""
    return "ipykernel" in sys.modules and bool(os.environ.get("JPY_SESSION_NAME")) and "PYTEST_VERSION" not in os.environ


class NotebookLine:
    """`say(text)` shows or replaces the line, `close()` takes it away. Nothing is displayed before the first word."""

    def __init__(self) -> None:
        self._shown: Any = None

    def say(self, text: str) -> None:
        """Show this in place of what was said before."""
        import IPython.display
        display: Any = IPython.display.display              # without types
        bundle = {"text/html": f'<span role="status" style="opacity: 0.7">{html.escape(text)}</span>'}
        if self._shown is None:
            self._shown = display(bundle, raw=True, display_id=True)
        else:
            self._shown.update(bundle, raw=True)

    def close(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._shown.update({"text/html": ""}, raw=True)
            self._shown = None
