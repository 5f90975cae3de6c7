# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: a model of what a schedule leaves the tensor core to wait for: cooperative, ping-pong, overlapped store."""
from __future__ import annotations

from matplotlib.patches import Patch

from ...show import style
from ...show.timelines import Span


def model(kind: str, tiles: int, loop: float, epilogue: float) -> tuple[list[Span], float]:
    """(spans, share of the time in which the tensor core works) of one CTA that works on `tiles` pairs of tiles.

    Two consumers. cooperative: each takes half of every tile, and both store at the same time. ping-pong: each takes whole tiles by turns, with the
    tensor core to itself for `loop`, then stores alone what two did: 2 * `epilogue`. overlapped: cooperative, and the epilogue's stores run beside the next
    loop, so that only its first quarter (the way to shared memory) is waited for. Units: any; the tensor core's work is the same in all three.
    """
    spans, busy = [], 2.0 * tiles * loop
    if kind in ("cooperative", "overlapped"):
        waited = epilogue if kind == "cooperative" else epilogue / 4
        now = 0.0
        for tile in range(2 * tiles):
            for consumer in (1, 2):
                spans += [Span(f"consumer {consumer}", now, now + loop, "multiplies", str(tile)),
                          Span(f"consumer {consumer}", now + loop, now + loop + waited, "epilogue", "")]
            if kind == "overlapped":
                spans.append(Span("copy engine", now + loop + waited, now + loop + epilogue, "stores C", str(tile)))
            now += loop + waited
    elif kind == "ping-pong":
        free, now = {1: 0.0, 2: 0.0}, 0.0
        for tile in range(2 * tiles):
            consumer = tile % 2 + 1
            now = max(now, free[consumer])
            spans += [Span(f"consumer {consumer}", now, now + loop, "multiplies", str(tile)),
                      Span(f"consumer {consumer}", now + loop, now + loop + 2 * epilogue, "epilogue", "")]
            free[consumer] = now + loop + 2 * epilogue
            now += loop
    else:
        raise ValueError(f"no schedule {kind!r}; there are cooperative, ping-pong and overlapped")
    return spans, busy / max(span.end for span in spans)


def schedule_model(loop: float = 4.0, epilogue: float = 2.0, tiles: int = 3) -> style.Picture:
    """Three schedules of the same work under one another (`model`), with the tensor core's share of the time."""
    kinds, colours = ("cooperative", "ping-pong", "overlapped"), {"multiplies": style.BLUE, "epilogue": style.ORANGE, "stores C": style.GREEN}
    figure, (axis,) = style.new_figure(3.6)
    names, words, y = [], [f"A model: a tile's products take {loop:g}, its epilogue {epilogue:g}"], 0
    for kind in kinds:
        spans, share = model(kind, tiles, loop, epilogue)
        for row in sorted({span.row for span in spans}):
            for span in (span for span in spans if span.row == row):
                axis.barh(y, span.end - span.start, left=span.start, height=0.74, color=colours[span.kind], edgecolor=style.CARD)
                if span.label:
                    axis.text((span.start + span.end) / 2, y, span.label, ha="center", va="center", fontsize=8, color=style.ink_on(colours[span.kind]))
            names.append((y, f"{kind}: {row}"))
            y += 1
        axis.text(max(span.end for span in spans) + 0.3, y - 1.5, f"{100 * share:.0f} % busy", fontsize=9, color=style.INK, va="center")
        words.append(f"  {kind}: the tensor core works {100 * share:.0f} % of the time")
        y += 0.6
    axis.set_yticks([at for at, _ in names], [name for _, name in names])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.14 * max(span.end for kind in kinds for span in model(kind, tiles, loop, epilogue)[0]))
    axis.set_xlabel("time, in the model's units (a number is a tile)")
    figure.legend(handles=[Patch(facecolor=colour, label=name) for name, colour in colours.items()], fontsize=9, frameon=False, ncols=3,
                  loc="outside lower center")
    style.title(axis, f"Three schedules of the same {2 * tiles} tiles (a model, not a measurement)")
    return style.Picture(figure, "\n".join(words))
