# SPDX-License-Identifier: Apache-2.0
"""Attention forward in fp8, the recording `attention_fp8`: `hopperlab bench attention_fp8`.

Needs a Hopper GPU, CuPy and PyTorch. Every configuration is first checked against float64 in a process of its own with a time limit; then what
passed is timed beside our bf16 forward (kernel `bf16`) and cuDNN's, interleaved, with a cold L2, on the same random normal numbers, and written as
the recording `attention_fp8`: configurations with a note, `final`, and what the sums over keys lose (kernel `accuracy`). `final` is the fastest
configuration of a cell among those that promote their sums; the others are there to show what that costs.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...runtime.tables import text_table
from . import attention as bf16
from . import prechecked
from ..launches import attention_fp8 as ours
from .attention import HIDDEN, TOKENS
from ..launches.launch import Launch
from ..launches.attention_fp8 import ForwardFp8
from ..recordings import Record
from ..machine.timing import Sample, interleaved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...runtime.arrays import Array

LENGTHS = (1024, 4096, 16384)
CELLS = tuple((d, causal, length) for d in ours.HEAD_SIZES for causal in (False, True) for length in LENGTHS)
CONFIGURATIONS: Mapping[int, Mapping[str, ForwardFp8]] = {
    64: {"192": ForwardFp8(bn=192), "128, 3 stages": ForwardFp8(stages=3), "192, no turns": ForwardFp8(bn=192, turns=0), "192, a tile": ForwardFp8(bn=192, blocks=0),
         "three": ForwardFp8(bn=96, consumers=3), "three, 160, not ahead": ForwardFp8(bn=160, consumers=3, overlap=0),
         "192, held": ForwardFp8(bn=192, held=1), "three, held": ForwardFp8(bn=96, consumers=3, held=1),
         "192, not promoted": ForwardFp8(bn=192, promoted=0)},
    128: {"128": ForwardFp8(), "160": ForwardFp8(bn=160, wide=64), "224, not ahead": ForwardFp8(bn=224, overlap=0), "128, no turns": ForwardFp8(turns=0),
          "128, held": ForwardFp8(held=1), "160, held": ForwardFp8(bn=160, wide=64, held=1), "192, held": ForwardFp8(bn=192, wide=64, held=1),
          "128, 3 stages": ForwardFp8(stages=3), "128, group 1": ForwardFp8(group=1), "224, not promoted": ForwardFp8(bn=224, promoted=0)},
    256: {"128, not ahead": ForwardFp8(overlap=0, wide=64), "128, not ahead, no turns": ForwardFp8(overlap=0, wide=64, turns=0), "64": ForwardFp8(bn=64, wide=64),
          "64, held": ForwardFp8(bn=64, wide=64, held=1),
          "64, 3 stages": ForwardFp8(bn=64, wide=64, stages=3), "96, not promoted": ForwardFp8(bn=96, promoted=0)},
}
ARRAYS = ("q8", "k8", "v8", "o", "lse", "q_scale", "k_scale", "v_scale", "q_starts", "k_starts")
ACCURACY_KEYS = (256, 1024, 4096, 16384)


def operands(q_lengths: Sequence[int], k_lengths: Sequence[int], heads: int, kv_heads: int, d: int, seed: int = 0, size: float = 1.0,
             positive: bool = False) -> dict:
    """attention.operands, and q8, k8, v8 (uint8 bits) with their scales, made of them. positive: v without its signs."""
    import cupy
    import torch
    given = bf16.operands(q_lengths, k_lengths, heads, kv_heads, d, seed, size)
    if positive:
        given["tensors"]["v"].abs_()
    for name in ("q", "k", "v"):
        values = given["tensors"][name].float()
        scales = values.abs().amax(dim=(0, 2)) / ours.LARGEST
        bits = (values / scales[:, None]).clamp(-ours.LARGEST, ours.LARGEST).to(torch.float8_e4m3fn)
        given["tensors"] |= {f"{name}8": bits, f"{name}_scale": scales}
        given |= {f"{name}8": cupy.asarray(bits.view(torch.uint8)), f"{name}_scale": cupy.asarray(scales)}
    torch.cuda.synchronize()
    return given


def make(given: Mapping, causal: bool, choice: ForwardFp8) -> Launch:
    """The launch of one configuration on operands."""
    return ours.forward_fp8(*(given[name] for name in ARRAYS), causal, choice=choice)


def run(given: Mapping, launch: Launch) -> tuple[Array, Array]:
    """o (float32) and lse of one launch, as NumPy arrays; nan where nothing was written."""
    import cupy
    import numpy as np
    given["o"].fill(0x7FC0)
    given["lse"].fill(np.nan)
    launch()
    cupy.cuda.runtime.deviceSynchronize()
    return given["tensors"]["o"].float().cpu().numpy(), given["lse"].get()


def numbers(given: Mapping) -> tuple:
    """What `reference` and `rounding` take: the e4m3 numbers as float32, scales, starts."""
    return (*(given["tensors"][name].float().cpu().numpy() for name in ("q8", "k8", "v8", "q_scale", "k_scale", "v_scale")),
            *(given[name].get() for name in ("q_starts", "k_starts")))


def wrong(given: Mapping, causal: bool, launch: Launch) -> float:
    """Share of elements further from float64 than rounding p and o explains, and what the tensor core's sums drop: 2^-8 of the largest v from o, and
    2^-10 of the largest score from scores, by which terms err as well. nan and a wrong lse count."""
    import numpy as np
    o, lse = run(given, launch)
    known = numbers(given)
    expected, logs = ours.reference(*known, causal)
    most = float(given["tensors"]["v"].float().abs().max())
    score = 2.0 ** -10 * np.abs(logs[np.isfinite(logs)]).max(initial=8)         # the logarithm of a sum of terms is near its largest score
    bound = (1 + 2.0 ** 4 * score) * ours.rounding(*known, causal) + 2.0 ** -8 * (np.abs(expected) + most)
    with np.errstate(invalid="ignore"):
        off = ~((lse == logs) | (np.abs(lse - logs) <= score + 1e-4 * np.abs(logs)))
    return max(float((~(np.abs(o - expected) <= bound)).mean()), float(off.mean()))


def check(name: str) -> int:
    """Check 'D: configuration' on this GPU; 0 when every element is right."""
    d, choice = _named()[name]
    return bf16.every_shape(name, lambda q_lengths, k_lengths, seed: operands(q_lengths, k_lengths, 4, 2, d, seed), bf16.twice(make, wrong, choice))


def _named() -> dict[str, tuple[int, ForwardFp8]]:
    return {f"{d}: {name}": (d, choice) for d, choices in CONFIGURATIONS.items() for name, choice in choices.items()}


def _timed(cell, choices: Mapping[str, ForwardFp8], rounds: int) -> tuple[dict[str, Launch], dict[str, Sample]]:
    d, causal, length = cell
    given = operands([length] * (TOKENS // length), [length] * (TOKENS // length), HIDDEN // d, HIDDEN // d, d)
    made = {name: make(given, causal, choice) for name, choice in choices.items()}
    beside = {"bf16": bf16.make(given, causal, bf16.ours.choose(d, causal, length)).bound(), "cuDNN": bf16.cudnn(given, length, causal)}
    return made, interleaved({name: launch.bound() for name, launch in made.items()} | beside, rounds, 2)


def _records(cell, timed, **how) -> list[Record]:
    return [replace(record, suite="attention_fp8", dtype="bfloat16" if record.kernel in ("bf16", "cuDNN") else "e4m3")
            for record in bf16._records(cell, timed, **how)]


def accuracy() -> list[Record]:
    """Mean and worst error of o for 256 queries over many keys, whose values have both signs or only one. Against float64 of the e4m3 numbers: what
    rounding p and the tensor core's sums cost; of the numbers before they were quantised: all that fp8 costs, beside bf16."""
    import numpy as np
    records = []
    choices = {"promoted": ForwardFp8(), "not promoted": ForwardFp8(promoted=0)}
    for kind in ("normal", "positive"):
        for keys in ACCURACY_KEYS:
            given = operands([256], [keys], 4, 4, 128, keys, positive=kind == "positive")
            known = numbers(given)
            exact = {"e4m3": ours.reference(*known)[0],
                     "bfloat16": bf16.ours.reference(*(given["tensors"][name].float().cpu().numpy() for name in ("q", "k", "v")), *known[-2:])[0]}
            made = {name: run(given, make(given, False, choice))[0] for name, choice in choices.items()}
            made["bf16"] = run(given, bf16.make(given, False, bf16.ours.choose(128, False, keys)))[0]
            for name, against in (("promoted", "e4m3"), ("not promoted", "e4m3"), ("promoted", "bfloat16"), ("bf16", "bfloat16")):
                error = np.abs(made[name] - exact[against]) / np.sqrt(np.mean(exact[against] ** 2))
                records.append(Record("attention_fp8", "accuracy", (name, kind), (256, keys, 4, 128), against, value=float(error.mean()), value_max=float(error.max()),
                                      unit="of the results' root mean square", note=f"error against float64 of the {against} numbers"))
    return records


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """All records; what was found so far is given to `keep` after each cell. `final` is timed once more."""
    right = prechecked.right(__name__, _named())
    records = accuracy() if {"128: 128", "128: 224, not promoted"} <= right else []
    for cell in CELLS:
        tried = {name: choice for name, choice in CONFIGURATIONS[cell[0]].items() if f"{cell[0]}: {name}" in right}
        found = [record for record in _records(cell, _timed(cell, tried, rounds), kernel="forward_fp8") if record.note]
        records += found
        sound = [record for record in found if tried[record.note].promoted]
        if sound:
            best = tried[max(sound, key=lambda record: record.tflops).note]
            records += _records(cell, _timed(cell, {"final": best}, rounds), last=best)
        keep(records)
    return records


def shown(records: Iterable[Record]) -> str:
    """attention.shown over our cells, how much faster fp8 is than our bf16 forward, and the errors."""
    records = list(records)
    rate = {(record.kernel, record.options[:2], record.shape): record.tflops for record in records if not record.note}
    gains = [f"{' '.join(options)} {shape[1]}: {value:.0f}, bf16 {rate['bf16', options, shape]:.0f}: {value / rate['bf16', options, shape]:.2f}"
             for (kernel, options, shape), value in rate.items() if kernel == "final"]
    errors = text_table("error against {:8} {:8} {:6d} keys, {:12} mean {:.2e} worst {:.2e}",
                        [(r.dtype, r.options[1], r.shape[1], r.options[0], r.value, r.value_max) for r in records if r.kernel == "accuracy"])
    return "\n".join([bf16.shown(records, CELLS), *gains, *errors])
