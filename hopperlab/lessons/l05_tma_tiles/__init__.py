# SPDX-License-Identifier: Apache-2.0
"""Lesson 05, Tiles by TMA: one thread copies a box. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".boxes": "box_explorer inside reference_box",
    ".checks": "check_halo",
    ".exercise_figures": "draw_halo",
    ".landed_box": "land land_bytes",
    ".recorded": "boxes_chart boxes_table",
    ".whole_program": "launch_program three_rows",
})
