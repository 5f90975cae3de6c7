# SPDX-License-Identifier: Apache-2.0
"""Lesson 16: attention/forward.cu on a few queries in the emulator (or where kernels run), who multiplied while whom computed exponentials, the blocks
that a causal mask leaves out, and the exercise.

`changes` edits the kernel's text before it is compiled: pairs (old, new), each old text occurring exactly once.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import measure
from ...hopper import limits
from ...measure.launches import attention
from ...measure.launches.attention import STEPS, Forward
from ...measure.launches.edited import Changes, edited
from ...show import style
from ...show.timelines import Span
from .attention_charts import counted_blocks, key_blocks

KERNEL = "attention/forward.cu"
KEYS = 64                                   # keys of a block in the lesson's runs: small, so that few queries have several blocks
COLOURS = {"scores": style.BLUE, "values": style.SKY, "softmax": style.ORANGE, "waits for its turn": style.FAINT}


@dataclass
class Attended:
    """What came of a run: the largest error of o, the bound it must keep to, whether every log-sum-exp is right, and the session (None on the GPU).

    bound: 2^-7 of the largest |v|, since p and o are rounded to bf16 (2^-9 of a term each) and o is a mean of v's rows. Not a number counts as wrong.
    """

    error: float
    bound: float
    lse: bool
    run: Any
    choice: Forward
    text: str

    @property
    def right(self) -> bool:
        """Every element of o within the bound, every lse right."""
        return bool(self.error <= self.bound) and self.lse


def sequences(q_lengths: Sequence[int], k_lengths: Sequence[int], heads: int, kv_heads: int, d: int, size: float = 1.0) -> tuple:
    """(q, k, v, q_starts, k_starts): packed random bf16 numbers of standard deviation `size`, seeded by their shape."""
    from ml_dtypes import bfloat16

    random = np.random.default_rng([d, heads, *q_lengths, *k_lengths])
    starts = [np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) for lengths in (q_lengths, k_lengths)]
    shapes = ((starts[0][-1], heads, d), (starts[1][-1], kv_heads, d), (starts[1][-1], kv_heads, d))
    return (*((size * random.standard_normal(shape)).astype(bfloat16) for shape in shapes), *starts)


def placed(arrays: Sequence[Any], place: str | None) -> list[Any]:
    """The arrays where kernels run, for place None; else as they are."""
    import hopperlab as hl

    return [hl.array_module().asarray(x) for x in arrays] if place is None and hl.backend() == "gpu" else list(arrays)


def launched(launch: Any, landing: str, place: str | None) -> Any:
    """Run a launch where kernels run, for place None; else in the emulator, whose session is returned."""
    import hopperlab as hl

    if place is None:
        launch()
        return None
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    return run


def run_attention(step: str = "overlapped", q_lengths: Sequence[int] = (256,), k_lengths: Sequence[int] | None = None, heads: int = 1, kv_heads: int = 1,
                  d: int = 64, causal: bool = False, blocks: int = 1, landing: str = "lazy", size: float = 1.0, changes: Changes = (),
                  keys: int = KEYS, consumers: int = 0, place: str | None = "emulator") -> Attended:
    """One launch of a step of STEPS, held against float64.

    q_lengths, k_lengths: of the packed sequences (k like q unless given); blocks: CTAs that share the tiles (0: one a tile); landing: the emulator's
    schedule; size: standard deviation of the inputs; keys: of a block; consumers: warpgroups (0: the step's own); place: 'emulator', or None for the
    place where kernels run.
    """
    import hopperlab as hl

    q, k, v, *starts = sequences(q_lengths, k_lengths or q_lengths, heads, kv_heads, d, size)
    choice = replace(STEPS[step], bn=keys, blocks=blocks, consumers=consumers or STEPS[step].consumers)
    o, lse = np.full(q.shape, 0x7FC0, np.uint16), np.full((heads, len(q)), np.nan, np.float32)
    arrays = [*(x.view(np.uint16) for x in (q, k, v)), o, lse, *starts]
    arrays = placed(arrays, place)
    launch = attention.forward(*arrays, causal, choice=choice, backend=place)
    text = edited(KERNEL, changes)
    if changes:
        launch = compiled_anew(launch, text, choice.options(d, causal), KERNEL)
    run = launched(launch, landing, place)
    o, lse = (hl.asnumpy(x) for x in arrays[3:5])
    expected, logs = attention.reference(q, k, v, *starts, causal)
    with np.errstate(invalid="ignore"):
        error = np.abs(o.view(q.dtype).astype(np.float64) - expected).max(initial=0)
        same = bool(((lse == logs) | (np.abs(lse - logs) <= 2e-5 * np.maximum(1, np.abs(logs)))).all())
    return Attended(float(error), 2.0 ** -7 * float(np.abs(v.astype(np.float32)).max()), same, run, choice, text)


def compiled_anew(launch: Any, text: str, options: Sequence[str], name: str) -> Any:
    """The same launch of the kernel `attention` with another text. A note of ptxas is no error here: the text may be wrong on purpose."""
    import hopperlab as hl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = hl.RawModule(code=text, options=tuple(options), backend="emulator", name=name)
    return replace(launch, kernel=module.get_function("attention"))


def attention_spans(found: Attended, block: int = 0) -> list[Span]:
    """What each consumer of a CTA did, three rows per consumer: scores on their way (from the first wgmma's issue to the last one's landing), values on
    their way, and softmax, from the landing of the scores to the next thing that the emulator notes, with the waits for a turn. Time is the order of
    the CTA's events, counted from 0.
    """
    lines = found.text.split("\n")
    events = [event for event in found.run.timeline if event.block == block]
    spans: list[Span] = []
    for consumer in range(1, found.choice.consumers + 1):
        spans += _consumer_spans([(at, e) for at, e in enumerate(events) if e.warp == 4 * consumer], f"consumer {consumer}", lines)
    return spans


def _consumer_spans(mine: Sequence[tuple[int, Any]], who: str, lines: Sequence[str]) -> list[Span]:
    spans: dict[str, list[Span]] = {"scores": [], "values": [], "own": []}
    under_way: dict[str, list[int]] = {"scores": [], "values": []}
    softmax: int | None = None
    parked: int | None = None
    for at, event in mine:
        kind = "" if "wgmma" not in event.what else "scores" if "scores(" in lines[event.line - 1] else "values"
        if softmax is not None and event.kind != "arrive":
            spans["own"].append(Span(f"{who}: softmax", softmax, at, "softmax"))
            softmax = None
        if event.what == "issue wgmma":
            under_way[kind].append(at)
        elif event.what == "land wgmma":
            first = under_way[kind].pop(0)
            before = spans[kind][-1] if spans[kind] else None
            if before is not None and first <= before.end:       # of the same product
                spans[kind][-1] = replace(before, end=at)
            else:
                spans[kind].append(Span(f"{who}: {kind}", first, at, kind))
            if kind == "scores" and not under_way["scores"]:
                softmax = at
        elif event.kind == "wait":
            parked = at if event.what == "wait bar" else None
        elif event.kind == "wake" and parked is not None:
            spans["own"].append(Span(f"{who}: softmax", parked, at, "waits for its turn"))
            parked = None
    return [*spans["scores"], *spans["values"], *spans["own"]]


ROWS = ("scores", "values", "softmax")
NOT_SECONDS = "order of events in the emulator (not seconds)"


def draw_bands(axis: Any, spans: Sequence[Span], y: float) -> list[tuple[float, str]]:
    """A band a consumer from y on, in it three lanes (ROWS); returns where each consumer's name belongs."""
    from matplotlib.patches import Rectangle

    names = []
    for who in sorted({span.row[:10] for span in spans}):
        for span in (s for s in spans if s.row.startswith(who)):
            lane = y + 0.3 * (ROWS.index(span.row[12:]) - 1)
            axis.add_patch(Rectangle((span.start, lane - 0.14), span.end - span.start, 0.28, facecolor=COLOURS[span.kind]))
        names.append((y, who))
        y += 1.1
    return names


def finish_bands(figure: Any, axis: Any, names: Sequence[tuple[float, str]], longest: float, xlabel: str, kinds: Sequence[str] = tuple(COLOURS)) -> None:
    """Limits, names of the bands and the legend of these kinds."""
    from matplotlib.patches import Patch

    axis.set(xlim=(-0.5, longest + 1), ylim=(names[-1][0] + 0.6, names[0][0] - 1), xlabel=xlabel)
    axis.set_yticks([at for at, _ in names], [name for _, name in names])
    figure.legend(handles=[Patch(facecolor=colour, label=kind) for kind, colour in COLOURS.items() if kind in kinds], fontsize=9, frameon=False, ncols=4,
                  loc="outside lower center")


def attention_timeline(found: Attended, heading: str, block: int = 0, below: str = "") -> style.Picture:
    """`attention_spans` as a picture: a band a consumer, in it three lanes: scores, values, softmax. below: more lines under the axis."""
    spans = attention_spans(found, block)
    figure, (axis,) = style.new_figure(1.4 + 0.14 * below.count(chr(10)) + 0.62 * found.choice.consumers)
    names = draw_bands(axis, spans, 0)
    finish_bands(figure, axis, names, max(s.end for s in spans), f"{NOT_SECONDS}\n{below}".strip())
    axis.xaxis.label.set_fontsize(9)
    axis.set_ylim(names[-1][0] + 0.6, -0.6)
    style.title(axis, heading)
    return style.Picture(figure, "\n".join([heading, *_in_words(spans), *(f"  {line}" for line in below.split("\n") if line)]), style.FEWER)


def _in_words(spans: Sequence[Span]) -> list[str]:
    """A line a row: what was there, from when to when."""
    rows = {row: sorted((s for s in spans if s.row == row), key=lambda s: s.start) for row in dict.fromkeys(s.row for s in spans)}
    return [f"  {row}: " + ", ".join(f"{'' if s.kind == row[12:] else 'waits '}{s.start:g} to {s.end:g}" for s in own[:24]) for row, own in rows.items()]


def overlaps(found: Attended, block: int = 0) -> dict[str, int]:
    """How often what ran beside what, in one CTA: 'blocks' (softmaxes in all), 'scores together' (scores that began while another consumer's were on
    their way), 'under the other' (softmaxes during which another consumer began a product), 'under its own' (… with values of the same one on their way).
    """
    spans = attention_spans(found, block)
    products = [s for s in spans if s.kind in ("scores", "values")]
    softmaxes = [s for s in spans if s.kind == "softmax"]
    scores = [s for s in products if s.kind == "scores"]
    who = lambda span: span.row[:10]
    return {"blocks": len(softmaxes),
            "scores together": sum(any(who(t) != who(s) and t.start < s.start < t.end for t in scores) for s in scores),
            "under the other": sum(any(who(p) != who(s) and s.start < p.start < s.end for p in products) for s in softmaxes),
            "under its own": sum(any(who(p) == who(s) and p.start < s.start < p.end for p in products) for s in softmaxes)}


def attention_order(steps: Sequence[str] = ("two_consumers", "pingpong", "overlapped"), keys: int = 256) -> style.Picture:
    """The timelines of several steps under one another: 128 queries, one CTA, `keys` keys in blocks of 64."""
    figure, (axis,) = style.new_figure(0.9 + 1.5 * len(steps))
    names, words, longest, y = [], [], 1.0, 0.0
    for step in steps:
        found = run_attention(step, (128,), (keys,))
        spans, counts = attention_spans(found), overlaps(found)
        words.append(f"{step}: {counts['scores together']} of {counts['blocks']} products for scores begin while the other consumer's are on their way")
        words += _in_words(spans)
        axis.text(min(s.start for s in spans), y - 0.55, step, fontsize=10, fontweight="bold", color=style.INK, va="bottom")
        names += draw_bands(axis, spans, y)
        longest, y = max(longest, max(s.end for s in spans)), names[-1][0] + 1.8
    finish_bands(figure, axis, names, longest, NOT_SECONDS)
    return style.Picture(figure, "\n".join(words), style.FEWER)


def launch_attention(d: int, length: int, causal: str, keys: int, step: str) -> style.Picture:
    """The panel: `length` queries and keys of one head through a step of STEPS, as the order of one CTA's work. Steps without persistent CTAs give
    each tile a CTA; the one with the last queries is shown. Raises ValueError where the tiles do not fit into shared memory.
    """
    masked, choice = causal == "yes", replace(STEPS[step], bn=keys)
    need = choice.shared_bytes(d)
    if need > limits.SHARED_PER_BLOCK:
        raise ValueError(f"head size {d} with {keys} keys per block: q takes {choice.bm * d * 2} bytes, {choice.stages} stages of k and v "
                         f"{4 * choice.stages * keys * d}, together more than the {limits.SHARED_PER_BLOCK} bytes that a CTA may have")
    found = run_attention(step, (length,), d=d, causal=masked, blocks=1 if choice.blocks else 0, keys=keys)
    tiles = key_blocks(length, length, choice.bm, keys, masked)
    blocks, every = counted_blocks(found, d), -(-length // 64) * -(-length // keys)
    counts, told = overlaps(found), found.run.hazards[0].kind if found.run.hazards else "no hazard"
    heading = f"{step}, D = {d}, {length} queries{', causal' if masked else ''}: {'right' if found.right else 'WRONG'}, {told}"
    below = (f"blocks of 64 queries x {keys} keys: {blocks} multiplied, {every - blocks} left out\nof {counts['blocks']} softmaxes {counts['under the other']} "
             f"beside the other's product, {counts['under its own']} beside its own\n{recorded_step(step, d, 'causal' if masked else 'full')}")
    picture = attention_timeline(found, heading, below=below)
    return style.Picture(picture.figure, f"{picture.text}\n  blocks loaded for each tile of {choice.bm} queries: {', '.join(map(str, tiles))}\n  "
                                         f"{measure.load('attention').source}", style.FEWER)


def recorded_step(step: str, d: int, mask: str, length: int = 4096) -> str:
    """What the recording says of a step at this head size; of other head sizes than 128 it has the last step only."""
    recording = measure.load("attention")
    shape = (16384 // length, length, 2048 // d, d)
    records, last = ([r for r in recording.where(kernel=kernel, shape=shape) if r.options[1] == mask] for kernel in (step, "final"))
    record = (records or last)[0]
    name = step if records else "last step"
    return f"recorded: {name}, D = {d}, length {length}, {mask}: {record.tflops:.0f} TFLOP/s, {100 * record.ratio:.1f} % of cuDNN"


# --- the exercise -----------------------------------------------------------------------------------------------------
def partial(scores: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(most, total, o) of queries over some keys, o not divided yet: the maximum of each row of scores (minus infinity where there is none), the sum
    of exp(score - most), and those terms times values. A row that sees no key has total 0 and o 0.
    """
    most = scores.max(axis=1, initial=-np.inf)
    terms = np.exp(scores - np.where(np.isinf(most), 0, most)[:, None])
    return most, terms.sum(axis=1), terms @ values


def check_merge(merge: Any) -> str:
    """Lesson 16's exercise: merge(left, right) of two `partial` results of the same queries over different keys gives that of all keys. In words."""
    random = np.random.default_rng(16)
    cases = {"scores of ordinary size": (1.0, None), "large scores": (400.0, None), "a row that sees no key on the left": (1.0, "left"),
             "a row that sees no key on the right": (1.0, "right"), "a row that sees no key at all": (1.0, "both")}
    for name, (size, hidden) in cases.items():
        scores, values = size * random.standard_normal((5, 24)), random.standard_normal((24, 3))
        scores[2, :16 if hidden in ("left", "both") else 0] = -np.inf
        scores[2, 16 if hidden in ("right", "both") else 24:] = -np.inf
        parts = (partial(scores[:, :16], values[:16]), partial(scores[:, 16:], values[16:]))
        with np.errstate(all="ignore"):
            made = merge(*parts)
        if made is None:
            return "Not answered yet: merge returns nothing."
        told = _merge_words(made, parts, partial(scores, values))
        if told:
            return f"Not yet, with {name}: {told}"
    return "Right: the merged maximum, sum and o are those of all keys, also where scores are large or a row sees no key."


def _merge_words(made: Any, parts: tuple, expected: tuple) -> str:
    if not isinstance(made, tuple) or len(made) != 3 or any(np.shape(m) != e.shape for m, e in zip(made, expected)):
        return "return three arrays, (most, total, o), shaped like those that came in."
    (most, total, o), (left, right) = made, parts
    if any(np.isnan(x).any() for x in made):
        return "there is a nan. Minus infinity minus minus infinity is one: what is the factor of a part that saw no key?"
    if not np.array_equal(most, expected[0]):
        return "the maximum is not that of all keys."
    if not np.allclose(total, expected[1], rtol=1e-9):
        return ("the sums were only added: each belongs to its own maximum." if np.allclose(total, left[1] + right[1])
                else "the sum is wrong. A term was exp(score - old maximum) and should be exp(score - new maximum): by which factor do they differ?")
    if not np.allclose(o, expected[2], rtol=1e-9, atol=1e-12):
        return "the sum is right and o is not: o is made of the same terms, and needs the same factors." if not np.isinf(o).any() else "o is infinite."
    return ""
