# SPDX-License-Identifier: Apache-2.0
"""Lesson 14, Beating cuBLAS: one kernel, many shapes. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l09x_profiling.profiling": "profiles_table",
    ".choices": "check_tuning choice_model_chart configuration described launch_choice leaderboard picks_table random_ratios random_shapes_chart run_choice small_shape",
    ".exercise_figures": "draw_contract draw_waves",
    ".ladder_figures": "ladder",
    ".recorded": "gains_table power_table",
})
