# SPDX-License-Identifier: Apache-2.0
"""Lesson 16x, Attention in 8 bits. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".fp8_attention_charts": "attention_fp8_chart attention_fp8_errors attention_fp8_table gain_over_bf16 promotion_cost",
    ".fp8_attention_panels": "balance_table_fp8 check_place keys_map keys_table launch_attention_fp8 run_attention_fp8 terms_table",
})
