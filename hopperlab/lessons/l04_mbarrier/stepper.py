# SPDX-License-Identifier: Apache-2.0
"""One mbarrier stepped through a real run, event by event: phase, pending arrivals and bytes, and what each wait was told.

The events are the emulator's (`run.timeline`); the state after each is worked out by `hopper.mbarrier`, the same functions
that the emulator runs, and every phase that the model completes must be one that the run completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...hopper import mbarrier
from ...measure.launches.operands import folded
from ...runtime.tables import text_table
from ...show import style

STATE = {"wait": ("v", style.VERMILION, "a wait blocks"), "wake": ("^", style.GREEN, "a wait passes")}


@dataclass(frozen=True)
class Step:
    """One event of one barrier. `kind`: init, arrive, land, wait or wake; `words`: what happened; `line`: of the kernel
    (0: none); `word`: the barrier's 64 bits afterwards; `flips`: whether this event ended the phase."""

    kind: str
    words: str
    line: int
    word: int
    flips: bool = False


def barrier_steps(run: Any, counts: Mapping[str, int], block: int = 0) -> dict[str, list[Step]]:
    """name -> steps of every mbarrier of one block.

    run: `hl.emulate(...) as run`, one launch; counts: the block's barriers in the order of their addresses, name -> count of
    mbarrier.init. An arrival event counts once for its warp, so the kernel arrives with one lane of a warp. Bytes land on the
    barrier whose phase they end. Raises ValueError when the run has other barriers, or phases that the model does not reach.
    """
    events = [event for event in run.timeline if event.block == block]
    seen = sorted({int(event.detail.split()[1], 16) for event in events if event.detail.startswith("mbarrier ")})
    if len(seen) > len(counts):
        raise ValueError(f"the run uses {len(seen)} mbarriers, and {len(counts)} were named: {', '.join(counts)}")
    first = seen[0] if seen else 0
    names = {first + mbarrier.BYTES * i: name for i, name in enumerate(counts)}
    steps = {name: [Step("init", f"init, {count} arrival{'s' * (count > 1)} a phase", 0, mbarrier.init(count))] for name, count in counts.items()}
    landed = None
    for event in events:
        if event.what == "land cp":
            landed = event
        elif event.detail.startswith("mbarrier "):
            _take(steps[names[int(event.detail.split()[1], 16)]], event, landed)
    return steps


def _take(steps: list[Step], event: Any, landed: Any) -> None:
    """Add `event` to the steps of its barrier. A phase that flips without an arrival was ended by the bytes that landed last."""
    word = steps[-1].word
    if event.kind == "flip":
        if steps[-1].flips and not _open(steps):
            steps[-1] = Step(steps[-1].kind, steps[-1].words + "; the phase ends", steps[-1].line, word, True)
            return
        nbytes = int(landed.detail.split()[0]) if landed is not None else 0
        after = mbarrier.complete_tx(word, nbytes)
        if mbarrier.unpack(after).phase == mbarrier.unpack(word).phase:
            raise ValueError(f"{event.detail} ended a phase in the run, and not in the model: {mbarrier.describe(word)}")
        steps.append(Step("land", f"{nbytes} bytes land; the phase ends", landed.line, after, True))
        return
    who = f"warp {event.warp}"
    if event.kind == "arrive":
        nbytes = int(event.detail.split()[3]) if " expects " in event.detail else None
        after = mbarrier.arrive(word) if nbytes is None else mbarrier.arrive_expect_tx(word, nbytes)
        told = f"{who} arrives" + (f" and expects {nbytes} bytes" if nbytes is not None else "")
        steps.append(Step("arrive", told, event.line, after, mbarrier.unpack(after).phase != mbarrier.unpack(word).phase))
        return
    parity = int(event.detail.split()[-1])
    told = f"{who} waits for parity {parity}: blocked" if event.kind == "wait" else f"{who} passes (parity {parity})"
    steps.append(Step(event.kind, told, event.line, word))


def _open(steps: list[Step]) -> bool:
    """True when the last flip has been accounted for already."""
    return steps[-1].words.endswith("the phase ends")


def step_words(steps: Sequence[Step], first: int = 0, last: int | None = None) -> str:
    """The steps as a table: number, event, source line, phase with its parity, pending arrivals, bytes to come."""
    rows = []
    for number, step in enumerate(steps[first:last], first):
        f = mbarrier.unpack(step.word)
        rows.append((number, step.words, step.line or "", phase_of(steps, number), f.phase & 1, f.pending, f.expected, f.tx))
    heading = f"{'':3} {'event':44} line  phase (parity)  pending  bytes"
    return "\n".join([heading, *text_table("{:3d} {:44} {:>4}  {:5d} ({})       {} of {}   {:5d}", rows)])


def phase_of(steps: Sequence[Step], number: int) -> int:
    """The phase that runs after event `number`, counted from 0 (the word keeps it modulo 4)."""
    return sum(step.flips for step in steps[: number + 1])


def mbarrier_stepper(steps: Sequence[Step], at: int, heading: str) -> style.Picture:
    """The barrier's phase, pending arrivals and bytes over its events, with event `at` marked, and the events around it in words.

    Raises ValueError when there is no event `at`.
    """
    if not 0 <= at < len(steps):
        raise ValueError(f"this barrier has events 0 to {len(steps) - 1} in this run; there is no event {at}")
    figure = Figure(figsize=(style.WIDTH, 5.0), dpi=style.DOTS, facecolor=style.CARD, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(4, 1, height_ratios=(1.1, 1, 1, 1.9))
    fields = [mbarrier.unpack(step.word) for step in steps]
    rows = (("phase", [phase_of(steps, i) for i in range(len(steps))]), ("pending\narrivals", [f.pending for f in fields]), ("bytes\nto come", [f.tx for f in fields]))
    axes: list[Axes] = []
    for index, (label, values) in enumerate(rows):
        axes.append(figure.add_subplot(grid[index, 0]))
        _curve(axes[-1], values, label, at, style.PALETTE[index], last=index == 2)
    _waits(axes[0], steps, rows[0][1])
    style.title(axes[0], heading)
    _around(figure.add_subplot(grid[3, 0]), steps, at)
    return style.Picture(figure, f"{heading}\n{step_words(steps)}\n{state_words(steps[at].word, at)}")


def _curve(axis: Axes, values: Sequence[int], label: str, at: int, colour: str, last: bool) -> None:
    style.dress(axis)
    axis.axvspan(at - 0.5, at + 0.5, color=style.YELLOW, alpha=0.55, linewidth=0)
    edges = np.arange(len(values) + 1) - 0.5
    axis.stairs(values, edges, color=colour, linewidth=2.5, baseline=None)
    top = max(max(values), 1)
    axis.set(xlim=(-0.6, len(values) - 0.4), ylim=(min(0, *values) - 0.12 * top, (1.25 if label != "phase" else 1.6) * top))
    axis.set_ylabel(label, fontsize=9)
    axis.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axis.xaxis.set_major_locator(MaxNLocator(14, integer=True))
    axis.set_xlabel("event of this barrier (order, not seconds)" if last else "", fontsize=9)
    if not last:
        axis.tick_params(labelbottom=False)


def _waits(axis: Axes, steps: Sequence[Step], phases: Sequence[int]) -> None:
    for kind, (marker, colour, label) in STATE.items():
        at = [i for i, step in enumerate(steps) if step.kind == kind]
        axis.plot(at, [phases[i] for i in at], marker, color=colour, markersize=6, label=label, linestyle="none", zorder=3)
    axis.legend(fontsize=8, frameon=False, loc="upper left", ncols=2)


def _around(axis: Axes, steps: Sequence[Step], at: int) -> None:
    axis.axis("off")
    first = max(0, min(at - 2, len(steps) - 5))
    rows = [f"{'>' if n == at else ' '} {n:3d}  {step.words}" + (f"   (line {step.line})" if step.line else "")
            for n, step in enumerate(steps[first : first + 5], first)]
    text = "\n".join(rows) + "\n\n" + state_words(steps[at].word, at)
    axis.text(0, 1, text, ha="left", va="top", fontsize=9, family="monospace", color=style.INK, transform=axis.transAxes)


def state_words(word: int, at: int) -> str:
    """The state after event `at` in words, and what a wait for either parity would be told now."""
    told = ", ".join(f"parity {p} {'passes' if mbarrier.try_wait_parity(word, p) else 'blocks'}" for p in (0, 1))
    return f"after event {at}: {mbarrier.describe(word)}\na wait now: {told}"


def ring_run(stages: int = 2, tiles: int = 5, schedule: str = "lazy", options: Sequence[str] = (), blocks: int = 1) -> tuple[Any, bool]:
    """Run mbarrier/ring.cu in the emulator on `tiles` tiles and collect its hazards. Returns (run, whether the sums are right)."""
    import hopperlab as hl

    kernel = hl.load_kernel("mbarrier/ring.cu", "fold", (f"-DSTAGES={stages}", *options), backend="emulator")
    x = (np.arange(512 * tiles) % 97).astype(np.float32)
    y = np.zeros_like(x)
    with hl.emulate(schedule=schedule, seed=tiles, hazards="collect") as run:
        kernel((blocks,), (160,), (x, y, np.int32(tiles)))
    return run, bool((y == folded(x)).all())


def ring_counts(stages: int) -> dict[str, int]:
    """The barriers of mbarrier/ring.cu in the order of their addresses: name -> arrivals a phase."""
    return {**{f"full[{s}]": 1 for s in range(stages)}, **{f"empty[{s}]": 4 for s in range(stages)}}


def launch_stepper(barrier: str, event: int, stages: int, tiles: int, schedule: str) -> style.Picture:
    """Lesson 04's panel: run the ring in the emulator and show one of its barriers ('full[0]', 'empty[1]', …) at one event.

    Raises ValueError for a barrier or an event that this run does not have.
    """
    counts = ring_counts(stages)
    if barrier not in counts:
        raise ValueError(f"a ring of {stages} slot{'s' * (stages > 1)} has no {barrier}: its barriers are {', '.join(counts)}")
    run, right = ring_run(stages, tiles, schedule)
    steps = barrier_steps(run, counts)[barrier]
    heading = f"{barrier} of a ring with {stages} slot{'s' * (stages > 1)}, {tiles} tiles: sums {'right' if right else 'WRONG'}, {len(run.hazards)} hazards"
    return mbarrier_stepper(steps, event, heading)


