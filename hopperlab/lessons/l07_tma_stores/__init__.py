# SPDX-License-Identifier: Apache-2.0
"""Lesson 07, Stores, reductions, and who sees what when. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_split_k draw_store_slots",
    ".proxies": "fenced handover_diagram order_diagram run_places",
    ".recorded": "exchange_chart reduction_rates store_table",
    ".reductions": "check_split_k launch_reduce reduce_tile reduced types_table write_groups",
})
