# SPDX-License-Identifier: Apache-2.0
"""Lesson 09x, Profiling: which number names the reason. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l08_wgmma.one_tile": "multiply_tile",
    ".estimate_beside": "estimate_table estimated_block timelines_beside",
    ".profiling": "check_counts count_kernel counters_beside diagnosis_table doors_table issue_share KERNELS launch_counters machine_map metric_words profile_chart "
                  "profile_table same_counts stalls_table symptoms_table",
})
