# SPDX-License-Identifier: Apache-2.0
"""Lesson 16b: attention's backward pass on a few queries in the emulator (or where kernels run), what one CTA multiplied when, whether two runs give the same
bits, and the exercise.

`changes` edits the text of backward.cu before it is compiled: pairs (old, new), each old text occurring exactly once.
"""
from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...measure.launches import attention
from ...measure.launches import attention_backward as backward
from ...measure.launches.attention_backward import STEPS, Backward
from ...measure.launches.edited import Changes, edited
from ...show import style
from ...show.timelines import Span, gantt
from ..l16_attention.attention_panels import placed

KERNEL = "attention_backward/backward.cu"
PRODUCTS: Mapping[str, str] = {" scores(": "s", "wgmma_scores<D>(dp": "dp", "wgmma_values<BM>(dv": "dv", "wgmma_dq": "dq", "wgmma_values<BM>(dk": "dk"}
"""What stands in a product's line of backward.cu -> its name."""
COLOURS = {"s": style.BLUE, "dp": style.SKY, "dv": style.ORANGE, "dk": style.YELLOW, "dq": style.GREEN, "adds dq": style.GREEN}


@dataclass
class Returned:
    """What came of a run: the largest error of dq, dk and dv as a share of what their elements may err, dq's sums in fp32, the session (None on the GPU)."""

    worst: float
    sums: np.ndarray
    run: Any
    choice: Backward
    text: str

    @property
    def right(self) -> bool:
        """Every element within its bound."""
        return bool(self.worst <= 1)


def inputs(length: int, heads: int, d: int, causal: bool) -> tuple[np.ndarray, ...]:
    """(q, k, v, o, d_o, lse): one sequence of random normal bf16 numbers, seeded by its shape; o and lse from float64."""
    from ml_dtypes import bfloat16

    random = np.random.default_rng([length, heads, d])
    q, k, v, d_o = (random.standard_normal((length, heads, d)).astype(bfloat16) for _ in range(4))
    o, lse = attention.reference(q, k, v, [0, length], [0, length], causal)
    return q, k, v, o.astype(bfloat16), d_o, lse.astype(np.float32)


def run_backward(step: str = "overlapped", length: int = 256, heads: int = 1, d: int = 64, causal: bool = False, dq: str = "", landing: str = "lazy", seed: int = 0,
                 changes: Changes = (), place: str | None = "emulator") -> Returned:
    """One backward pass (three launches) of a step of STEPS, held against float64.

    dq: how it grows, a key of backward.DQ (the step's own unless given); landing, seed: the emulator's schedule; place: 'emulator', or None for the place
    where kernels run. Not a number counts as wrong.
    """
    import hopperlab as hl

    given = inputs(length, heads, d, causal)
    choice = replace(STEPS[step], dq=dq or STEPS[step].dq)
    results = [np.full(given[0].shape, 0x7FC0, np.uint16) for _ in range(3)]
    arrays = placed([*(x.view(np.uint16) for x in given[:5]), given[5], *results], place)
    made = backward.backward(*arrays, length, causal, choice=choice, backend=place)
    if changes:
        made = _compiled_anew(made, choice.options(d, causal), edited(KERNEL, changes))
    run = None
    if place is None:
        made()
    else:
        with hl.emulate(schedule=landing, seed=seed, hazards="collect") as run:
            made()
    bits = tuple(hl.asnumpy(x) for x in arrays[6:])
    expected, bounds = backward.reference(*given[:3], given[4], length, causal)
    shares = [np.abs(got.view(given[0].dtype).astype(np.float64) - wanted) / bound for got, wanted, bound in zip(bits, expected, bounds, strict=True)]
    return Returned(float(max(np.nan_to_num(share, nan=np.inf).max() for share in shares)), hl.asnumpy(made.sums), run, choice, edited(KERNEL, changes))


def _compiled_anew(made: Any, options: Sequence[str], text: str) -> Any:
    """The same pass with another text of backward.cu. A note of ptxas is no error here: the text may be wrong on purpose."""
    import hopperlab as hl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = hl.RawModule(code=text, options=tuple(options), backend="emulator", name=KERNEL)
    begin, middle, end = made.launches
    return replace(made, launches=(begin, replace(middle, kernel=module.get_function("attention_backward")), end))


def distinct_results(dq: str, seeds: int = 4, length: int = 320, changes: Changes = ()) -> int:
    """How many different fp32 sums of dq (to the bit) so many runs give whose copies land in different random orders."""
    return len({run_backward(length=length, dq=dq, landing="random", seed=seed, changes=changes).sums.tobytes() for seed in range(1, seeds + 1)})


# --- one CTA's products in the order of events -------------------------------------------------------------------------------------------------------
def product_spans(found: Returned, block: int = 0) -> list[Span]:
    """The products of each consumer of a CTA from the first wgmma's issue to the last one's landing, and dq's way out of its shared memory. Time is the
    order of the CTA's events, counted from 0."""
    lines = found.text.split("\n")
    events = list(enumerate(e for e in found.run.timeline if e.block == block and e.file.endswith("backward.cu")))
    spans: list[Span] = []
    for consumer in range(1, found.choice.consumers + 1):
        running: dict[str, list[int]] = {}
        for at, event in events:
            name = next((name for text, name in PRODUCTS.items() if event.warp == 4 * consumer and event.what.endswith(" wgmma") and text in lines[event.line - 1]), None)
            if name and event.kind == "issue":
                running.setdefault(name, []).append(at)
            elif name and event.kind == "land":
                start = running[name].pop(0)
                before = next((s for s in reversed(spans) if s.row == f"consumer {consumer}: {name}"), None)
                if before is not None and start <= before.end:
                    spans[spans.index(before)] = replace(before, end=at)
                else:
                    spans.append(Span(f"consumer {consumer}: {name}", start, at, name))
    rows = [f"consumer {consumer}: {name}" for consumer in range(1, found.choice.consumers + 1) for name in PRODUCTS.values()]
    return sorted(spans, key=lambda s: rows.index(s.row)) + _additions(events, lines)


def _additions(events: Sequence[tuple[int, Any]], lines: Sequence[str]) -> list[Span]:
    out, running = [], []
    for at, event in events:
        if event.warp == 1 and event.what in ("issue store cp", "read store cp") and "dqs +" in lines[event.line - 1]:
            if event.kind == "issue":
                running.append(at)
            elif running:
                out.append(Span("warp that adds dq", running.pop(0), at, "adds dq"))
    return out


def backward_order(length: int = 256, step: str = "overlapped") -> style.Picture:
    """The products of one CTA, a row a product and consumer: heads of 64, every key."""
    found = run_backward(step, length)
    return gantt(product_spans(found), f"{step}: five products a block of queries", "order of events in the emulator (not seconds)", COLOURS)


def launch_backward(d: int, causal: str, dq: str, length: int, landing: str = "lazy") -> style.Picture:
    """The panel: `length` queries and keys of one head; the products of the CTA that has the first keys, in the order of events."""
    found = run_backward(length=length, d=d, causal=causal == "yes", dq=dq, landing=landing)
    counts, told = found.run.counters, found.run.hazards[0].kind if found.run.hazards else "no hazard"
    blocks, tiles = -(-length // found.choice.bn), -(-length // found.choice.bm(d))
    heading = f"D = {d}{', causal' if causal == 'yes' else ''}, dq {dq}: {'right' if found.right else 'WRONG'}, {told}"
    below = (f"{blocks} blocks of {found.choice.bn} keys, {tiles} of {found.choice.bm(d)} queries; order of events in the emulator (not seconds)\n"
             f"{counts['wgmma']} wgmma, {counts['tma_stores'] + counts['bulk_stores']} bulk stores, {counts['bulk_reduces']} bulk adds, "
             f"{counts['tma_load_bytes'] // 1024} KiB loaded")
    picture = gantt(product_spans(found), heading, below, COLOURS)
    return style.Picture(picture.figure, "\n".join([picture.text, *(f"  {line}" for line in below.split("\n"))]))


# --- the exercise ------------------------------------------------------------------------------------------------------------------------------------
NEEDS: Mapping[str, set[str]] = {"s": set(), "dp": set(), "dv": {"s"}, "dk": {"s", "dp"}, "dq": {"s", "dp"}}


def check_waits(answer: Mapping[str, str] | None) -> str:
    """Lesson 16b's exercise: for each of the five products of a block, those of the same block whose results must be there before it may start. In words."""
    if not answer or any(value is None for value in answer.values()):
        return "Not answered yet: a string for each product, such as 's dp', or '' for none."
    if set(answer) != set(NEEDS):
        return f"Not yet: there are five products, {', '.join(NEEDS)}."
    for name, needed in NEEDS.items():
        said = set(answer[name].replace(",", " ").split())
        if said - set(NEEDS):
            return f"Not yet: {', '.join(sorted(said - set(NEEDS)))} is no product."
        if said - needed:
            return f"Not yet: {name} can start without {', '.join(sorted(said - needed))}. Which of its two operands is computed in the kernel at all?"
        if needed - said:
            return f"Not yet: an operand of {name} is made of {', '.join(sorted(needed - said))} too."
    return "Right: dv needs p alone and may start before dp is there; dk and dq need ds, which is made of both; nothing waits for dv, dk or dq."
