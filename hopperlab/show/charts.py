# SPDX-License-Identifier: Apache-2.0
"""Plots of measurements: a value against a setting for several kernels, or one bar a kernel, with units on every axis.

Recorded measurements say so in the title: pass `source`, the line that names GPU, driver and date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import style


def lines(x: Sequence[float], series: Mapping[str, Sequence[float]], xlabel: str, ylabel: str, heading: str,
          source: str = "", ticks: Sequence[str] | None = None) -> style.Picture:
    """One line a name in `series` (values in the unit that `ylabel` names) over the common `x`. None breaks a line; `ticks` name the points."""
    figure, (axis,) = style.new_figure(3.5)
    for index, (name, values) in enumerate(series.items()):
        colour, marker = style.PALETTE[index % 8], style.MARKERS[index % 8]
        axis.plot(x, [float("nan") if v is None else v for v in values], color=colour, marker=marker, linewidth=2, label=name)
    if ticks is not None or (all(float(v).is_integer() for v in x) and len(x) <= 12):
        axis.set_xticks(list(x), ticks)
    axis.set(xlabel=xlabel, ylabel=ylabel)
    axis.set_ylim(bottom=0)
    axis.grid(True, color=style.EMPTY)
    if len(series) > 1:
        axis.legend(fontsize=9, frameon=False)
    style.title(axis, heading)
    _source(figure, source)
    return style.Picture(figure, _table([t.replace("\n", " ") for t in ticks] if ticks else [f"{v:g}" for v in x], series, xlabel, ylabel, heading, source))


def bars(values: Mapping[str, float], xlabel: str, heading: str, source: str = "", best: str | None = None) -> style.Picture:
    """One horizontal bar a name, in the unit that `xlabel` names; `best` is drawn in another colour."""
    figure, (axis,) = style.new_figure(0.9 + 0.42 * len(values))
    names = list(values)
    colours = [style.ORANGE if name == best else style.BLUE for name in names]
    axis.barh(range(len(names)), [values[name] for name in names], color=colours, height=0.7)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    top = max(values.values())
    axis.set_xlim(0, top * 1.12)
    for index, name in enumerate(names):
        told = f"{values[name]:.3g}" if values[name] < 1000 else f"{values[name]:.0f}"
        axis.text(values[name] + top * 0.01, index, told, va="center", fontsize=9, color=style.INK)
    axis.set_xlabel(xlabel)
    style.title(axis, heading)
    _source(figure, source)
    words = [heading] + ([f"  {source}"] if source else []) + [f"  {name}: {value:.4g}" for name, value in values.items()] + [f"  ({xlabel})"]
    return style.Picture(figure, "\n".join(words))


def _source(figure, source: str) -> None:
    if source:
        figure.supxlabel(source, fontsize=8, color=style.INK, x=0.01, ha="left")


def _table(x: Sequence[str], series: Mapping[str, Sequence[float]], xlabel: str, ylabel: str, heading: str, source: str) -> str:
    out = [heading] + ([f"  {source}"] if source else []) + [f"  {xlabel} | " + " | ".join(series) + f"   ({ylabel})"]
    for index, value in enumerate(x):
        cells = [series[name][index] for name in series]
        out.append(f"  {value} | " + " | ".join("–" if c is None else f"{c:.4g}" for c in cells))
    return "\n".join(out)
