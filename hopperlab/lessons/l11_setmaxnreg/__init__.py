# SPDX-License-Identifier: Apache-2.0
"""Lesson 11, setmaxnreg: the register file as a budget. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l10_warp_specialization.register_budget": "registers_at_entry",
    ".budget": "budget_changes budget_chart budget_table check_registers launch_roles role_build roles_table",
    ".exercise_figures": "draw_large_tile",
})
