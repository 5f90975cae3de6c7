# SPDX-License-Identifier: Apache-2.0
"""What Nsight Compute says of the course's products and of attention, on a Hopper machine with ncu:

    python -m hopperlab.measure.profile.profiles [profiles_products] [--out DIR]

Each target is one launch of `hopperlab.measure.profile.step` under `hopperlab profile --metrics lessons`. Writes the recording that is named (`profiles`): kernel is
the step, options what stood after it, note the metric, value and unit what was measured. These are the profiler's reasons behind the figures
of `ladder`, `fp8` and `attention`.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .. import recordings
from ..launches.variants import TWO_BY_TWO
from ..machine.board import header
from . import lesson_metrics
from .lesson_metrics import METHOD, METRICS, title
from .ncu import ProfileError
from ..recordings import Record

TARGETS: tuple[tuple[str, ...], ...] = (
    ("final", "1024"), ("final", "2048"), ("final", "4096"), ("final", "8192"), ("final", "8192", "8192", "8184"), ("final", "8192", "8186", "8192"),
    ("fp8", "2048"), ("fp8", "8192"), ("fp8", "16384"), ("tensor_scale", "8192"), ("tensor_scale", "16384"),
    ("attention", "128", "full", "1024"), ("attention", "128", "full", "16384"), ("attention", "64", "causal", "1024"))
FOUR: tuple[tuple[str, ...], ...] = tuple(("two_by_two", copied, multiplied, "4096") for copied, multiplied in TWO_BY_TWO)
SETS: Mapping[str, tuple[tuple[str, ...], ...]] = {"profiles": TARGETS, "profiles_products": FOUR}
"""Recording -> its targets."""
KERNELS = "gemm|attention"


def profiled(target: tuple[str, ...]) -> list[Record]:
    """The records of one target. Raises ProfileError when there is no ncu, or it measured nothing."""
    found, _ = lesson_metrics.measure(["hopperlab.measure.profile.step", *target], True, KERNELS, 1)
    units = {title(metric): metric.unit for metric in METRICS}
    if not found:
        raise ProfileError(f"no kernel of {' '.join(target)} was seen")
    return [Record("profiles", target[0], target[1:], value=value, unit=units[name], note=name) for name, value in found[0]["values"].items()]


def measure(targets: Sequence[tuple[str, ...]] = TARGETS) -> Iterator[tuple[tuple[str, ...], list[Record]]]:
    """Each target and its records, as they are measured. Raises ProfileError as `profiled` does, with the target."""
    for target in targets:
        try:
            yield target, profiled(target)
        except ProfileError as problem:
            raise ProfileError(f"{' '.join(target)}: {problem}") from None


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.profile.profiles", description=__doc__.split("\n")[0])
    parser.add_argument("recording", nargs="?", choices=list(SETS), default="profiles", help="which recording (profiles)")
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, metavar="DIR", help="where to write (the package's recordings)")
    asked = parser.parse_args(arguments)
    targets = SETS[asked.recording]
    records: list[Record] = []
    try:
        for number, (target, new) in enumerate(measure(targets), 1):
            records += new
            shown = {record.note: record.value for record in new}
            print(f"[{number}/{len(targets)}] {' '.join(target):28s} {shown.get('time: duration', float('nan')):10.1f} us, tensor pipe "
                  f"{shown.get('tensor cores: tensor pipe busy', float('nan')):5.1f} % busy", flush=True)
    except ProfileError as problem:
        print(problem, file=sys.stderr)
        return 2
    recordings.save(asked.recording, {**header(), "method": METHOD}, records, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
