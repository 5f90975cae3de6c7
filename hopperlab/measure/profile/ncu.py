# SPDX-License-Identifier: Apache-2.0
"""Running a script under Nsight Compute: the values of the metrics asked for, kernel by kernel, and what it could not measure.

A metric that this version does not know is left out and named, never an error. Clocks stay as they are.
"""
from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


class ProfileError(RuntimeError):
    """One side could not be run; the message says why and what to do."""


@dataclass(frozen=True)
class Answer:
    """rows: one dictionary (ncu's columns) a kernel; refused: names of metrics that this ncu does not know."""

    rows: list[dict[str, str]]
    refused: list[str] = field(default_factory=list)


def find() -> str:
    """The path of ncu. Raises ProfileError without a GPU or without ncu."""
    from ...runtime.gpu.driver import find_gpu
    if find_gpu() is None:
        raise ProfileError("no NVIDIA GPU here, so Nsight Compute has nothing to measure. `hopperlab profile --emulator SCRIPT.py` "
                           "shows the emulator's counters alone")
    ncu = shutil.which("ncu")
    if ncu is None:
        raise ProfileError("ncu is not on the PATH: install NVIDIA Nsight Compute (it comes with the CUDA toolkit), or give --emulator")
    return ncu


def known(ncu: str) -> set[str]:
    """Base names of the metrics that this ncu has for Hopper; empty where it does not say."""
    asked = subprocess.run([ncu, "--query-metrics", "--chip", "gh100"], capture_output=True, text=True, check=False)
    return {line.split()[0] for line in asked.stdout.splitlines() if re.match(r"[a-z]\w*__\w+\s", line)}


def run(ncu: str, metrics: Sequence[str], command: Sequence[str], module: bool, kernel: str | None = None,
        launches: int | None = None) -> Answer:
    """Profile every kernel of a script (of a name that matches `kernel`, the first `launches` of them).

    Raises ProfileError when ncu or the script fails, or when no kernel was profiled.
    """
    asked, refused = list(metrics), []
    while True:
        text, told, code = _once(ncu, asked, command, module, kernel, launches)
        unknown = _refused(told, asked)
        if not unknown:
            break
        refused += unknown
        asked = [name for name in asked if name not in unknown]
    if code or '"Kernel Name"' not in text:
        raise ProfileError(_failure(code, told, kernel))
    return Answer(parse(text), refused)


def _once(ncu: str, metrics: Sequence[str], command: Sequence[str], module: bool, kernel: str | None,
          launches: int | None) -> tuple[str, str, int]:
    """(CSV, everything else it said, exit code) of one run."""
    python = [sys.executable, *(["-m"] if module else []), *command]
    only = [*(["--kernel-name", f"regex:{kernel}"] if kernel else []), *(["--launch-count", str(launches)] if launches else [])]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        done = subprocess.run([ncu, "--clock-control", "none", "--target-processes", "all", "--kernel-name-base", "function", "--csv",
                               "--page", "raw", "--print-units", "base", *only, "--metrics", ",".join(metrics), "--log-file", str(log),
                               *python],
                              env={**os.environ, "HOPPERLAB_BACKEND": "gpu"}, capture_output=True, text=True, check=False)
        text = log.read_text() if log.exists() else ""
    told = "\n".join([*(line for line in text.splitlines() if line.startswith("==")), done.stdout[-800:], done.stderr[-1500:]])
    return text, told, done.returncode


def _refused(told: str, metrics: Sequence[str]) -> list[str]:
    """Names that ncu complained about ('Failed to find metric …')."""
    complaints = [line for line in told.splitlines() if re.search(r"(?i)(failed to find|unknown|invalid|could not find).*metric", line)]
    return [name for name in metrics if any(re.search(rf"\b{re.escape(name.split('.')[0])}\b", line) for line in complaints)]


def _failure(code: int, told: str, kernel: str | None) -> str:
    """Why there is nothing to show."""
    if "ERR_NVGPUCTRPERM" in told:
        why = "reading the counters needs permission (see NVIDIA's ERR_NVGPUCTRPERM page)"
    elif code:
        why = "the script failed under the profiler, or ncu itself did"
    else:
        why = "no kernel was profiled: the script launches none" + (f" whose name matches {kernel!r}" if kernel else "")
    return f"ncu ended with code {code}: {why}\n{told[-2500:]}"


def parse(text: str) -> list[dict[str, str]]:
    """The rows of ncu's raw CSV page (its second row holds units)."""
    rows = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    return [row for row in rows if row.get("ID")]


def number(text: str | None) -> float | None:
    """A value of ncu's CSV; None where it is empty or 'n/a'."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
