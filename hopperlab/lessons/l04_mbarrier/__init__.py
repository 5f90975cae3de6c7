# SPDX-License-Identifier: Apache-2.0
"""Lesson 04, The mbarrier: counting arrivals and bytes. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_phases draw_ring",
    ".handovers": "handover_cost",
    ".stepper": "barrier_steps launch_stepper ring_counts ring_run step_words",
    ".two_slots": "check_two_slots",
})
