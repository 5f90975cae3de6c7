# SPDX-License-Identifier: Apache-2.0
"""Lesson 16d, Decoding: one query against a long cache. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".decoding_model": "intensity_table plan_picture plan_table rows_table",
    ".decoding_runs": "check_splits launch_decoding pages_table run_behind run_decoding",
    ".exercise_figures": "draw_parts draw_splits",
    ".recorded": "bugs_table cells_chart cells_table depth_table latent_table pages_recorded share splits_chart",
})
