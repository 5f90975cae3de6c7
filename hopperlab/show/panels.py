# SPDX-License-Identifier: Apache-2.0
"""A panel of controls that launches a kernel again whenever one moves, and shows what came of it.

`panel(launch, name=Slider(...), …)` calls `launch(**values)`, which launches the kernel and returns a `Picture`. Every
control is reached by keyboard. A choice the hardware does not allow is explained in place and not launched. The picture comes from the
emulator, which can tell what happened inside; where there is a GPU, the same launch is then timed there. With a clock a panel has a control more, by which the picture is
drawn over estimated cycles or microseconds instead of the order of events, and what bounds the launch stands in a line.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..estimates import boards, emulating
from ..runtime.language import columns, named, say
from ..runtime.watching import launching, watching
from . import estimated_times, panel_on_gpu, style
from .widgets import have_widgets, merged_bundle


@dataclass(frozen=True)
class Slider:
    """A control over `values` in order (numbers), starting at `start`; `unit` is shown after the label."""

    label: str
    values: Sequence[float]
    start: float
    unit: str = ""


@dataclass(frozen=True)
class Choice:
    """A drop-down list over `values`, starting at `start`."""

    label: str
    values: Sequence[Any]
    start: Any


CLOCK = "_clock"            # the name of the control 'Time'
ORDER = "order of events"
AXES = {ORDER: "", "estimated cycles": "cycles", "estimated microseconds": "us"}
TIME = Choice("Time", list(AXES), ORDER)


def pictured(launch: Callable[..., style.Picture], values: Mapping[str, Any], clock: str | None = None, axis: str = ORDER) -> tuple[style.Picture, str]:
    """What a panel's launch draws; or, over another axis of AXES, the kernel that takes longest by what is estimated for the board `clock`, and its time in a line."""
    if not AXES[axis]:
        return launch(**values), ""
    given = emulating.EstimatedClock(boards.board(clock))
    with launching(given.launched):
        picture = launch(**values)
    found = [times for times in given if not isinstance(times, str)]
    if not found:
        return picture, estimated_times.told(str(given[-1]) if given else "nothing was launched")
    longest = max(found, key=lambda times: times.estimate.us)
    return estimated_times.estimated(longest, style.heading(picture), unit=AXES[axis]), estimated_times.told(longest)


class Panel:
    """Controls, a status line and a picture. `launches` counts the launches made, `picture` is the last one drawn, `on_gpu` what was timed of it, `estimate` what was
    estimated of its last launch, in a line. clock: the board of the estimates, or None; `axis`: what the picture is drawn over, one of AXES."""

    def __init__(self, launch: Callable[..., style.Picture], controls: dict[str, Slider | Choice], clock: str | None = None):
        self._launch, self._controls, self._clock = launch, dict(controls), clock
        self.launches, self.picture, self.status, self.on_gpu, self.estimate, self.axis = 0, None, "", "", "", ORDER
        self._box = None
        if clock is not None:
            self._controls[CLOCK] = TIME
        if have_widgets():
            labels = max((len(columns(_label(control))) for control in self._controls.values()), default=0) + 1
            self._inputs = {name: _control(control, labels) for name, control in self._controls.items()}
            self._build()
        self.update()

    @property
    def values(self) -> dict[str, Any]:
        """The value of every control of the launch, by name."""
        if self._box is None:
            return {name: control.start for name, control in self._controls.items() if name != CLOCK}
        return {name: widget.value for name, widget in self._inputs.items() if name != CLOCK}

    def update(self) -> None:
        """Launch with the present values; on an illegal choice say why nothing ran, and hide the last picture, which belongs to other values."""
        began, seen = time.perf_counter(), []
        if self._box is not None and CLOCK in self._inputs:
            self.axis = self._inputs[CLOCK].value
        self._say(f"Launches: {self.launches}. Launching …", "inherit", "normal")
        try:
            with watching(seen.append):
                picture, self.estimate = pictured(self._launch, self.values, self._clock, self.axis)
            took = time.perf_counter() - began
            self.on_gpu = panel_on_gpu.told(seen)
        except Exception as error:      # shown to the learner in the status line, whatever it is
            self.status = f"Launches: {self.launches}. Not launched: {error}"
            self._paint(legal=False)
            return
        self.launches += 1
        self.picture = picture
        self.status = "\n".join(filter(None, (f"Launches: {self.launches}. The last one and its figure took {1e3 * took:.0f} ms.", self.estimate, self.on_gpu)))
        self._paint(legal=True)

    def _build(self) -> None:
        import ipywidgets as widgets

        self._line = widgets.HTML()
        self._image = widgets.Image(format="png", layout=widgets.Layout(max_width="100%", width=f"{style.COLUMN}px"))
        self._words = widgets.HTML()
        for widget in self._inputs.values():
            widget.observe(lambda change: self.update(), names="value")
        row = widgets.Layout(display="flex", flex_flow="row wrap", width="100%")
        self._box = widgets.VBox([widgets.Box(list(self._inputs.values()), layout=row), self._line, self._image, self._words])

    def _say(self, status: str, colour: str, weight: str) -> None:
        """The status line, at once: it is also how a launch that takes long shows that it was asked for."""
        if self._box is not None:
            text = html.escape(say(status)).replace("\n", "<br>")
            self._line.value = f'<span role="status" style="color: {colour}; font-weight: {weight}">{text}</span>'

    def _paint(self, legal: bool) -> None:
        if self._box is None:
            return
        self._say(self.status, *(("inherit", "normal") if legal else (style.VERMILION, "bold")))
        if legal:
            self._image.value = self.picture.png()
            self._words.value = say(f"<details><summary>The same in words</summary><pre>{html.escape(say(self.picture.text))}</pre></details>")
        for shown in (self._image, self._words):            # hidden, they keep their place: the page does not jump
            shown.layout.visibility = "visible" if legal else "hidden"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict, dict]:
        fallback: dict = {"text/plain": say(self.status)}
        metadata: dict = {}
        if self.picture is not None:
            fallback, metadata = self.picture._repr_mimebundle_()
            fallback["text/plain"] = say("A panel: run the notebook to move its controls. First launch:\n" + self.picture.text
                                         + (f"\n{self.on_gpu}" if self.on_gpu else ""))
        return merged_bundle(self._box, fallback), metadata


def panel(launch: Callable[..., style.Picture], *, clock: str | None = None, **controls: Slider | Choice) -> Panel:
    """A panel whose controls are `launch`'s keyword arguments. Launches once at once, then whenever a control moves.

    clock: 'h200' or 'h100' adds the control 'Time', by which the kernel that `launch` launches, the longest of several, is drawn over its estimated time on that board
    (estimated_times.py).
    """
    return Panel(launch, controls, clock)


def _label(control: Slider | Choice) -> str:
    return f"{control.label} ({control.unit})" if isinstance(control, Slider) and control.unit else control.label


def _control(control: Slider | Choice, labels: int):
    """The widget of a control; labels: characters of the longest label of its panel, so that all begin and end at one line."""
    import ipywidgets as widgets

    style_ = {"description_width": f"{labels}ch"}
    layout = widgets.Layout(width=f"calc({labels}ch + 210px)", margin="2px 20px 2px 0")
    if isinstance(control, Choice):
        return widgets.Dropdown(options=named(list(control.values)), value=control.start, description=say(_label(control)), style=style_, layout=layout)
    return widgets.SelectionSlider(options=[(f"{v:g}", v) for v in control.values], value=control.start, description=say(_label(control)),
                                   continuous_update=False, style=style_, layout=layout)
