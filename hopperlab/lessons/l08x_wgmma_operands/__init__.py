# SPDX-License-Identifier: Apache-2.0
"""Lesson 08x, wgmma's operands: registers, majors and types. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".operand_kinds": "check_mn_descriptor launch_operands major_rates multiply_operands operand_builds operand_costs operand_numbers "
                      "rates_chart step_map type_rates wavefronts_beside wavefronts_of width_chart",
})
