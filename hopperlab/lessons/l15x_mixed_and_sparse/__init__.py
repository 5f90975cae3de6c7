# SPDX-License-Identifier: Apache-2.0
"""Lesson 15x, Mixed and sparse: weights of 4 and 8 bits, two kinds of fp8, and 2:4 sparse weights. Its figures, panels, checks and exercises; the
notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_bytes draw_words",
    ".mixed_runs": "check_wrong choices_table fp8_table launch_mixed run_int run_sparse weights_table",
    ".prepared_pictures": "bits_table fields_picture metadata_picture",
    ".recorded": "configurations_table energy_table groups_table many_chart products_table speedup",
})
