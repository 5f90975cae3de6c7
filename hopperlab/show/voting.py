# SPDX-License-Identifier: Apache-2.0
"""Questions to the learner: a prediction kept beside the measurement, and a vote kept beside the verdict.

Neither blocks Run All: an unanswered question is shown as unanswered. Both work without ipywidgets, as text.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

from ..runtime.language import say
from .widgets import Live, have_widgets, merged_bundle


class Prediction:
    """One number that the learner commits to. `value` is None until a number is entered."""

    def __init__(self, question: str, unit: str = "", value: float | None = None):
        self.question, self.unit, self._value, self._box = question, unit, value, None
        self._watchers: list[Callable[[], None]] = []
        if have_widgets():
            self._box = _number_box(question, unit, value)
            self._field = self._box.children[1]
            self._field.observe(lambda change: self._changed(), names="value")

    @property
    def value(self) -> float | None:
        """The number entered, or None."""
        if self._box is None:
            return self._value
        text = self._field.value.strip().replace(",", "").replace("_", "")
        try:
            return float(text) if text else None
        except ValueError:
            return None

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher()

    def sentence(self, measured: float, what: str = "measured") -> str:
        """The prediction beside the measured number, as one line."""
        truth = f"{what}: {measured:.4g} {self.unit}".rstrip()
        if self.value is None:
            return f"{truth}. You made no prediction; type one above and this line follows."
        if measured == 0:
            return f"You said {self.value:.4g}; {truth}."
        ratio = self.value / measured
        verdict = "exactly right" if abs(ratio - 1) < 1e-9 else f"{ratio:.2f} times the {what} value"
        return f"You said {self.value:.4g}; {truth}. That is {verdict}."

    def beside(self, measured: float, what: str = "measured") -> Live:
        """A line that shows both numbers and follows the learner's, should it change later."""
        live = Live(lambda: self.sentence(measured, what))
        self._watchers.append(live.refresh)
        return live

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict:
        return merged_bundle(self._box, {"text/plain": say(f"Your prediction, before you run on: {self.question} [{self.unit}]")})


def predict(question: str, unit: str = "", value: float | None = None) -> Prediction:
    """Ask for a number before it is measured. Show it by making it a cell's last expression; compare with `.beside(measured)`."""
    return Prediction(question, unit, value)


def _number_box(question: str, unit: str, value: float | None):
    import ipywidgets as widgets

    label = widgets.HTML(say(f"<b>Predict.</b> {html.escape(say(question))}"))
    field = widgets.Text(value="" if value is None else f"{value:g}", placeholder=say(f"a number, in {unit}" if unit else "a number"),
                         description=say(unit or "answer"), continuous_update=False)
    return widgets.VBox([label, field])


class Vote:
    """Tick boxes over named candidates. `choice` is the set of names ticked."""

    def __init__(self, question: str, candidates: Mapping[str, str]):
        self.question, self.candidates, self._box, self._ticks = question, dict(candidates), None, {}
        self._watchers: list[Callable[[], None]] = []
        if have_widgets():
            self._box, self._ticks = _tick_boxes(question, self.candidates)
            for tick in self._ticks.values():
                tick.observe(lambda change: self._changed(), names="value")

    @property
    def choice(self) -> frozenset[str]:
        """The names ticked so far."""
        return frozenset(name for name, tick in self._ticks.items() if tick.value)

    def _changed(self) -> None:
        for watcher in self._watchers:
            watcher()

    def sentence(self, right: Mapping[str, bool]) -> str:
        """One line a candidate: what was voted, and what is so."""
        voted = self.choice
        lines = [] if voted else ["You have not voted; tick a box above and these lines follow."]
        for name in self.candidates:
            mine = "you trusted it" if name in voted else "you did not trust it"
            lines.append(f"{name}: {'correct' if right[name] else 'wrong'}" + (f" ({mine})" if voted else ""))
        if voted:
            hits = sum((name in voted) == right[name] for name in self.candidates)
            lines.append(f"{hits} of {len(self.candidates)} judged rightly.")
        return "\n".join(lines)

    def beside(self, right: Mapping[str, bool]) -> Live:
        """The vote beside the verdict (name -> is it correct?); follows later changes. Raises KeyError for a candidate without a verdict."""
        self.sentence(right)
        live = Live(lambda: self.sentence(right))
        self._watchers.append(live.refresh)
        return live

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict:
        names = "\n".join(f"  [ ] {name}: {text}" for name, text in self.candidates.items())
        return merged_bundle(self._box, {"text/plain": say(f"{self.question}\n{names}")})


def vote(question: str, candidates: Mapping[str, str]) -> Vote:
    """Ask which of the candidates (name -> one line about it) the learner trusts; compare with `.beside(verdicts)`."""
    return Vote(question, candidates)


def _tick_boxes(question: str, candidates: Mapping[str, str]):
    import ipywidgets as widgets

    wide = widgets.Layout(width="auto")
    ticks = {name: widgets.Checkbox(value=False, description=say(f"{name}: {text}"), indent=False, layout=wide) for name, text in candidates.items()}
    return widgets.VBox([widgets.HTML(say(f"<b>Vote.</b> {html.escape(say(question))}")), *ticks.values()]), ticks
