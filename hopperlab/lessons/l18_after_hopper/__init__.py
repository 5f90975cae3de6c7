# SPDX-License-Identifier: Apache-2.0
"""Lesson 18, After Hopper: what stays, what goes, and what it is called elsewhere. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".other_languages": "gluon_without_wait products_beside recorded_roles roles_beside roles_on_tall_tile triton_with_roles",
    ".generations": "accepted generations_table INSTRUCTIONS issued issued_chart",
})
