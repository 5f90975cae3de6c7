# SPDX-License-Identifier: Apache-2.0
"""Drawing that belongs to no lesson: figures (Matplotlib) and panels (ipywidgets) with a text fallback each, built on `hopper/`, `measure/` and runs.

Imported by the notebooks as `from hopperlab import show`; needs the `lab` extra. What one lesson draws is in its room of lessons/.
"""

from .charts import bars, lines
from .estimated_times import estimated
from .excerpts import excerpt, wrapper
from .hazard_words import explain, hazards, lines_named
from .listings import listing, source
from .panels import Choice, Panel, Slider, panel
from .recorded import bugs_table, ceilings, gemm_bars, if_recorded, percent_of_peer
from .rings import ring_spans, ring_timeline
from .side_by_side import sass
from .speed_by_shape import shapes_chart
from .stages import stage_diagram, stage_plan
from .style import Picture
from .tiles import swizzled_tile, tile_table, wavefronts
from .timelines import Span, gantt, timeline
from .voting import predict, vote

__all__ = [
    "Choice",
    "Panel",
    "Picture",
    "Slider",
    "Span",
    "bars",
    "bugs_table",
    "ceilings",
    "estimated",
    "excerpt",
    "explain",
    "gantt",
    "gemm_bars",
    "hazards",
    "if_recorded",
    "lines",
    "lines_named",
    "listing",
    "panel",
    "percent_of_peer",
    "predict",
    "ring_spans",
    "ring_timeline",
    "sass",
    "shapes_chart",
    "source",
    "stage_diagram",
    "stage_plan",
    "swizzled_tile",
    "tile_table",
    "timeline",
    "vote",
    "wavefronts",
    "wrapper",
]
