# SPDX-License-Identifier: Apache-2.0
"""Lesson 16: where both consumers of attention/forward.cu were on a GPU, by marks inside the kernel (measure/suites/timelines.py recorded them)."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...measure import recordings, timelines
from ...show import style
from ...show.timelines import Span
from .attention_panels import ROWS, draw_bands, finish_bands

RECORDED = ("two_consumers", "pingpong", "overlapped")
WINDOW = 0.3, 0.55          # of the block's time: its middle, where nothing begins and nothing ends


def covered(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of intervals, as intervals that do not touch, in order."""
    out: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def length(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of the intervals lasts."""
    return sum(end - start for start, end in covered(spans))


def shared(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """How long an interval of the one and an interval of the other last at the same time."""
    return length(one) + length(other) - length([*one, *other])


def shares(found: Sequence[Any]) -> dict[str, float]:
    """Of a timeline of attention/forward.cu (scores, values, softmax; one warp a consumer), as shares of the time from the first mark to the last:
    'products' under way, 'softmax' in either consumer, 'both' at once, and 'softmax alone', with no product under way."""
    whole = max(row.end for row in found) - min(row.start for row in found)
    products = [(row.start, row.end) for row in found if row.event in ("scores", "values")]
    softmaxes = [(row.start, row.end) for row in found if row.event == "softmax"]
    both = shared(products, softmaxes)
    return {"products": length(products) / whole, "softmax": length(softmaxes) / whole, "both": both / whole, "softmax alone": (length(softmaxes) - both) / whole}


def load(step: str) -> timelines.KernelTimeline:
    """The recorded timeline of one block in that step of RECORDED."""
    return timelines.load(recordings.path_of(f"timeline_{step}"))


def attention_measured(steps: Sequence[str] = RECORDED) -> style.Picture:
    """The recorded timelines of several steps under one another, each the same share of its block's time, in microseconds: a band a consumer, in it
    three lanes (scores, values, softmax); a product lasts from its issue to the wait that found it done, so it may wait for the tensor core first."""
    figure, (axis,) = style.new_figure(0.9 + 1.5 * len(steps))
    names, words, longest, y = [], [], 0.0, 0.0
    for step in steps:
        found = load(step)
        first, last = _window(found)
        spans = [Span(f"consumer {row.warp // 4}: {row.event}", (max(row.start, first) - first) / 1000, (min(row.end, last) - first) / 1000, row.event)
                 for row in found if row.end > first and row.start < last]
        part = shares(found)
        idle, both, alone = (100 * x for x in (1 - part["products"], part["both"], part["softmax alone"]))
        axis.text(0, y - 0.55, f"{step}: {idle:.0f} % of the time without a product under way", fontsize=10, fontweight="bold", color=style.INK, va="bottom")
        names += draw_bands(axis, spans, y)
        longest, y = max(longest, (last - first) / 1000), names[-1][0] + 1.8
        words.append(f"{step}: no product under way in {idle:.0f} % of the time, softmax beside a product in {both:.0f} %, softmax alone in {alone:.0f} %; "
                     f"the block takes {max(row.end for row in found) / 1000:.0f} us with its marks")
    source = load(steps[-1]).source
    finish_bands(figure, axis, names, longest, f"time (us), from the middle of a block's work\n{source}", ROWS)
    axis.set_xlim(0, longest)
    axis.xaxis.label.set_fontsize(9)
    return style.Picture(figure, "\n".join([*words, source]), style.FEWER)


def _window(found: Sequence[Any]) -> tuple[float, float]:
    end = max(row.end for row in found)
    return WINDOW[0] * end, WINDOW[1] * end
