# SPDX-License-Identifier: Apache-2.0
"""What `hopperlab bench` shows: a progress bar while it runs, a table at the end, and what the numbers must not be used for."""
from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Self, TextIO

from .. import summaries
from ..recordings import Record
from ...runtime.progress import Bar
from ...runtime.tables import text_table

FORM = "[{bar:24}] {n_fmt}/{total_fmt} {desc}"


class Progress:
    """A bar on a terminal, one line a step elsewhere; both on standard error. Use it in a `with` block."""

    def __init__(self, total: int, stream: TextIO | None = None):
        self.total, self.done, self.stream = max(1, total), 0, stream or sys.stderr
        self.began, self.bar = time.perf_counter(), Bar(FORM, self.total, stream=self.stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind, value, trace) -> None:
        self.bar.close()
        if kind is None:
            print(f"measured in {time.perf_counter() - self.began:.0f} s", file=self.stream, flush=True)

    def step(self, text: str) -> None:
        """The next step begins."""
        self.done += 1
        self.say(text)

    def say(self, text: str) -> None:
        """What is done now."""
        self.bar.tell(min(self.done, self.total), text)


def table(records: Sequence[Record]) -> str:
    """A block a shape and mode, one line a record; then a summary of each kernel's ratios over all of its cells."""
    blocks: dict[tuple, list[Record]] = {}
    for record in records:
        blocks.setdefault((record.suite, record.shape, record.mode), []).append(record)
    lines = []
    for (suite, shape, mode), found in blocks.items():
        lines.append(" ".join(filter(None, (suite, "x".join(map(str, shape)), found[0].dtype, f"({mode})" if mode else ""))))
        lines += _block(found)
    return "\n".join([*lines, *_means(records), *_alone(records)])


def _block(records: Sequence[Record]) -> list[str]:
    rows, seen = [], set()
    for record in records:
        measured = (record.kernel, record.options, record.note, record.ms, record.value, record.outcome)
        rows.append(_row(record, measured not in seen))
        seen.add(measured)
    head = ("", "rate", "spread", "ratio to peer (least, greatest)", "W", "J", "MHz", "regs", "spills")
    return text_table("  {:<*}  {:>*}  {:>*}  {:<*}" + "  {:>*}" * 5, rows, head)


def _row(record: Record, first: bool) -> tuple[str, ...]:
    ratio = ""
    if record.ratio is not None:
        ratio = f"{record.ratio:.3f} ({record.ratio_min:.3f}, {record.ratio_max:.3f}) of {record.peer}"
    if not first:                                           # the same kernel beside another peer
        return ("", "", "", ratio, "", "", "", "", "")
    return (" ".join(filter(None, (record.kernel, _short(record.options), record.note))), _rate(record), _spread(record), ratio,
            _cell(record.watts, ".0f"), _cell(record.joules, ".3g"), _cell(record.clock_mhz), _cell(record.registers), _cell(record.spills))


def _cell(value: float | None, form: str = "") -> str:
    return "" if value is None else format(value, form)


def _short(options: Sequence[str]) -> str:
    text = " ".join(options)
    return text if len(text) <= 44 else text[:41] + "..."


def _rate(record: Record) -> str:
    for value, unit in ((record.tflops, "TFLOP/s"), (record.gb_s, "GB/s"), (record.value, record.unit)):
        if value is not None:
            return f"{value:,.4g} {unit}" if unit not in ("TFLOP/s", "GB/s") else f"{value:.1f} {unit}"
    counted = "" if record.wrong is None else f": {record.wrong} of {record.runs}"
    return f"{record.outcome}{counted}" if record.outcome else ""


def _spread(record: Record) -> str:
    for middle, least, most in ((record.ms, record.ms_min, record.ms_max), (record.value, record.value_min, record.value_max)):
        if middle and least is not None and most is not None:
            return f"{100 * (most - least) / middle:.1f}%"
    return ""


def _means(records: Sequence[Record]) -> list[str]:
    """A summary of each contestant that ran beside a family of peers in two cells or more; of a kernel that ran in several layouts also of the
    faster one, cell by cell."""
    records = [*records, *_better(records)]
    lines = text_table("  {} {:24} {} of {}{}", [(suite, " ".join(filter(None, (kernel, note))), summaries.of_records(found), rival, f", {mode}" * bool(mode))
                                                 for (suite, kernel, note, mode, rival), found in summaries.contestants(records).items() if len(found) > 1])
    spreads = [line for (*_, kernel, note, mode, rival), found in summaries.contestants(records).items() if len(found) >= MANY
               for line in _spread_of(" ".join(filter(None, (kernel, note))), rival, mode, found)]
    return ["geometric means of the ratios to a peer (least to most)", *lines, *spreads] if lines else []


def _better(records: Sequence[Record]) -> list[Record]:
    """The faster of the layouts of each kernel that ran in several."""
    several = {kernel for kernel in {r.kernel for r in records} if len({r.note for r in records if r.kernel == kernel and r.ratio is not None}) > 1}
    layouts = [r for r in records if r.kernel in several and r.note in ("", summaries.TURNED)]
    return [replace(record, note=BETTER) for record in summaries.faster_of_notes(layouts) if record.kernel in {r.kernel for r in layouts if r.note}]


MANY, WORST = 12, 5
BETTER = "in the faster layout of B"


def _spread_of(kernel: str, rival: str, mode: str, found: Sequence[Record]) -> list[str]:
    """Quartiles of many cells, and the worst of them."""
    one = summaries.spread(found, WORST)
    low, middle, high = one.quartiles
    cells = ", ".join(f"{summaries.place(record)} {record.ratio:.3f}" for record in one.worst)
    return [f"  {kernel} beside {rival}, {mode}: quartiles {low:.3f}, {middle:.3f}, {high:.3f}; {one.not_slower} of "
            f"{one.summary.count} not slower", f"  the worst: {cells}", *_by_size(found)]


def _by_size(found: Sequence[Record]) -> list[str]:
    """Of a kernel of ours: mean and least by the work of a launch, and by m (of attention: by the longest sequence)."""
    if found[0].registers is None:                          # a peer's
        return []
    name, place = ("longest sequence", 1) if found[0].suite == "attention" else ("m", 0)
    classes = {"FLOP": summaries.by_size(found, lambda record: (record.tflops or 0) * (record.ms or 0) * 1e9, 10),
               name: summaries.by_size(found, lambda record: record.shape[place], 4)}
    return [f"  by {what}: " + "; ".join(f"from {f'1e{len(str(least)) - 1}' if what == 'FLOP' else least} {one.mean:.3f}, least {one.least:.3f} ({one.count})"
                                         for least, one in several.items()) for what, several in classes.items()]


def _alone(records: Sequence[Record]) -> list[str]:
    """A line a mode about cells in which no peer took part, while there were peers in others."""
    lines = []
    for mode in dict.fromkeys(record.mode for record in records if record.peer):
        cells = {summaries.cell(record): record for record in records if record.mode == mode}
        beside = {summaries.cell(record) for record in records if record.mode == mode and record.peer}
        if alone := [summaries.place(record) for name, record in cells.items() if name not in beside]:
            lines.append(f"  {mode}: no peer took {len(alone)} of {len(cells)} cells: {', '.join(alone)}")
    return lines


def warnings(records: Sequence[Record]) -> list[str]:
    """What to know before using these numbers: clocks that were held down, noisy samples, spilled registers."""
    out = []
    for word in ("power", "heat", "hardware slowdown"):
        held = [record for record in records if word in record.limited.split(", ")]
        if held:
            clocks = [record.clock_mhz for record in held if record.clock_mhz is not None]
            at = f" (to {min(clocks)} to {max(clocks)} MHz)" if clocks else ""
            out.append(f"{word} held the clocks down{at} under {len({(r.kernel, r.shape) for r in held})} of "
                       f"{len({(r.kernel, r.shape) for r in records})} contestants: compare ratios, not rates of different runs")
    noisy = {(r.kernel, r.shape) for r in records if r.ms and r.ms_max and r.ms_max > 1.25 * r.ms}
    if noisy:
        out.append(f"a launch took over 1.25 times the median for {len(noisy)} contestants: something else may use this GPU")
    spilled = sorted({r.kernel for r in records if r.spills})
    if spilled:
        out.append(f"registers spilled to memory in {', '.join(spilled)}")
    return out
