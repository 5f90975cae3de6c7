# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a wrong result came from: a result that holds the right numbers in other places says which places were mixed up.

Only values that occur once in the right result tell their place; where too few do, or one number stands everywhere, nothing is said.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

FEWEST = 4                 # elements in other places, before anything is said
ENOUGH = 0.9               # of the wrong elements whose place is known follow a pattern that is named


def words(name: str, got: np.ndarray, expected: np.ndarray) -> str:
    """A sentence with a space before it, or ''. got, expected: arrays of equal shape that differ."""
    got, expected = np.asarray(got), np.asarray(expected)
    places, origins = _moves(got, expected)
    wrong = int(np.count_nonzero(got != expected))
    if len(places) < max(FEWEST, wrong / 2) or len(np.unique(origins, axis=0)) < len(origins) / 2:
        return ""
    first, origin = (", ".join(map(str, index)) for index in (places[0], origins[0]))
    every = "Every wrong element is" if len(places) == wrong else f"{len(places)} of the wrong elements are"
    pattern = _pattern(places, origins, got.shape)
    return f" {every} right elsewhere: {name}[{first}] holds what belongs to {name}[{origin}]" + (f"; {pattern}." if pattern else ".")


def _moves(got: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of wrong elements whose value occurs once in `expected`, and the places where it does: two arrays (elements, axes)."""
    values, first, counts = np.unique(expected, return_index=True, return_counts=True)
    at = np.flatnonzero((got != expected).ravel())
    nearest = np.clip(np.searchsorted(values, got.ravel()[at]), 0, len(values) - 1)
    known = (values[nearest] == got.ravel()[at]) & (counts[nearest] == 1)
    flat = at[known], first[nearest[known]]
    there, came = (np.stack(np.unravel_index(index, got.shape), axis=1) for index in flat)
    return there, came


def _pattern(places: np.ndarray, origins: np.ndarray, shape: tuple[int, ...]) -> str:
    """What most moves have in common, in words, or ''."""
    def most(true: np.ndarray) -> bool:
        return bool(true.mean() >= ENOUGH)

    if len(shape) == 2:
        (row, column), (from_row, from_column) = places.T, origins.T
        if most((from_row == column) & (from_column == row)):
            return "rows and columns have changed places"
        if most(from_row == row):
            xor = _swizzled(row, column ^ from_column, most)
            if xor:
                return xor
        if most(from_row == row) and most(from_column == shape[1] - 1 - column):
            return "each row stands in reverse order"
    for axis in range(len(shape)):
        step = int(np.median(origins[:, axis] - places[:, axis]))
        others = np.delete(origins - places, axis, axis=1)
        if step and most((origins[:, axis] - places[:, axis] == step) & (others == 0).all(axis=1)):
            return f"all along axis {axis} by {abs(step)} {'ahead' if step > 0 else 'behind'}"
    return ""


def _swizzled(row: np.ndarray, moved: np.ndarray, most: Callable[[np.ndarray], bool]) -> str:
    """The XOR of a swizzle that one side applied and the other did not: moved == (row % period) * unit."""
    for period in (8, 4, 2, 16, 32):
        for unit in (1, 2, 4, 8, 16):
            if most(moved == row % period * unit):
                return "the column is XORed with the number of the row, so one side of shared memory swizzles and the other does not"
    return ""
