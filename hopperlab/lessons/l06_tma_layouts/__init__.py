# SPDX-License-Identifier: Apache-2.0
"""Lesson 06, Layouts: where TMA puts each element. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l05_tma_tiles.landed_box": "land_bytes",
    ".checks": "check_addresses",
    ".columns": "access_table launch_columns read_columns",
    ".exercise_figures": "draw_column_reads",
    ".followed_element": "follow_element",
    ".recorded": "swizzle_cost swizzle_reads",
})
