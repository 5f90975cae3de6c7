# SPDX-License-Identifier: Apache-2.0
"""Lesson 16, Attention: an exponential between two products. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".attention_charts": "attention_chart attention_designs attention_steps attention_table balance_table causal_map counted_blocks "
                         "exponential_roofline key_blocks last_over_first sharing_table",
    ".attention_on_gpu": "attention_measured",
    ".attention_panels": "attention_order check_merge launch_attention overlaps run_attention",
    ".exercise_figures": "draw_attention_turns draw_running_maximum",
})
