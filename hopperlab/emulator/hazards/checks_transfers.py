# SPDX-License-Identifier: Apache-2.0
"""Whether st.async, red.async and expect_tx keep to what the PTX ISA defines: where the two addresses of the first two lie (9.7.9.12, 9.7.13.7), and how many bytes an
mbarrier can count (9.7.13.15.2)."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..machine.events import Listener
from . import findings_barriers

if TYPE_CHECKING:
    from ..machine.cohort import Cohort
    from .findings import Watched


class Transfers(Listener):
    """Keeps nothing."""

    def __init__(self, machine: Watched) -> None:
        self.M = machine

    def async_stored(self, C: Cohort, flat: np.ndarray, nbytes: int, ids: np.ndarray, index: int, reduction: bool) -> None:
        """What is written and the mbarrier that counts it are in one CTA; that of a reduction is another one than its thread's."""
        M = self.M
        to, counts = flat // M.stride, ids // M.barriers.capacity
        apart, own = np.flatnonzero(to != counts), np.flatnonzero(to == C.gids // M.T) if reduction else ()
        for lane in apart[:1].tolist():
            findings_barriers.async_apart(M, index, int(C.gids[lane]), int(to[lane]) % M.cluster, int(counts[lane]) % M.cluster)
        for lane in own[:1]:
            findings_barriers.async_own(M, index, int(C.gids[lane]), int(to[lane]) % M.cluster)

    def expected_too_much(self, gid: int, barrier: int, nbytes: int, index: int) -> None:
        """A count of bytes that wraps around."""
        findings_barriers.expect_range(self.M, index, gid, barrier, nbytes, int(self.M.barriers.tx[barrier]) + nbytes)
