# SPDX-License-Identifier: Apache-2.0
"""Lesson 03x, cuda::pipeline: the C++ face of cp.async. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".cpp_pipeline": "causes_table check_engines instructions_table ways_table launch_cpp_pipeline pipeline_chart run_pipeline run_way way_source WAYS ways_chart",
})
