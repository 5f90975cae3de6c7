# SPDX-License-Identifier: Apache-2.0
"""Lesson 06x, im2col and interleave: TMA for convolutions. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".core_matrices": "slices_as_operand",
    ".convolutions": "check_corners convolution_matrix convolve corners corners_table image_of interleaved launch_im2col layout_picture layouts_table "
                     "load_matrix load_sliced SLICES tail_table walk walk_picture where_from",
})
