# SPDX-License-Identifier: Apache-2.0
"""Parts of the course's CUDA with the numbers of their lines: one `__device__` wrapper of a header, or the lines between two texts of a kernel."""

from __future__ import annotations

import re

from .listings import Listing, listing


def wrapper(name: str, header: str) -> Listing:
    """The function `name` of include/hopperlab/`header`.cuh. Raises ValueError when the header has no such function."""
    import hopperlab

    path = f"include/hopperlab/{header}.cuh"
    rows = hopperlab.kernel_source(path).split("\n")
    at = next((i for i, row in enumerate(rows) if re.search(rf"__forceinline__ .*\b{re.escape(name)}\(", row)), None)
    if at is None:
        raise ValueError(f"{path} has no wrapper {name!r}")
    first = at
    while first > 0 and rows[first - 1].startswith(("//", "template")):
        first -= 1
    last = next(i for i in range(at, len(rows)) if rows[i].startswith("}"))
    return listing("\n".join(rows), f"hopperlab/{header}.cuh", (first + 1, last + 1))


def excerpt(path: str, begin: str, end: str) -> Listing:
    """The lines of a kernel file from the first that contains `begin` to the next that contains `end`, both shown. Raises ValueError when there are none."""
    import hopperlab

    text = hopperlab.kernel_source(path)
    rows = text.split("\n")
    first = next((i for i, row in enumerate(rows) if begin in row), None)
    last = None if first is None else next((i for i in range(first, len(rows)) if end in rows[i]), None)
    if first is None or last is None:
        raise ValueError(f"{path} has no lines from {begin!r} to {end!r}")
    return listing(text, path, (first + 1, last + 1))
