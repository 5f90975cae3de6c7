# SPDX-License-Identifier: Apache-2.0
"""Lesson 19, Two GPUs: peer memory, flags between devices, and products that copy while they multiply. The notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".device_runs": "check_flags copied handed_over in_this_place launch_gathered run_gathered run_reduce run_scattered where",
    ".exercise_figures": "draw_pieces draw_share",
    ".overlap_model": "overlap_picture reduce_table waits_table",
    ".recorded": "burst_line flag_line least_share link_chart products_table reduce_chart scatter_ways_table ways_table",
})
