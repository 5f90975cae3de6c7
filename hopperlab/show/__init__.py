"""Figures (Matplotlib) and panels (ipywidgets) built on `hopper/`, `measure/` and runs. Every one has a text fallback.

Imported by the notebooks as `from hopperlab import show`; needs the `lab` extra.
"""

from .answers import check_halo, check_intensities, check_ring
from .boxes import box_explorer, inside, reference_box
from .charts import bars, lines
from .ladder import ladder
from .landing import land, land_bytes
from .panels import Choice, Panel, Slider, panel
from .recorded import best_depth, boxes_chart, boxes_table, bugs_table, ceilings, folds_table, gemm_bars, percent_of_peer, stages_chart, timing_lesson
from .recorded_lessons import store_table, swizzle_cost
from .reports import doctor, explain, hazards, kindest_place, lines_named
from .roofline import Point, attainable, gemm_intensity, roofline
from .runs import launch_on_roof, launch_pipeline, ring_spans, ring_timeline
from .sass import sass
from .source import listing, source
from .stages import stage_diagram, stage_plan
from .style import Picture
from .swizzles import access_table, check_addresses, follow_element, launch_columns, read_columns
from .tiles import bank_map, swizzled_tile, tile_table, wavefronts
from .timelines import Span, gantt
from .voting import predict, vote

__all__ = ["Choice", "Panel", "Picture", "Point", "Slider", "Span", "attainable", "bank_map", "bars", "best_depth",
           "box_explorer", "boxes_chart", "boxes_table", "bugs_table", "ceilings", "check_halo", "check_intensities",
           "check_ring", "doctor", "explain", "folds_table", "gantt", "gemm_bars", "gemm_intensity", "hazards", "inside", "kindest_place",
           "ladder", "land", "land_bytes", "launch_on_roof", "launch_pipeline", "lines", "lines_named", "listing", "panel",
           "percent_of_peer", "predict", "reference_box", "ring_spans", "ring_timeline", "roofline", "sass", "source", "stage_diagram",
           "stage_plan", "stages_chart", "swizzled_tile", "tile_table", "timing_lesson", "vote", "wavefronts",
           "access_table", "check_addresses", "follow_element", "launch_columns", "read_columns", "store_table", "swizzle_cost"]
