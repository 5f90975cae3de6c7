# SPDX-License-Identifier: Apache-2.0
"""Lesson 16x: attention/forward_fp8.cu on a few queries in the emulator (or where kernels run), who holds which key, what 8 bits leave of a term,
and the exercise. What was recorded is in fp8_attention_charts.

`changes` edits the kernel's text before it is compiled, `header` that of attention_fp8.cuh: pairs (old, new), each old text occurring exactly once.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...hopper import fragments, limits
from ...measure.launches import attention_fp8 as fp8
from ...measure.launches.attention_fp8 import ForwardFp8
from ...runtime.tables import text_table
from ...measure.launches.edited import Changes, edited
from ...show import style
from ...show.timelines import Span, gantt
from ..l16_attention.attention_charts import EXPONENTIALS, MULTIPLY_ADDS
from ..l16_attention.attention_panels import attention_spans, compiled_anew, launched, placed, sequences

KERNEL = "attention/forward_fp8.cu"
HEADER = "include/hopperlab/attention_fp8.cuh"
KEYS = 64                                   # keys of a block in the lesson's runs
COLOURS = {"scores": style.BLUE, "values": style.SKY, "softmax": style.ORANGE, "waits for its turn": style.FAINT, "transposed": style.GREEN}


@dataclass
class AttendedFp8:
    """What came of a run: the largest error of o as a share of what its element may err, the mean error, whether every log-sum-exp is right, and the
    session (None on the GPU)."""

    worst: float
    mean: float
    lse: bool
    run: Any
    choice: ForwardFp8
    text: str

    @property
    def right(self) -> bool:
        """Every element of o within its bound, every lse right."""
        return bool(self.worst <= 1) and self.lse


def run_attention_fp8(q_lengths: Sequence[int] = (130,), k_lengths: Sequence[int] | None = None, heads: int = 1, kv_heads: int = 1, d: int = 64,
                      causal: bool = False, keys: int = KEYS, blocks: int = 1, landing: str = "lazy", size: float = 1.0, changes: Changes = (),
                      header: Changes = (), place: str | None = "emulator") -> AttendedFp8:
    """One launch of forward_fp8.cu, held against float64 of what its e4m3 numbers stand for.

    Arguments as run_attention's. An element may err by what rounding p costs (launches_attention_fp8.rounding, an eighth more for scores that are
    themselves sums of e4m3 products), and by the rounding of o to bf16.
    """
    import hopperlab as hl

    q, k, v, *starts = sequences(q_lengths, k_lengths or q_lengths, heads, kv_heads, d, size)
    quantised = [fp8.quantise(x) for x in (q, k, v)]
    numbers, scales = [x for x, _ in quantised], [s for _, s in quantised]
    choice = replace(fp8.BY_HEAD_SIZE[d], bn=keys, blocks=blocks)
    o = np.full(q.shape, np.nan, q.dtype) if place == "emulator" else np.full(q.shape, 0x7FC0, np.uint16)           # CuPy has no bf16
    lse = np.full((heads, len(q)), np.nan, np.float32)
    arrays = [*(x.view(np.uint8) for x in numbers), o, lse, *scales, *starts]
    arrays = placed(arrays, place)
    launch = fp8.forward_fp8(*arrays, causal, choice=choice, backend=place)
    text = _text(changes, header)
    if changes or header:
        launch = compiled_anew(launch, text, choice.options(d, causal), KERNEL)
    run = launched(launch, landing, place)
    o, lse = (hl.asnumpy(x) for x in arrays[3:5])
    known = (*numbers, *scales, *starts, causal)
    expected, logs = fp8.reference(*known)
    most = np.abs(numbers[2].astype(np.float64) * scales[2][:, None]).max(initial=0)
    bound = 1.125 * fp8.rounding(*known) + 2.0 ** -8 * (np.abs(expected) + most)
    with np.errstate(invalid="ignore"):
        error = np.abs(o.view(q.dtype).astype(np.float64) - expected)
        same = bool(((lse == logs) | (np.abs(lse - logs) <= 2.0 ** -7 + 1e-4 * np.abs(logs))).all())
    return AttendedFp8(float((error / bound).max(initial=0)), float(error.mean()), same, run, choice, text)


def _text(changes: Changes, header: Changes) -> str:
    """The kernel with its changes; an edited header stands in the place of its include."""
    text = edited(KERNEL, changes)
    if not header:
        return text
    return text.replace("#include <hopperlab/attention_fp8.cuh>", edited(HEADER, header).replace("#pragma once\n", ""))


# --- who holds which key ----------------------------------------------------------------------------------------------
def keys_held() -> dict[str, np.ndarray]:
    """Of sixteen keys, those that each lane of a quad has (4 x 4: lane, byte in the order of its registers): of a row of scores, as an A register of 8-bit
    elements wants them, and of a column of v after ldmatrix.trans of two matrices, 8 keys apart, and one prmt."""
    held, wanted, trans = fragments.wgmma_d(16), fragments.wgmma_a(8), fragments.ldmatrix(trans=True)
    return {"scores, as accumulated": held.col[:4, [0, 1, 4, 5]], "p, as a register of A": wanted.col[:4, :4],
            "v, after ldmatrix.trans": np.hstack([trans.row[:4], trans.row[:4] + 8])}


def keys_table() -> str:
    """`keys_held` as a line each."""
    rows = [(name, *(" ".join(map(str, lane)) for lane in keys)) for name, keys in keys_held().items()]
    return "\n".join(text_table("{:26}" + "{:15}" * 4, rows, ("lane of the quad", *map(str, range(4)))))


LANES = (style.SKY, style.ORANGE, style.YELLOW, style.PURPLE)           # light enough for dark numbers; each is also told by its outline's number


def keys_map() -> style.Picture:
    """`keys_held` as a picture: a square a key, coloured by the lane that accumulated its score."""
    from matplotlib.patches import Patch, Rectangle

    found = keys_held()
    owner = {int(key): lane for lane, keys in enumerate(found["scores, as accumulated"]) for key in keys}
    figure, (axis,) = style.new_figure(2.5, width=7.2)
    for y, keys in enumerate(found.values()):
        for lane in range(4):
            for i, key in enumerate(keys[lane]):
                axis.add_patch(Rectangle((4.6 * lane + i, y - 0.38), 0.94, 0.76, facecolor=LANES[owner[int(key)]]))
                axis.text(4.6 * lane + i + 0.47, y, str(key), ha="center", va="center", fontsize=10, color=style.INK)
            axis.add_patch(Rectangle((4.6 * lane - 0.06, y - 0.44), 4.06, 0.88, fill=False, edgecolor=style.INK, linewidth=1))
    axis.set(xlim=(-0.3, 18.2), ylim=(2.6, -0.6))
    axis.set_yticks(range(3), ["scores,\nas accumulated", "p, as a\nregister of A", "v, after ldmatrix\n.trans and prmt"])
    axis.set_xticks([4.6 * lane + 2 for lane in range(4)], [f"lane {lane} of the quad" for lane in range(4)])
    axis.tick_params(length=0)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    figure.legend(handles=[Patch(facecolor=colour, label=f"scored by lane {lane}") for lane, colour in enumerate(LANES)], fontsize=9, frameon=False, ncols=4,
                  loc="outside lower center")
    style.title(axis, "Who holds which of sixteen keys")
    return style.Picture(figure, keys_table())


# --- arithmetic -------------------------------------------------------------------------------------------------------
def balance_table_fp8(sizes: Sequence[int] = fp8.HEAD_SIZES, queries: int = 128, keys: int = 128) -> str:
    """A line a head size: cycles of both products in bf16 and in e4m3, of the exponentials, and the most that 8 bits gain where both units overlap fully."""
    rows = []
    for d in sizes:
        wide, exponentials = 2 * queries * keys * d / MULTIPLY_ADDS, queries * keys / EXPONENTIALS
        rows.append((d, wide, wide / 2, exponentials, max(wide, exponentials) / max(wide / 2, exponentials)))
    head = ("head size", "products, bf16", "products, e4m3", "exponentials", "at most faster")
    return "\n".join([f"{queries} queries x {keys} keys on one SM, in cycles", *text_table("{:9d} {:15.0f} {:15.0f} {:13.0f}   {:10.1f} x", rows, head)])


def terms_table(exponents: Sequence[int] = (0, 6, 8, 9, 10, 11, 14, 16, 18, 19), factor: int = 256) -> str:
    """What is left of terms 1.2 * 2^-n in e4m3, as they are and multiplied by `factor`: the error in per cent of the term."""
    from ml_dtypes import float8_e4m3fn

    rows = []
    for n in exponents:
        term = 1.2 * 2.0 ** -n
        rows.append((f"1.2 x 2^-{n}", *(100 * (float(np.float32(term * f).astype(float8_e4m3fn)) / f / term - 1) for f in (1, factor))))
    return "\n".join(text_table("{:>12} {:14.0f} % {:10.0f} %", rows, ("term", "error as it is", f"times {factor}")))


# --- the panel --------------------------------------------------------------------------------------------------------
def transposed_spans(found: AttendedFp8, block: int = 0) -> list[Span]:
    """Each block of v of one CTA, from the moment when the first transposing warp sees it to the last warp's arrival at vt_full; time is the order of events."""
    lines = found.text.split("\n")
    events = [e for e in found.run.timeline if e.block == block]
    seen = [at for at, e in enumerate(events) if e.warp == 1 and e.what in ("wait mbarrier", "wake mbarrier") and "&v_full[" in lines[e.line - 1]]
    done = [at for at, e in enumerate(events) if e.warp in (1, 2, 3) and e.what == "arrive mbarrier" and "&vt_full[" in lines[e.line - 1]][2::3]
    spans, before = [], -1
    for end in done:
        starts = [at for at in seen if before < at < end]
        spans.append(Span("transposing warps", starts[-1] if starts else before + 1, end, "transposed"))
        before = end
    return spans


def launch_attention_fp8(d: int, length: int, causal: str, keys: int) -> style.Picture:
    """The panel: `length` queries and keys of one head, as the order of one CTA's work. Raises ValueError where the tiles do not fit into shared memory."""
    choice = replace(fp8.BY_HEAD_SIZE[d], bn=keys)
    need = choice.shared_bytes(d)
    if need > limits.SHARED_PER_BLOCK:
        raise ValueError(f"head size {d} with {keys} keys per block: q takes {choice.bm * d} bytes, {choice.stages} stages of k, v and its transpose "
                         f"{3 * choice.stages * keys * d}, together more than the {limits.SHARED_PER_BLOCK} bytes that a CTA may have")
    found = run_attention_fp8((length,), d=d, causal=causal == "yes", keys=keys)
    count, told = found.run.counters, found.run.hazards[0].kind if found.run.hazards else "no hazard"
    heading = f"D = {d}, {length} queries{', causal' if causal == 'yes' else ''}: {'right' if found.right else 'WRONG'}, {told}"
    moved = 512 * (count["matrix_load_requests"] + count["matrix_store_requests"])
    below = (f"order of events in the emulator (not seconds)\nKiB of shared memory: transposition moves {moved // 1024}, "
             f"wgmma reads {count['wgmma_wavefronts'] * 128 // 1024}, TMA writes {count['tma_load_bytes'] // 1024}")
    picture = gantt([*transposed_spans(found), *attention_spans(found)], heading, below, COLOURS)
    return style.Picture(picture.figure, f"{picture.text}\n  {below.split(chr(10))[1]}")


# --- the exercise -----------------------------------------------------------------------------------------------------
def check_place(place_of: Any) -> str:
    """Lesson 16x's exercise: place_of(key), for the 32 keys of a k-step, is the place of A's row (and of V^T's) in which the kernel has that key. In words."""
    held, wanted = fragments.wgmma_d(32), fragments.wgmma_a(8)
    mine = [int(key) for thread in range(4) for key in held.col[thread][held.row[thread] == held.row[thread, 0]]]
    places = [int(place) for thread in range(4) for place in wanted.col[thread][wanted.row[thread] == wanted.row[thread, 0]]]
    right = dict(zip(mine, places, strict=True))
    answers = {key: place_of(key) for key in range(32)}
    if all(value is None for value in answers.values()):
        return "Not answered yet: place_of returns nothing."
    wrong = [key for key in range(32) if answers[key] != right[key]]
    if not wrong:
        return "Right: all 32 keys, each in a place that the lane which computed its score owns in A's fragment."
    inverse = {place: key for key, place in right.items()}
    if all(answers[key] == inverse[key] for key in range(32)):
        return "Not yet: this is the key of a place. The question is the other way round, the place of a key."
    if all(answers[key] == key for key in range(32)):
        return "Not yet: without an order of keys, a lane would have to hand half of its terms to its neighbours."
    if sorted(map(str, answers.values())) != sorted(map(str, range(32))):
        return "Not yet: some place is taken twice, or is none of 0 to 31."
    return f"Not yet: {len(wrong)} of 32 keys are elsewhere, key {wrong[0]} first: place {answers[wrong[0]]}, but its score is with the lane of place {right[wrong[0]]}."
