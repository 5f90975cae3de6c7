# SPDX-License-Identifier: Apache-2.0
"""Which settings of a panel the site holds: all of them where they are at most MOST, else those of KEPT, else evenly spaced ones of each control."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...show.panels import CLOCK, ORDER, Choice, Slider

MOST = 200          # launches a panel

# Panel -> control -> the values kept, or a number: so many, evenly spaced. What is not named is kept whole. Chosen so that every thing which the lesson's
# text sends the reader to the panel for can be seen; a control with one value stands still on the page.
KEPT: Mapping[str, Mapping[str, Sequence[Any] | int]] = {
    "03_ampere_pipeline-panel": {"stages": (2, 3, 4, 8, 15), "k": (128, 256), "schedule": ("lazy", "eager"), CLOCK: (ORDER, "estimated cycles")},
    "03x_cuda_pipeline-panel": {CLOCK: (ORDER, "estimated cycles")},
    "04_mbarrier-panel": {"stages": 1, "tiles": 1, "schedule": 1},
    "05_tma_tiles-panel": {"rank": (2, 3), "rows": (4, 8), "columns": (7, 8), "row": (-2, 2, 5), "column": (-4, 4, 8)},
    "06_tma_layouts-panel": {"row_bytes": (32, 64, 128), "row": (0, 3, 7), "column": (5, 20), "start": (0, 128)},
    "06x_im2col_interleave-panel": {"edge": (1, 3, 5), "stride": (1, 2), "padding": (0, 1, 2), "channels": 1},
    "08_wgmma-fragment-picture": {"row": (0, 1, 2, 7, 8, 9, 15, 16, 21, 24, 32, 40, 48, 63), "column": (0, 1, 2, 3, 4, 7, 8, 9, 13, 16, 24, 32, 48, 63)},
    "08_wgmma-panel": {"n": (8, 64, 100, 128, 256), "blocks": (4, 6), "schedule": ("lazy", "eager"), CLOCK: (ORDER, "estimated cycles")},
    "10_warp_specialization-panel": {CLOCK: (ORDER, "estimated cycles")},
    "11_setmaxnreg-panel": {"producer": (24, 32, 40), "consumer": (168, 192, 208, 232, 240, 256)},
    "12_clusters-panel": {"schedule": ("lazy", "random"), CLOCK: (ORDER, "estimated cycles")},
    "13_persistent-raster-panel": {"group": (2, 4, 8, 16), "wave": (1, 2, 3, 5)},
    "13_persistent-panel": {"cols": (1, 2), "group": (1, 2), "stages": (3, 4), "landing": ("lazy", "random"), CLOCK: (ORDER, "estimated microseconds")},
    "13x_launches_that_overlap-panel": {"kernels": (2, 5), "landing": ("lazy",)},
    "14_beat_cublas-panel": {"shape": 2, "stages": (2, 4), "tile": ("64x128", "128x192", "128x256", "256x192", "256x256")},
    "15_fp8_gemm-panel": {"power": (0, 8, 12, 16, 20), "k": (128, 200, 512)},
    "15x_mixed_and_sparse-panel": {"group": (64, 128), "m": (16, 40), "landing": ("lazy",)},
    "16_attention-panel": {"d": (64, 256), "length": (100, 256), "keys": (64, 128), CLOCK: (ORDER, "estimated cycles")},
    "16b_backward-panel": {CLOCK: (ORDER, "estimated cycles")},
    "16x_fp8_attention-panel": {"length": (1, 100, 192, 256), CLOCK: (ORDER, "estimated cycles")},
}


def grid(name: str, controls: Mapping[str, Slider | Choice], most: int = MOST) -> dict[str, list[Any]]:
    """The values that each control has on the site, in their order, the start among them; their product is at most `most`.

    Raises ValueError for an entry of KEPT that names no control, a value that the control has not, or too many settings.
    """
    kept = KEPT.get(name, {})
    if unknown := set(kept) - set(controls):
        raise ValueError(f"{name}: KEPT names {sorted(unknown)}; its controls are {sorted(controls)}")
    chosen = {control: _chosen(f"{name}, {control}", list(what.values), what.start, kept.get(control)) for control, what in controls.items()}
    if kept and size(chosen) > most:
        raise ValueError(f"{name}: KEPT leaves {size(chosen)} settings; at most {most} are launched")
    while size(chosen) > most:
        widest = max(chosen, key=lambda control: (len(chosen[control]), isinstance(controls[control], Slider)))
        chosen[widest] = thinned(list(controls[widest].values), len(chosen[widest]) - 1, controls[widest].start)
    return chosen


def size(chosen: Mapping[str, Sequence[Any]]) -> int:
    """How many settings a grid has."""
    return math.prod(map(len, chosen.values()))


def settings(chosen: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Every setting, the last control moving fastest."""
    for values in itertools.product(*chosen.values()):
        yield dict(zip(chosen, values, strict=True))


def thinned(values: Sequence[Any], count: int, start: Any) -> list[Any]:
    """At most `count` of the values, in their order: the start, and others as evenly spaced as they come. Raises ValueError for a count below 1."""
    if count < 1:
        raise ValueError(f"a control keeps at least one value, not {count}")
    if count == 1:
        return [start]
    at = {round(i * (len(values) - 1) / (count - 1)) for i in range(count)}
    first = list(values).index(start)
    if first not in at:
        at = at - {min(at, key=lambda i: abs(i - first))} | {first}
    return [values[i] for i in sorted(at)]


def _chosen(where: str, values: list[Any], start: Any, kept: Sequence[Any] | int | None) -> list[Any]:
    if isinstance(kept, int):
        return thinned(values, kept, start)
    if kept is not None and (gone := [value for value in kept if value not in values]):
        raise ValueError(f"{where}: KEPT names {gone}, which the control does not have; it has {values}")
    return values if kept is None else [value for value in values if value in {*kept, start}]
