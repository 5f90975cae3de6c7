# SPDX-License-Identifier: Apache-2.0
"""Lesson 08, wgmma: the tensor core reads shared memory itself. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".descriptors": "check_descriptor decode_words descriptor_map launch_fragment owner_words step_table",
    ".one_tile": "launch_groups most_in_flight multiply_tile one_tile_operands",
    ".recorded": "wgmma_groups wgmma_rates",
})
