"""One `__device__` wrapper of the course's headers, with the comment above it and the numbers of its lines."""

from __future__ import annotations

import re

from .source import Listing, listing


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
