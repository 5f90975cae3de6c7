# SPDX-License-Identifier: Apache-2.0
"""Lesson 01, Feeding the tensor core: bytes in flight. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_register_buffer draw_tiles_ahead",
    ".feeding": "enough_in_flight launch_tile littles_law needs_of",
    ".ladder_start": "check_flight first_steps step_times",
    ".shares": "who_computes",
})
