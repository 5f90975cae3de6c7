# SPDX-License-Identifier: Apache-2.0
"""Lesson 02's tables and checks: counts beside Nsight Compute's, wrong elements named by where they came from, and the exercise."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...hopper import swizzle
from ...measure import recordings
from ...runtime.tables import text_table

SHOWN = ("shared_load_wavefronts", "shared_load_conflicts", "shared_store_wavefronts", "shared_store_conflicts")


def counted_beside(runs: Mapping[str, Any]) -> str:
    """Shared-memory counts of emulated runs beside those that Nsight Compute recorded for the kernel with the same accesses.

    runs: name of a kernel in recordings/counters.json -> run. Says for each whether every count is equal. Raises LookupError for
    a kernel that was not recorded.
    """
    data = json.loads(recordings.path_of("counters").read_text(encoding="utf-8"))
    measured = {row["kernel"]: row["gpu"] for row in data["rows"]}
    head = data["header"]
    rows = []
    for name, run in runs.items():
        if name not in measured:
            raise LookupError(f"recordings/counters.json has no kernel {name!r}")
        pairs = [(measured[name][counter], run.counters[counter]) for counter in SHOWN]
        cells = [f"{there} / {here}" for there, here in pairs]
        same = "equal" if all(there == here for there, here in pairs) else "DIFFERENT"
        rows.append((name, *cells, same))
    lines = text_table("{:20} {:>17} {:>12} {:>17} {:>12}  {}", rows, ("", "load wavefronts", "conflicts", "store wavefronts", "conflicts", ""))
    return "\n".join([f"Nsight Compute on {head['gpu']}, driver {head['driver']}, {head['date']}, beside the emulator here", *lines])


def whence(got: np.ndarray, expected: np.ndarray) -> str:
    """Where the elements of a square result came from, in words, when all of `expected` differ from each other.

    Finds results in which each element is another element of the expected array, moved by an XOR of its row and column: what is seen
    when writer and reader of shared memory disagree on a swizzle. got, expected: (n, n).
    """
    wrong = int((got != expected).sum())
    if not wrong:
        return "every element is in its place"
    first = {value: place for place, value in np.ndenumerate(expected)}
    lines = [f"{wrong} of {got.size} elements are wrong"]
    if any(value not in first for value in got.ravel().tolist()):
        return lines[0] + ", and some are no element of the right result: this is no mere change of places"
    rows, columns = np.indices(got.shape)
    from_row, from_column = (np.array([first[value][axis] for value in got.ravel().tolist()]).reshape(got.shape) for axis in (0, 1))
    moves = {"its own row, column i ^ j": (rows, rows ^ columns), "row i ^ j, its own column": (rows ^ columns, columns)}
    for name, (r, c) in moves.items():
        if (from_row == r).all() and (from_column == c).all():
            lines.append(f"every element is an element of the right result: place (i, j) holds the one of {name}")
            lines.append("so one side of shared memory applied the XOR and the other did not")
            return "\n".join(lines)
    return lines[0] + "; all are elements of the right result, in places that no XOR of row and column explains"


def _no_offset(given: np.ndarray) -> str:
    """The first (row, piece) of 16 x 8 whose offset is none: no whole number, or outside of the tile."""
    row, piece = next((row, piece) for row, piece in np.ndindex(16, 8) if given.dtype.kind not in "iu" or not 0 <= given[row, piece] < 16 * 128)
    if given.dtype.kind not in "iu":
        return f"place({row}, {piece}) is {given[row, piece]}, and an offset is a whole number: / gives a fraction in Python, // does not."
    return (f"place({row}, {piece}) = {given[row, piece]} lies outside of the tile: rows 0 to 15 are asked, bytes 0 to 2047. The pieces of a row change places "
            "with one another: how large may the number be that a piece of 0 to 7 is XORed with?")


def check_xor(place: Callable[[int, int], int] | None) -> str:
    """Lesson 02's exercise: place(row, piece) -> byte offset of a 16-byte piece (0 to 7) of a row of 128 bytes, in the 128-byte swizzle.

    Judges bounds, that no two pieces collide, the conflicts of a column, and last whether it is the hardware's pattern.
    """
    if place is None:
        return "Not answered yet: write place as one expression with one XOR, then run the cell again."
    rows, pieces = np.indices((16, 8))
    plain = 128 * rows + 16 * pieces
    try:
        given = np.array([[place(row, piece) for piece in range(8)] for row in range(16)])
    except TypeError as error:
        return f"It could not be called: {error}. It takes two whole numbers and gives one."
    if given.dtype.kind not in "iu" or (given < 0).any() or (given >= 16 * 128).any():
        return _no_offset(given)
    if (given % 16).any():
        row, piece = np.argwhere(given % 16 != 0)[0]
        return f"place({row}, {piece}) = {given[row, piece]} is not a multiple of 16: a piece of 16 bytes moves whole."
    if len(np.unique(given)) != given.size:
        return "Two pieces lie at the same offset, so one overwrites the other. An XOR with a number that depends on the row alone never does that."
    from ...show import tiles

    worst = max(tiles.wavefronts(given[first : first + 8, piece], 16) for first in (0, 8) for piece in range(8))
    if worst > 1:
        return f"No piece is lost, but eight rows of one column take {worst} wavefronts where 1 would do. Which bits of the address choose the bank?"
    if (given == swizzle.apply(plain, "128B")).all():
        return "Right: no piece is lost, every column of eight rows is free of conflicts, and it is the pattern that TMA and wgmma call the 128-byte swizzle."
    row, piece = np.argwhere(given != swizzle.apply(plain, "128B"))[0]
    return (f"It works: no piece is lost and every column is free of conflicts. The hardware's pattern is another: piece {piece} of row {row} lies at "
            f"{int(swizzle.apply(plain, '128B')[row, piece])} there, and at {given[row, piece]} in yours.")
