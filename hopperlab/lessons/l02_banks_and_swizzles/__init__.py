# SPDX-License-Identifier: Apache-2.0
"""Lesson 02, Banks and swizzles: laying a tile out in shared memory. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".bank_maps": "access_map ACCESS_SHAPES access_wavefronts launch_access",
    ".conflicts": "check_xor counted_beside whence",
    ".exercise_figures": "draw_swizzled_column draw_turned_corner",
    ".mma_maps": "mma_map mma_words",
})
