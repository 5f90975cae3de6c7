# SPDX-License-Identifier: Apache-2.0
"""Lesson 13x, Launches that overlap: what a kernel's start costs, and who hides it. Its figures, panels, checks and exercises; the notebook imports
this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".chain_model": "chain_picture",
    ".chain_runs": "WAYS check_above forked launch_chain placements_table run_chain run_persistent",
    ".exercise_figures": "draw_starts draw_wait",
    ".recorded": "bugs_table clusters_table gain gains_table length_chart placement_table starts_table ways_table when_picture",
})
