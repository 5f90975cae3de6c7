# SPDX-License-Identifier: Apache-2.0
"""What one line of a deadlock's report knows, as data; its words are those of `words.SITUATIONS`."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Situation:
    """One line about threads that wait: who ('' for a hint), the key of its words in SITUATIONS, the instruction, and numbers."""

    who: str
    case: str
    end: Any               # a hazard.End, whose module needs this one; or None
    facts: Mapping[str, object]
