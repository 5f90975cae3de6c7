# SPDX-License-Identifier: Apache-2.0
"""Lesson 16b, Attention backward: five products and a sum that nobody owns. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".backward_charts": "accuracy_table adds_map balance_table_backward backward_chart backward_table bits_table if_recorded parts_table registers_table "
                        "steps_table times_as_long",
    ".exercise_figures": "draw_row draw_starts_of_products",
    ".backward_panels": "backward_order check_waits distinct_results launch_backward run_backward",
})
