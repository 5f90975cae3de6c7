# SPDX-License-Identifier: Apache-2.0
"""Lesson 09, Multistage: loads under the products. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_multistage",
    ".jitter": "jitter_table",
    ".overlap": "check_later_release depth_chart depth_table enough_stages halves_chart halves_gains halves_table launch_multistage "
                "overlap_chart overlap_table ring_plan run_product stage_times Times",
})
