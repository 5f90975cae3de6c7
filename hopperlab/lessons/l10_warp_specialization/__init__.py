# SPDX-License-Identifier: Apache-2.0
"""Lesson 10, Warp specialisation: warps with roles. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l04_mbarrier.handovers": "handover_cost",
    "..l09_multistage.overlap": "run_product",
    ".elected": "elected_table",
    ".exercise_figures": "draw_columns_of_consumers draw_slot_barriers",
    ".warp_roles": "check_second_consumer cost_of_marks launch_warp_roles lead own_load_cost role_instructions ROLES roles_chart roles_gains "
                   "tiles_on_way time_by_warp trace_roles waiting_share",
})
