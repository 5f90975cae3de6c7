# SPDX-License-Identifier: Apache-2.0
"""Lesson 14: a configuration of gemm/final.cu for a shape: what it takes of the GPU, what the cost model says, what was recorded, the
launch behind the panel, and the check of the exercise.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...hopper import limits
from ...measure.launches import gemm, gemm_choice
from ...measure.launches.edited import Changes, changed, operands, product
from ...measure.launches.gemm_choice import Choice, Final
from ...runtime.tables import text_table
from ...show import style

Shape = tuple[int, int, int]


def _x(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def problem(choice: Final) -> str:
    """Why gemm/final.cu cannot be built or launched with this configuration; empty when it can."""
    if choice.consumers not in (1, 2):
        return f"final.cu has one consumer or two, not {choice.consumers}"
    rows = choice.bm // choice.consumers
    if choice.bm % (64 * choice.consumers) or choice.bn % 64 or min(rows, choice.bn) < 64:
        return f"a consumer's rows ({choice.bm} / {choice.consumers}) and the columns ({choice.bn}) must be multiples of 64"
    if rows * choice.bn > 64 * 256:
        return f"{rows} x {choice.bn} sums of a consumer are {rows * choice.bn // 128} registers a thread; 128 fit beside the rest"
    if choice.cluster not in (1, 2, 4):
        return f"a cluster of {choice.cluster_m} x {choice.cluster_n} has {choice.cluster} CTAs; here 1, 2 or 4 are allowed"
    if choice.stages <= max(choice.in_flight, choice.stagger):
        return f"{choice.stages} stages cannot keep {choice.in_flight} in flight with a stagger of {choice.stagger}"
    if choice.shared_bytes > limits.SHARED_PER_BLOCK:
        return f"{choice.shared_bytes} bytes of shared memory: a CTA may have {limits.SHARED_PER_BLOCK}"
    return ""


def configuration(tile: tuple[int, int], stages: int, cluster: tuple[int, int] = (1, 1), group: int = 8, consumers: int = 2, c_slots: int = 1) -> Final:
    """A configuration of gemm/final.cu with what is not named left simple: no k-block in flight, no stagger, C through TMA."""
    return Final(tile[0], tile[1], consumers, stages, cluster[0], cluster[1], group, c_slots, in_flight=0, stagger=0)


def described(choice: Final, shape: Shape) -> str:
    """What a configuration makes of a shape: tiles, waves, the last wave, shared memory, accumulators, estimated cycles."""
    rows, columns = choice.tiles(*shape[:2])
    at_once = max(1, choice.blocks // choice.cluster)
    waves = -(-rows * columns // at_once)
    last = rows * columns - (waves - 1) * at_once
    return (f"{_x(shape)} in {rows} x {columns} cluster tiles of {choice.bm * choice.cluster_m} x {choice.bn * choice.cluster_n}: {waves} wave"
            f"{'s' if waves > 1 else ''} of {at_once}, the last with {last}\n{choice.shared_bytes} of {limits.SHARED_PER_BLOCK} bytes of shared memory; "
            f"{choice.bm // choice.consumers * choice.bn // 128} accumulators a thread; model: {gemm_choice.cycles(choice, *shape) / 1000:.0f} thousand cycles")


def run_choice(choice: Choice, shape: Shape, landing: str = "lazy", changes: Changes = ()) -> tuple[bool, Any]:
    """(right, session) of a small product with this configuration in the emulator. changes: to gemm/final.cu's text."""
    import hopperlab as hl

    a, b, c = operands(*shape)
    launch = gemm.final(a, b, c, choice, backend="emulator")
    if changes:
        launch = changed(launch, "gemm/final.cu", changes, choice.options)
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    return bool((c == product(a, b)).all()), run


def small_shape(choice: Final) -> Shape:
    """Two cluster tiles beside one another, the last of them cut at its edge, and more k-blocks than stages."""
    return choice.bm * choice.cluster_m, 2 * choice.bn * choice.cluster_n - 8, 64 * (choice.stages + 1)


def parts(choice: Final, shape: Shape) -> dict[str, float]:
    """The cost model's cycles by what they are for, a tile's k-blocks bounded by the tensor core or by the L2."""
    rows, columns = choice.tiles(*shape[:2])
    waves = -(-rows * columns // max(1, choice.blocks // choice.cluster))
    start, ends = gemm_choice.MODEL.start_cycles, waves * gemm_choice.MODEL.tile_cycles
    total = gemm_choice.cycles(choice, *shape)
    ideal = shape[0] * shape[1] * shape[2] / gemm_choice.MODEL.products_per_cycle / limits.SMS
    return {"start": start, "needed by the tensor cores": ideal, "epilogues": ends, "idle SMs, slower tiles, L2, memory": max(0.0, total - start - ends - ideal)}


def parts_chart(choices: dict[str, Final], shape: Shape) -> style.Picture:
    """A bar a configuration: the model's cycles by part."""
    figure, (axis,) = style.new_figure(1.9 + 0.42 * len(choices))
    words = [f"{_x(shape)}, cycles by the cost model"]
    for row, (name, choice) in enumerate(choices.items()):
        left = 0.0
        for index, (part, count) in enumerate(parts(choice, shape).items()):
            axis.barh(row, count / 1000, left=left, height=0.66, color=style.PALETTE[(4, 0, 1, 3)[index]], edgecolor=style.CARD, label=part if row == 0 else None)
            left += count / 1000
        axis.text(left * 1.01, row, f"{left:.0f}", va="center", fontsize=9, color=style.INK)
        words.append(f"  {name}: " + ", ".join(f"{part} {count / 1000:.0f}" for part, count in parts(choice, shape).items()))
    axis.set_yticks(range(len(choices)), list(choices))
    axis.invert_yaxis()
    axis.set_xlim(right=axis.get_xlim()[1] * 1.04)
    axis.set_xlabel("thousand cycles of an SM (cost model)")
    figure.legend(fontsize=9, frameon=False, ncols=2, loc="outside lower center")
    style.title(axis, f"{_x(shape)}: where the model sees the time go")
    return style.Picture(figure, "\n".join(words))


def launch_choice(shape: str, tile: str, stages: int, cluster: str, group: int) -> style.Picture:
    """The panel: a configuration at a shape ('4096 x 4096 x 4096'): the model's parts beside the recorded best's, and a small run of the
    same kernel in the emulator. Raises ValueError for a configuration that cannot be.
    """
    sizes = tuple(int(part) for part in shape.split(" x "))
    rows, columns = (int(part) for part in tile.split("x"))
    up, across = (int(part) for part in cluster.split("x"))
    choice = configuration((rows, columns), stages, (up, across), group, 1 if rows == 64 else 2)
    if problem(choice):
        raise ValueError(problem(choice))
    right, run = run_choice(choice, small_shape(choice))
    shown = {"yours": choice}
    best = gemm_choice.table().get(sizes)
    if isinstance(best, Final):
        shown["recorded best"] = best
    picture = parts_chart(shown, sizes)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    style.title(picture.figure.axes[0], f"A run of {_x(small_shape(choice))}: {'right' if right else 'WRONG'}, {found}. The shape by the model:")
    told = described(choice, sizes)
    picture.figure.axes[0].set_xlabel(f"thousand cycles of an SM (cost model)\n{told}", fontsize=9)
    return style.Picture(picture.figure, f"Small run: {'right' if right else 'WRONG'}, {found}\n{told}\n{picture.text}")


def tried_at(recording: Any, shape: Shape) -> list[Any]:
    """The recorded configurations of one shape, fastest first."""
    found = [r for r in recording if r.shape == shape and r.kernel in gemm_choice.KINDS and r.note and r.options]
    return sorted(found, key=lambda record: record.ms)


def leaderboard(recording: Any, shape: Shape) -> str:
    """Recorded configurations at a shape, fastest first, with the spread of their ratio to cuBLAS, and what the cost model says of each."""
    records = tried_at(recording, shape)
    if not records:
        raise ValueError(f"nothing was tried at {_x(shape)}; shapes: {', '.join(sorted({_x(r.shape) for r in recording if r.note}))}")
    estimates = [gemm_choice.cycles(gemm_choice.parsed(record), *shape) for record in records]
    rows = []
    for record, estimate in zip(records, estimates, strict=True):
        spread = f"{record.ratio:.3f} ({record.ratio_min:.3f} to {record.ratio_max:.3f})"
        rows.append((record.note, record.tflops, spread, f"{estimate / min(estimates):.2f}"))
    head = ("configuration", "TFLOP/s", "of cuBLAS (lowest to highest round)", "model, over its least")
    return "\n".join([f"{_x(shape)}, {recording.source}", *text_table("{:28} {:8.0f} {:>36}  {}", rows, head)])


def choice_model_chart(recording: Any, shapes: Sequence[Shape]) -> style.Picture:
    """Each recorded configuration: its measured time over the shape's best, against the model's estimate over the model's least."""
    figure, (axis,) = style.new_figure(3.6)
    words = ["Time over the shape's best: estimated, measured"]
    for index, shape in enumerate(shapes):
        records = tried_at(recording, shape)
        estimates = [gemm_choice.cycles(gemm_choice.parsed(record), *shape) for record in records]
        x, y = [e / min(estimates) for e in estimates], [record.ms / records[0].ms for record in records]
        axis.plot(x, y, style.MARKERS[index], color=style.PALETTE[index], markersize=7, label=_x(shape))
        words += [f"  {_x(shape)} {record.note}: {a:.2f}, {b:.2f}" for record, a, b in zip(records, x, y, strict=True)]
    top = max(*axis.get_xlim(), *axis.get_ylim())
    axis.plot([1, top], [1, top], color=style.FAINT, linewidth=1)
    axis.set(xlabel="estimated cycles over the model's least at this shape", ylabel="recorded time over the best")
    axis.grid(True, color=style.EMPTY)
    axis.legend(fontsize=9, frameon=False)
    style.title(axis, "The model against the recording")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def picks_table(shapes: Sequence[Shape]) -> str:
    """By shape: the model's pick among its candidates, and the table's, which is the one measured to be fastest."""
    lines = []
    for shape in shapes:
        model = min(gemm_choice.candidates(*shape[:2]), key=lambda choice: gemm_choice.cycles(choice, *shape))
        lines += [f"{_x(shape)}", f"    model: {_brief(model)}", f"    table: {_brief(gemm_choice.table()[shape])}"]
    return "\n".join(lines)


def _brief(choice: Choice) -> str:
    if isinstance(choice, Final):
        order = f"groups of {choice.group}" if choice.group else "one CTA a tile"
        return f"final {choice.bm} x {choice.bn}, {choice.stages} stages, cluster {choice.cluster_m} x {choice.cluster_n}, {order}"
    name = gemm_choice.kernel_of(choice)
    return f"{name} 128 x {choice.bn}, {choice.stages} stages" + (f", k by {choice.split}" if name == "split_k" else "")


def check_tuning(tile: tuple[int, int] | None, stages: int | None, cluster: tuple[int, int] | None, shape: Shape = (2048, 2048, 2048)) -> str:
    """Lesson 14's exercise: tile, stages and cluster for one shape, a CTA a tile. Legal, right in the emulator, as good as any by the model."""
    if tile is None or stages is None or cluster is None:
        return "Not answered yet: write all three, then run the cell again."
    choice = configuration(tile, stages, cluster, group=0, consumers=1 if tile[0] == 64 else 2)
    if problem(choice):
        return f"Not possible: {problem(choice)}."
    if tile[1] not in gemm_choice.MODEL.slowdown:
        return f"The model knows tiles of {', '.join(map(str, gemm_choice.MODEL.slowdown))} columns, not of {tile[1]}."
    right, run = run_choice(choice, small_shape(choice))
    if run.hazards or not right:
        return f"Not right: {run.hazards[0].kind if run.hazards else 'the product is wrong'}."
    if choice.cluster > 2:
        return ("Legal and right, but the model cannot rank it: it does not know that an H200 holds fewer clusters of four at a time than its "
                "SMs would fill (recordings/README.md, 33 clusters of four). Take at most two.")
    least = min(gemm_choice.cycles(other, *shape) for other in _every())
    over = gemm_choice.cycles(choice, *shape) / least
    told = described(choice, shape)
    if over > 1.001:
        return f"Legal and right, and by the model {100 * (over - 1):.0f} % slower than the best of its kind.\n{told}"
    deepest = max(other.stages for other in _every() if (other.bm, other.bn, other.cluster_m, other.cluster_n) == (*tile, *cluster))
    more = "" if stages == deepest else f" It has room for {deepest} stages, and the model, which knows no stages, does not tell you whether you need them."
    return f"Right: no configuration of final.cu is faster by the model.{more}\n{told}\nThe recorded best: {_brief(gemm_choice.table()[shape])}."


def _every() -> list[Final]:
    """All configurations the exercise ranks."""
    found = [configuration((bm, bn), stages, cluster, 0, 1 if bm == 64 else 2) for bm in (64, 128, 256) for bn in (64, 128, 256)
             for stages in range(2, 9) for cluster in ((1, 1), (1, 2), (2, 1))]
    return [choice for choice in found if not problem(choice)]
