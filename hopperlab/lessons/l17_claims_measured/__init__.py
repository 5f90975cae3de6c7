# SPDX-License-Identifier: Apache-2.0
"""Lesson 17, Forty-three claims, measured; and an article's kernel, repaired. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".article_listing": "check_repairs claims_report remaining run_article verdict_chart verdicts",
    ".printed_pipeline": "printed_steps SOURCE",
    ".printed_registers": "REGISTERS register_steps",
})
