# SPDX-License-Identifier: Apache-2.0
"""Where the time of a run of the suite went: a line for its end."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

FILES = 6       # files that are named


def told(reports: Iterable) -> str:
    """Seconds that the tests took together, on however many workers, and the files that took most of them."""
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[report.nodeid.split("::")[0]] += report.duration
    return f"tests took {seconds.total():.0f} s in all, of which " + ", ".join(f"{name} {taken:.0f} s" for name, taken in seconds.most_common(FILES))
