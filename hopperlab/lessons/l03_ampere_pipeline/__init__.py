# SPDX-License-Identifier: Apache-2.0
"""Lesson 03, The Ampere pipeline: copies in flight under the tensor core. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".bank_words": "bank_map",
    ".checks": "check_ring",
    ".exercise_figures": "draw_groups draw_ring_depths",
    ".pipeline_panel": "launch_pipeline",
    ".recorded": "best_depth stages_chart",
})
