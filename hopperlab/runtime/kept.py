# SPDX-License-Identifier: Apache-2.0
"""What functions of the course have computed and kept (functools' caches of measure, show and lessons), and how to forget it."""
from __future__ import annotations

import sys

ROOMS = ("hopperlab.measure", "hopperlab.show", "hopperlab.lessons")


def forget() -> None:
    """Whoever asks next computes, reads or launches anew."""
    for name in [name for name in sys.modules if name.startswith(ROOMS)]:
        for value in list(vars(sys.modules[name]).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()
