# SPDX-License-Identifier: Apache-2.0
"""What configurations of the course's kernels have in common: their choices by name, as records hold them."""
from __future__ import annotations

from dataclasses import fields


class Named:
    """A dataclass whose fields are choices, most of them a kernel's macros in lower case."""

    @property
    def named(self) -> tuple[str, ...]:
        """Every choice as NAME=value: what a record's options hold, and `parsed` reads."""
        return tuple(f"{f.name.upper()}={getattr(self, f.name)}" for f in fields(self))
