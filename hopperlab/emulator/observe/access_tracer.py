# SPDX-License-Identifier: Apache-2.0
"""The timeline with what warps do themselves, too: ordinary loads and stores, products, and barriers they pass. For checks that ask what overlaps."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..machine.cohort import Cohort


class AccessTracer(Tracer):
    """Records one event of kind 'access' for each warp that runs such an instruction, in the order of the program."""

    def _by(self, what: str, C: Cohort, index: int) -> None:
        self._threads("access", what, C.gids, index)

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list, info: Any) -> None:
        """ld of global memory."""
        self._by("load global", C, info.index)

    def global_written(self, C: Cohort, address: NDArray[Any], parts: list, info: Any, value: Callable[..., Any]) -> None:
        """st to global memory."""
        self._by("store global", C, info.index)

    def shared_read(self, C: Cohort, flat: NDArray[Any], info: Any) -> None:
        """ld of shared memory."""
        self._by("load shared", C, info.index)

    def shared_written(self, C: Cohort, flat: NDArray[Any], info: Any, value: Callable[..., Any]) -> None:
        """st to shared memory."""
        self._by("store shared", C, info.index)

    def multiplied(self, C: Cohort, index: int, what: str, warps: int) -> None:
        """mma.sync or wmma."""
        self._by("multiply", C, index)

    def named_arrived(self, C: Cohort, keys: NDArray[Any], threads: NDArray[Any], info: Any) -> None:
        """bar.sync and its kin."""
        self._by("meet bar", C, info.index)
