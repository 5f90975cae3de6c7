# SPDX-License-Identifier: Apache-2.0
"""Whether the data went by the mechanism asked for: a second run in which only what this mechanism delivers is altered, and the result must follow.

Counters say that a mechanism was used; they do not say that anything used what it brought. A ring that nobody reads, a product that is thrown
away, loads by the back door: their counts are right, and the altered run shows them, whatever else the code does.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..emulator.machine.altered import LOADS, PRODUCTS, WAYS, Altered
from ..emulator.machine.memory import default
from ..runtime.tensor_map import TensorMap

NOISE = 20_26               # seed of what other ways find in the inputs
TOLD = {
    "tma": "while the copy engine found the inputs as they are, every other load found noise in them, and the result was wrong: it comes, in part or "
           "whole, from loads of your own. Compute from what the tensor copies brought into shared memory",
    "bulk": "while the copy engine found the inputs as they are, every other load found noise in them, and the result was wrong: it comes, in part or "
            "whole, from loads of your own. Compute from what the bulk copies brought into shared memory",
    "cp.async": "while cp.async found the inputs as they are, every other load found noise in them, and the result was wrong: it comes, in part or whole, "
                "from loads of your own. Compute from what cp.async brought into shared memory",
    "wgmma": "every product of wgmma was negated, and the result did not follow: it comes, in part or whole, from other arithmetic. Store what the "
             "accumulators of wgmma hold",
    "mma": "every product of mma.sync was negated, and the result did not follow: it comes, in part or whole, from other arithmetic. Store what the "
           "accumulators of mma.sync hold",
    "ldmatrix": "the bits that ldmatrix returns were flipped, and the result did not follow: it comes, in part or whole, from other loads. Use the "
                "registers that ldmatrix filled",
    "stmatrix": "the bits that stmatrix writes were flipped, and the result did not follow: it comes, in part or whole, from other stores. Store what "
                "stmatrix put into shared memory",
    "store": "the bits that the bulk stores write were flipped, and the result did not follow: it was written, in part or whole, by other stores",
    "reduce": "the reductions of some blocks took their share away instead of adding it, and the result did not follow: each block's reduction must bring the share "
              "of that block",
}
assert set(TOLD) == set(WAYS)


def _everywhere(_block: tuple[int, int, int]) -> bool:
    return True


@dataclass(frozen=True)
class Carried:
    """The result must come by `way` (one of WAYS, emulator/machine/altered.py).

    arrays:   of a load, the inputs that must come by it (none: those behind the tensor maps of a launch that are no outputs)
    expected: outputs of the altered run by name; None: as without, where loads are altered; negated, where products are; with their bits
              flipped, where stores are
    blocks:   of a reduction, which blocks (blockIdx) take their share away
    """

    way: str
    arrays: tuple[np.ndarray, ...] = ()
    expected: Mapping[str, Any] | None = None
    blocks: Callable[[tuple[int, int, int]], bool] = _everywhere

    def altered(self) -> Altered:
        """What the emulator changes."""
        return Altered(self.way, self.blocks)

    def expects(self, usual: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the outputs must be in the altered run, where they are `usual` without."""
        if self.expected is not None:
            return self.expected
        if self.way in LOADS:
            return usual
        change = _negated if self.way in PRODUCTS else _flipped
        return {name: change(np.asarray(value)) for name, value in usual.items()}

    @contextmanager
    def around(self, how: Altered, outputs: Iterable[np.ndarray], args: Sequence[Any]) -> Iterator[None]:
        """The surroundings of one launch of the altered run."""
        arrays = self._inputs(list(outputs), args) if self.way in LOADS else []
        with how.only_seen_by_the_engine(default(), arrays, np.random.default_rng(NOISE)):
            yield

    def _inputs(self, outputs: Sequence[np.ndarray], args: Sequence[Any]) -> list[np.ndarray]:
        mapped = [arg.array for arg in args if isinstance(arg, TensorMap)]
        return [array for array in self.arrays or mapped if not any(np.shares_memory(array, output) for output in outputs)]


def _negated(values: np.ndarray) -> np.ndarray:
    return -values


def _flipped(values: np.ndarray) -> np.ndarray:
    return (~np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")).view(values.dtype)
