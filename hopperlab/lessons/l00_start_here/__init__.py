# SPDX-License-Identifier: Apache-2.0
"""Lesson 00, Start here: an answer that matches is no proof. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".checks": "check_intensities",
    ".on_roof": "launch_on_roof",
    ".recorded": "folds_table timing_lesson",
    ".rooflines": "gemm_intensity Point roofline",
    ".this_machine": "doctor kindest_place",
})
