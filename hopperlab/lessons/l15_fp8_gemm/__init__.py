# SPDX-License-Identifier: Apache-2.0
"""Lesson 15, fp8: scales for every block, and sums that keep their bits. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l09x_profiling.profiling": "profiles_table",
    ".exercise_figures": "draw_e4m3_error draw_promotions",
    ".fp8_measured": "accuracy_chart accuracy_table beside_table cut_sum every_table fp8_chart fp8_table geometric_mean grouped_table "
                     "once_table speed_left sums_beside tiles_table",
    ".fp8_steps": "check_wide exact_operands STEPS promotion_picture run_fp8 run_grouped steps_table tile_traffic_fp8",
    ".scales": "e4m3_chart launch_scales OUTLIERS SCALES scales_table",
})
