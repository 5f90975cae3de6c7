# SPDX-License-Identifier: Apache-2.0
"""Lesson 13, Persistent kernels: what happens between two tiles. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_serpentine draw_turns",
    ".raster": "launch_raster reuse_table tile_order waves_chart waves_table",
    ".old_c": "equal_tiles_table onto_table run_reads_c under_the_products",
    ".recorded": "branches_table",
    ".waiting_model": "schedule_model",
    ".schedules": "launch_schedule run_schedule turns",
    ".split_work": "check_order run_fused run_stream_k work_map",
})
