# SPDX-License-Identifier: Apache-2.0
"""What panels and questions share: whether ipywidgets is there, bundles that fall back to text, and a line of live text."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Callable
from typing import Any

from ..runtime.language import say


def have_widgets() -> bool:
    """True when ipywidgets is installed and this process is an IPython kernel or shell."""
    if importlib.util.find_spec("ipywidgets") is None:
        return False
    from IPython import get_ipython

    return get_ipython() is not None


def merged_bundle(widget: Any, fallback: dict) -> dict:
    """The widget's MIME bundle with `fallback` under it: a front end that has no widget (or no kernel) shows the fallback."""
    if widget is None:
        return dict(fallback)
    return {**widget._repr_mimebundle_(), **fallback}


class Live:
    """A block of text computed by `compute()`, shown as a widget that `refresh()` updates, or as plain text."""

    def __init__(self, compute: Callable[[], str]):
        self._compute, self._widget = compute, None
        if have_widgets():
            import ipywidgets as widgets

            self._widget = widgets.HTML(_as_html(compute()))

    def refresh(self) -> None:
        """Recompute the text."""
        if self._widget is not None:
            self._widget.value = _as_html(self._compute())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict:
        return merged_bundle(self._widget, {"text/plain": say(self._compute())})

    def __repr__(self) -> str:
        return say(self._compute())


def _as_html(text: str) -> str:
    return "<br>".join(html.escape(line) for line in say(text).split("\n"))
