# SPDX-License-Identifier: Apache-2.0
"""The look of every figure: palette, fonts, the card a figure is drawn on, and `Picture`, which carries it to a notebook.

Figures are drawn on an opaque pale card, so that they read the same in a light and in a dark theme.
Change colours and sizes of figures here. Listings, which are text of a page, name those of their themes themselves (listings.py, side_by_side.py),
stages.py one of its own.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..runtime.language import say
from .figure_words import in_language

# Okabe and Ito's palette: told apart under the common colour-vision deficiencies, and in grey by order of lightness.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW, BLACK = "#56B4E9", "#CC79A7", "#F0E442", "#1A1A1A"
PALETTE = (BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
CARD, INK, FAINT, EMPTY = "#FBFBF8", "#1A1A1A", "#B9B9B3", "#E9E9E4"

WIDTH = 8.0          # inches; a notebook column shows it at about 760 pixels
DOTS = 130           # dots per inch in the PNG; more than the column shows, so that text stays sharp
FEWER = 100          # of pictures in a notebook that would grow too large: as many as the column shows
COLUMN = 760         # pixels a figure of WIDTH takes in a notebook


def new_figure(height: float, columns: int = 1, ratios: Sequence[float] | None = None,
               width: float = WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure of `width` x `height` inches with `columns` axes side by side, in the house style. It belongs to no pyplot state."""
    figure = Figure(figsize=(width, height), dpi=DOTS, facecolor=CARD, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1, columns, width_ratios=ratios)
    axes = [figure.add_subplot(grid[0, i]) for i in range(columns)]
    for axis in axes:
        dress(axis)
    return figure, axes


def dress(axis: Axes) -> None:
    """Give one set of axes the house style: no box, ink-coloured text of at least 9 points."""
    axis.set_facecolor(CARD)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_color(INK)
    axis.tick_params(colors=INK, labelsize=9)
    axis.xaxis.label.set_color(INK)
    axis.yaxis.label.set_color(INK)
    axis.title.set_color(INK)


def title(axis: Axes, text: str) -> None:
    """Left-aligned title in the house size."""
    axis.set_title(text, fontsize=11, loc="left", color=INK, fontweight="bold")


def heading(picture: Picture) -> str:
    """The title of a picture's first axes; '' where it has none."""
    return str(picture.figure.axes[0].get_title(loc="left")) if picture.figure.axes else ""


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on `colour` (#RRGGBB), by relative luminance (WCAG 2)."""
    red, green, blue = (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.42 else "#FFFFFF"


@dataclass
class Picture:
    """A figure and the same content in words: notebooks show the image, terminals and screen readers the text. dots: per inch in the PNG."""

    figure: Figure
    text: str
    dots: int = DOTS
    _png: bytes | None = field(default=None, repr=False)

    def png(self) -> bytes:
        """The figure as a PNG with a 48-colour palette (small) and no metadata (the same bytes every time)."""
        if self._png is None:
            self._png = self._render()
        return self._png

    def _render(self) -> bytes:
        from PIL import Image

        raw = io.BytesIO()
        in_language(self.figure).savefig(raw, format="png", dpi=self.dots, facecolor=CARD, metadata={"Software": None})
        raw.seek(0)
        image = Image.open(raw).convert("RGB").quantize(colors=48, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small = io.BytesIO()
        image.save(small, format="PNG", optimize=True)
        return small.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict, dict]:
        width = round(COLUMN * self.figure.get_figwidth() / WIDTH)
        return {"image/png": self.png(), "text/plain": say(self.text)}, {"image/png": {"width": width}}

    def __repr__(self) -> str:
        return say(self.text)
