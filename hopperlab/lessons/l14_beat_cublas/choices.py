# SPDX-License-Identifier: Apache-2.0
"""Lesson 14: a configuration of gemm/final.cu for a shape: what it takes of the GPU, what the cost model says, what was recorded, the
launch behind the panel, and the check of the exercise.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from statistics import geometric_mean, quantiles
from typing import Any

from ...hopper import limits
from ...measure import summaries
from ...measure.launches import gemm, gemm_choice, gemm_model
from ...measure.launches.edited import Changes, changed, operands, product
from ...measure.launches.gemm_configurations import KINDS, Choice, Final, clusters_at_once, kernel_of, parsed
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
    if choice.bm % (64 * choice.consumers) or rows < 64:
        return f"a consumer's rows ({choice.bm} / {choice.consumers}) must be a multiple of 64"
    if choice.bn % 16 or not 16 <= choice.bn <= 256:
        return f"the columns ({choice.bn}) must be a multiple of 16, at most 256: one wgmma is as wide"
    if rows * choice.bn > 64 * 384:
        return f"{rows} x {choice.bn} sums of a consumer are {rows * choice.bn // 128} registers per thread; 192 fit beside the rest"
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
    """What a configuration makes of a shape: tiles, waves, the last wave, shared memory, accumulators, estimated time."""
    rows, columns = choice.tiles(*shape[:2])
    at_once = max(1, min(choice.blocks // choice.cluster, clusters_at_once(choice.cluster)))
    waves = -(-rows * columns // at_once)
    last = rows * columns - (waves - 1) * at_once
    return (f"{_x(shape)} in {rows} x {columns} cluster tiles of {choice.bm * choice.cluster_m} x {choice.bn * choice.cluster_n}: {waves} wave"
            f"{'s' if waves > 1 else ''} of {at_once}, the last with {last}\n{choice.shared_bytes} of {limits.SHARED_PER_BLOCK} bytes of shared memory; "
            f"{choice.bm // choice.consumers * choice.bn // 128} accumulators per thread; model: {gemm_model.microseconds(choice, *shape):.1f} us")


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
    """The cost model's microseconds by what they are for, with whole lines."""
    model, todo = gemm_model.MODEL, gemm_model.work(choice, *shape)
    total = model.microseconds(todo)
    ideal = shape[0] * shape[1] * shape[2] / 2048 / limits.SMS / model.ghz / 1000
    ends = todo.tiles * model.end_cycles(todo) / model.ghz / 1000
    start = model.start + model.restart_us * (todo.starts - 1) + model.cluster_us * todo.cluster
    return {"start": start, "needed by the tensor cores": ideal, "epilogues": ends, "idle SMs, slower tiles, L2, memory, power": max(0.0, total - start - ends - ideal)}


def parts_chart(choices: dict[str, Final], shape: Shape) -> style.Picture:
    """A bar a configuration: the model's microseconds by part."""
    figure, (axis,) = style.new_figure(1.9 + 0.42 * len(choices))
    words = [f"{_x(shape)}, microseconds by the cost model"]
    for row, (name, choice) in enumerate(choices.items()):
        left = 0.0
        for index, (part, time) in enumerate(parts(choice, shape).items()):
            axis.barh(row, time, left=left, height=0.66, color=style.PALETTE[(4, 0, 1, 3)[index]], edgecolor=style.CARD, label=part if row == 0 else None)
            left += time
        axis.text(left * 1.01, row, f"{left:.1f}", va="center", fontsize=9, color=style.INK)
        words.append(f"  {name}: " + ", ".join(f"{part} {time:.1f}" for part, time in parts(choice, shape).items()))
    axis.set_yticks(range(len(choices)), list(choices))
    axis.invert_yaxis()
    axis.set_xlim(right=axis.get_xlim()[1] * 1.04)
    axis.set_xlabel("microseconds (cost model)")
    figure.legend(fontsize=9, frameon=False, ncols=2, loc="outside lower center")
    style.title(axis, f"{_x(shape)}: where the model sees the time go")
    return style.Picture(figure, "\n".join(words))


def launch_choice(shape: str, tile: str, stages: int, cluster: str, group: int) -> style.Picture:
    """The panel: a configuration at a shape ('4096 x 4096 x 4096'): the model's parts beside its own pick's, and a small run of the
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
    best = gemm_choice.choose(*sizes)
    if isinstance(best, Final):
        shown["the model's pick"] = best
    picture = parts_chart(shown, sizes)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    style.title(picture.figure.axes[0], f"A run of {_x(small_shape(choice))}: {'right' if right else 'WRONG'}, {found}. The shape by the model:")
    told = described(choice, sizes)
    picture.figure.axes[0].set_xlabel(f"microseconds (cost model)\n{told}", fontsize=9)
    return style.Picture(picture.figure, f"Small run: {'right' if right else 'WRONG'}, {found}\n{told}\n{picture.text}")


def tried_at(recording: Any, shape: Shape) -> list[Any]:
    """The recorded configurations of one shape, fastest first."""
    found = [r for r in recording if r.shape == shape and r.kernel in KINDS and r.note and r.options]
    return sorted(found, key=lambda record: record.ms)


def _estimates(records: Sequence[Any], shape: Shape) -> list[float]:
    """The model's microseconds for recorded configurations."""
    _, n, k = shape
    choices = [parsed(record) for record in records]
    return [gemm_model.microseconds(choice, *shape, whole_lines=(k % 64 == 0, (n if getattr(choice, "b_mn", 0) else k) % 64 == 0)) for choice in choices]


def leaderboard(recording: Any, shape: Shape) -> str:
    """Recorded configurations at a shape, fastest first, with the spread of their ratio to cuBLAS, and what the cost model says of each."""
    records = tried_at(recording, shape)
    if not records:
        raise ValueError(f"nothing was tried at {_x(shape)}; shapes: {', '.join(sorted({_x(r.shape) for r in recording if r.note}))}")
    estimates = _estimates(records, shape)
    rows = []
    for record, estimate in zip(records, estimates, strict=True):
        spread = f"{record.ratio:.3f} ({record.ratio_min:.3f} to {record.ratio_max:.3f})"
        rows.append((record.note, record.tflops, spread, f"{estimate / min(estimates):.2f}"))
    head = ("configuration", "TFLOP/s", "of cuBLAS (lowest to highest round)", "model, over its least")
    return "\n".join([f"{_x(shape)}, {recording.source}", *text_table("{:28} {:8.0f} {:>36}  {}", rows, head)])


def picked_losses(search: Any) -> dict[tuple[Shape, str], float]:
    """By shape and order of B ("" or "NN") of the recording `search`: the time of what the model ranks first among the measured, over the shortest, less 1."""
    losses = {}
    for shape, order in dict.fromkeys((record.shape, record.note.partition(" ")[2]) for record in search):
        found = [record for record in tried_at(search, shape) if record.note.partition(" ")[2] == order]
        records = sorted(found, key=lambda record: int(record.note.split()[0]))             # by rank, not by time: of equal estimates the first counts
        estimates = _estimates(records, shape)
        losses[shape, order] = records[estimates.index(min(estimates))].ms / min(record.ms for record in records) - 1
    return losses


def choice_model_chart(search: Any) -> style.Picture:
    """Every recorded configuration at random shapes: measured time against the model's estimate; and what the model's pick loses, shape by shape."""
    figure, (left, right) = style.new_figure(2.6, columns=2)
    losses = picked_losses(search)
    for shape in dict.fromkeys(shape for shape, _ in losses):
        records = tried_at(search, shape)
        left.plot(_estimates(records, shape), [1000 * record.ms for record in records], ".", color=style.PALETTE[0], markersize=2)
    ends = [max(left.get_xlim()[0], 4), left.get_xlim()[1]]
    left.plot(ends, ends, color=style.INK, linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="estimated, us", ylabel="measured, us")
    ordered = sorted(losses.values())
    right.bar(range(len(ordered)), [100 * loss for loss in ordered], color=style.PALETTE[1])
    right.set(xlabel="shapes, in the order of the loss", ylabel="slower than the best, %")
    mean = sum(ordered) / len(ordered)
    style.title(left, "The model against the clock")
    style.title(right, f"What its picks lose: {100 * mean:.1f} % on average")
    figure.supxlabel(search.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    words = [f"{len(search)} configurations at {len(losses)} random shapes; the model's pick over the fastest measured: mean {100 * mean:.1f} %, largest:"]
    worst = sorted(losses.items(), key=lambda item: -item[1])[:5]
    return style.Picture(figure, "\n".join([*words, *(f"  {_x(shape)}{order and ' ' + order}: {100 * loss:.1f} %" for (shape, order), loss in worst)]))


def _raced(products: Any) -> list[Any]:
    """The last kernel's records with a cold L2, in the faster layout of B."""
    return summaries.faster_of_notes(record for record in products if record.kernel == "final" and record.mode == "cold L2" and record.ratio is not None)


def random_ratios(products: Any) -> list[float]:
    """The last kernel's share of cuBLAS at each random shape, in the faster of its orders of B where both were measured."""
    return [record.ratio for record in _raced(products)]


def random_shapes_chart(products: Any) -> style.Picture:
    """The last kernel's share of cuBLAS at random shapes, over the work and over m; and their quartiles in words."""
    figure, axes = style.new_figure(2.5, columns=2)
    found = _raced(products)
    ratios = sorted(record.ratio for record in found)
    for axis, name, values in zip(axes, ("FLOP", "m, rows of A"), ([2 * prod(r.shape) for r in found], [r.shape[0] for r in found]), strict=True):
        axis.axhline(100, color=style.FAINT, linewidth=1)
        axis.plot(values, [100 * record.ratio for record in found], ".", color=style.PALETTE[0], markersize=6)
        axis.set(xscale="log", xlabel=name)
    axes[0].set_ylabel("% of cuBLAS's speed")
    low, middle, high = quantiles(ratios, n=4)
    style.title(axes[0], f"{len(found)} shapes that nobody chose")
    figure.supxlabel(products.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    worst = sorted(found, key=lambda record: record.ratio)[:5]
    return style.Picture(figure, "\n".join([
        f"Geometric mean {100 * geometric_mean(ratios):.1f} %, quartiles {100 * low:.1f}, {100 * middle:.1f}, {100 * high:.1f} %; "
        f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} not slower. The worst:", *(f"  {_x(r.shape)}: {100 * r.ratio:.1f} %" for r in worst)]))


def picks_table(shapes: Sequence[Shape]) -> str:
    """By shape: what the model picks, how many it chose from, and the time it expects."""
    lines = []
    for shape in shapes:
        ranked = gemm_choice.ranked(*shape)
        lines += [f"{_x(shape)}: one of {len(ranked)}, {gemm_model.microseconds(ranked[0], *shape):.1f} us", f"    {_brief(ranked[0])}"]
    return "\n".join(lines)


def _brief(choice: Choice) -> str:
    if isinstance(choice, Final):
        order = f"groups of {choice.group}" if choice.group else "one CTA per tile"
        more = f", k in {choice.split} parts" * (choice.split > 1) + ", k-blocks dealt out" * bool(choice.stream) + ", swapped" * bool(choice.swapped)
        return f"final {choice.bm} x {choice.bn}, {choice.stages} stages, cluster {choice.cluster_m} x {choice.cluster_n}, {order}{more}"
    name = kernel_of(choice)
    return f"{name} 128 x {choice.bn}, {choice.stages} stages" + (f", k in {choice.split} parts" if name == "split_k" else "")


def check_tuning(tile: tuple[int, int] | None, stages: int | None, cluster: tuple[int, int] | None, shape: Shape = (2048, 2048, 2048)) -> str:
    """Lesson 14's exercise: tile, stages and cluster for one shape, a CTA per tile. Legal, right in the emulator, as good as any by the model."""
    if tile is None or stages is None or cluster is None:
        return "Not answered yet: write all three, then run the cell again."
    choice = configuration(tile, stages, cluster, group=0, consumers=1 if tile[0] == 64 else 2)
    if problem(choice):
        return f"Not possible: {problem(choice)}."
    right, run = run_choice(choice, small_shape(choice))
    if run.hazards or not right:
        return f"Not right: {run.hazards[0].kind if run.hazards else 'the product is wrong'}."
    least = min(gemm_model.microseconds(other, *shape) for other in _every())
    over = gemm_model.microseconds(choice, *shape) / least
    told = described(choice, shape)
    if over > 1.001:
        return f"Legal and right, and by the model {100 * (over - 1):.0f} % slower than the best of its kind.\n{told}"
    deepest = max(other.stages for other in _every() if (other.bm, other.bn, other.cluster_m, other.cluster_n) == (*tile, *cluster))
    more = "" if stages == deepest else f" It has room for {deepest} stages, and the model, which knows no stages, does not tell you whether you need them."
    return f"Right: no configuration of final.cu is faster by the model.{more}\n{told}\nWhat the model picks where all is allowed: {_brief(gemm_choice.choose(*shape))}."


def _every() -> list[Final]:
    """All configurations the exercise ranks."""
    found = [configuration((bm, bn), stages, cluster, 0, 1 if bm == 64 else 2) for bm in (64, 128, 256) for bn in range(64, 257, 32)
             for stages in range(2, 9) for cluster in ((1, 1), (1, 2), (2, 1))]
    return [choice for choice in found if not problem(choice)]
