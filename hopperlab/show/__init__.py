"""Figures (Matplotlib) and panels (ipywidgets) built on `hopper/`, `measure/` and runs. Every one has a text fallback.

Imported by the notebooks as `from hopperlab import show`; needs the `lab` extra.
"""

from .boxes import box_explorer, inside, reference_box
from .charts import bars, lines
from .panels import Choice, Panel, Slider, panel
from .roofline import Point, attainable, gemm_intensity, roofline
from .source import listing, source
from .stages import stage_diagram, stage_plan
from .style import Picture
from .tiles import bank_map, swizzled_tile, tile_table, wavefronts
from .timelines import Span, gantt
from .voting import predict, vote

__all__ = ["Choice", "Panel", "Picture", "Point", "Slider", "Span", "attainable", "bank_map", "bars", "box_explorer", "gantt",
           "gemm_intensity", "inside", "lines", "listing", "panel", "predict", "reference_box", "roofline", "source", "stage_diagram",
           "stage_plan", "swizzled_tile", "tile_table", "vote", "wavefronts"]
