# SPDX-License-Identifier: Apache-2.0
"""Pictures of lesson 01's exercises: tiles on their way while others are used, and one tile's way through registers and two buffers."""

from __future__ import annotations

from ...show import style
from ...show.timelines import Span, gantt

ORDER = "order of events (units of the loop, not seconds)"


def draw_tiles_ahead(latency_ns: int, turn_ns: int, tiles: int = 9) -> style.Picture:
    """A row a tile: `latency_ns` from asking to having, then `turn_ns` in which it is used; a new tile is asked for every `turn_ns`."""
    spans = []
    for tile in range(tiles):
        asked, here = tile * turn_ns, tile * turn_ns + latency_ns
        spans.append(Span(f"tile {tile}", asked, here, "on its way"))
        spans.append(Span(f"tile {tile}", here, here + turn_ns, "multiplied"))
    heading = f"A tile comes in {latency_ns} ns and is used in {turn_ns} ns: {-(-latency_ns // turn_ns)} are on their way, once it runs"
    return gantt(spans, heading, "time (ns)", {"on its way": style.SKY, "multiplied": style.BLUE})


def draw_register_buffer(tiles: int = 4) -> style.Picture:
    """Where each of `tiles` tiles is in a loop that loads the next one into registers while this one is multiplied. Order, not seconds."""
    load, put, use = (f"{word} tile" for word in ("load", "put down", "multiply"))
    spans = []
    for tile in range(tiles):
        start = 3 * tile + 3
        spans.append(Span("registers", start - 3, start - 1, load, str(tile)))
        spans.append(Span(f"buffer {tile % 2}", start - 1, start - 0.1, put, str(tile)))
        spans.append(Span(f"buffer {tile % 2}", start, start + 2, use, str(tile)))
    spans += [Span("__syncthreads()", 3 * tile, 3 * tile, "barrier") for tile in range(1, tiles + 1)]
    picture = gantt(spans, "Tile t + 1 is on its way into registers while tile t is multiplied", ORDER,
                    {load: style.SKY, put: style.ORANGE, use: style.BLUE, "barrier": style.VERMILION})
    return style.Picture(picture.figure, f"{picture.text}\n  from and to: {ORDER}")
