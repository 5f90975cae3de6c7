# SPDX-License-Identifier: Apache-2.0
"""Runs pip and says every few seconds how far it is: python -P pip_progress.py install ... Used by make, before anything is installed.

Needs nothing but Python's standard library. pip's own errors and warnings pass through; its exit code is this one's.
"""
from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator

EVERY_SECONDS = 5.0


def told(lines: Iterable[str], clock: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """What is worth saying of pip's output, at most one line every few seconds: packages found, a download under way, the installation itself."""
    found, last = 0, clock()
    for line in lines:
        now = clock()
        if line.startswith("Installing collected packages"):
            yield f"    unpacking {line.count(',') + 1} packages"
            found = -1
        if found < 0:
            continue
        large = re.match(r"\s*Downloading (\S+?)-\d\S* \((\d+(?:\.\d+)? [MG]B)\)", line)
        found += line.startswith("Collecting ")
        if large and float(large[2].split()[0]) >= 20:
            yield f"    downloading {large[1].split('/')[-1]}, {large[2]}"
            last = now
        elif now - last >= EVERY_SECONDS:
            yield f"    {found} packages found so far"
            last = now


def main(arguments: list[str]) -> int:
    """Run `pip` with these arguments; returns its exit code."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, "--progress-bar", "off"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
    try:
        for line in told(process.stdout or ()):
            print(line, flush=True)
    except KeyboardInterrupt:
        process.terminate()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
