# SPDX-License-Identifier: Apache-2.0
"""A figure's words in the language of its notebook, in a font that has them: without such a font they stay English, so that no figure shows boxes."""
from __future__ import annotations

from functools import cache

from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FuncFormatter

from ..runtime.language import ENGLISH, language, say

FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "PingFang SC", "Hiragino Sans GB", "Heiti SC", "STHeiti",
         "Microsoft YaHei", "SimHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Noto Sans CJK JP", "Droid Sans Fallback", "Arial Unicode MS")
"""Families with Chinese characters, those of good rendering on screens first."""


@cache
def font() -> str | None:
    """The first of FONTS that this machine has; None where it has none."""
    there = {entry.name for entry in font_manager.fontManager.ttflist}
    return next((name for name in FONTS if name in there), None)


def in_language(figure: Figure) -> Figure:
    """The same figure, its words in the language of the notebook."""
    if language() == ENGLISH:
        return figure
    family = font()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if family):
        _ticks(axis, family)
    for text in figure.findobj(Text):
        english, said = text.get_text(), say(text.get_text())           # looked up without a font too, so that what is missing is noted
        if family and said != english:
            text.set_text(said)
            text.set_fontfamily([*text.get_fontfamily(), family])
    return figure


def _ticks(axis, family: str) -> None:
    """Labels of ticks come from a formatter whenever the figure is drawn, so it is the formatter that is translated. A label may be a number."""
    formatter = axis.get_major_formatter()
    if isinstance(formatter, FixedFormatter):
        axis.set_major_formatter(FixedFormatter([say(str(label)) for label in formatter.seq]))
    elif isinstance(formatter, FuncFormatter):
        axis.set_major_formatter(FuncFormatter(lambda value, position: say(str(formatter(value, position)))))
    else:
        return
    axis.set_tick_params(labelfontfamily=[*font_manager.FontProperties().get_family(), family])
