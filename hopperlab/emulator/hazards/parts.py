# SPDX-License-Identifier: Apache-2.0
"""Lanes of one warp that name different things in one instruction: mbarriers, flags, named barriers, member masks. Each group publishes and learns by itself."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..machine.cohort import Cohort
from ..machine.units import Units

if TYPE_CHECKING:
    from .findings import Watched


def parts(M: Watched, C: Cohort, keys: np.ndarray) -> tuple[Cohort, Units, Any]:
    """A cohort of which lanes of one warp may name different things (`keys`, by lane): its lanes in such an order, and with such units, that each unit is
    of one warp and names one thing; and that thing by unit."""
    units = M.units(C)
    mine = keys[units.starts]
    if C.n == len(mine) or (keys == np.repeat(mine, np.diff(np.append(units.starts, C.n)))).all():
        return C, units, mine
    order = np.lexsort((C.gids, keys, C.gids >> 5))
    apart = Cohort(C.gids[order], None, C.pc)  # type: ignore[arg-type]  # reads no registers
    units = Units(apart, M.alive, keys[order])
    return apart, units, keys[order][units.starts]
