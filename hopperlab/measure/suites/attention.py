# SPDX-License-Identifier: Apache-2.0
"""Attention forward beside cuDNN, the recording `attention`: `hopperlab bench attention`.

Needs a Hopper GPU, CuPy and PyTorch. Every configuration is first checked against float64 in a process of its own with a time limit; then what
passed is timed beside cuDNN (through torch), interleaved, with a cold L2, over head sizes, lengths and masks at 16k tokens and a hidden size of
2048, and written as the recording `attention`: configurations with a note, the steps at one length, and the chosen one as `final`.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import summaries
from ...runtime.tables import text_table
from . import prechecked
from ..launches import attention as ours
from .fields import beside, facts, times
from ..launches.launch import Launch
from ..launches.attention import Forward
from ..recordings import Record
from ..machine.timing import Sample, interleaved

TOKENS, HIDDEN = 16384, 2048
LENGTHS = (1024, 2048, 4096, 8192, 16384)
CELLS = tuple((d, causal, length) for d in ours.HEAD_SIZES for causal in (False, True) for length in LENGTHS)
STEP_CELLS = ((128, False, 4096), (128, True, 4096))

_BASE = {64: Forward(consumers=3), 128: Forward(bn=192), 256: Forward(bn=80)}
_MORE = {64: {"two": Forward(), "two, 2 slots": Forward(q_slots=2), "two, 2 slots, group 1": Forward(q_slots=2, group=1), "2 slots": Forward(consumers=3, q_slots=2),
              "2 slots, group 1": Forward(consumers=3, q_slots=2, group=1), "2 slots, from registers": Forward(consumers=3, q_slots=2, staged=0),
              "2 slots, dealt, group 1": Forward(consumers=3, q_slots=2, dealt=1, group=1), "2 slots, pairs, group 1": Forward(consumers=3, q_slots=2,
                      dealt=1, cluster=2, group=1),
              "two of 192, 2 slots": Forward(bn=192, q_slots=2), "two of 176, 2 slots": Forward(bn=176, q_slots=2)},
         128: {"128": Forward(), "128, a tile": Forward(blocks=0), "128, group 1": Forward(group=1), "176": Forward(bn=176), "176, group 1": Forward(bn=176, group=1),
               "128, 2 slots": Forward(q_slots=2), "128, 2 slots, group 1": Forward(q_slots=2, group=1),
               "128, 2 slots, dealt, group 1": Forward(q_slots=2, dealt=1, group=1), "128, 2 slots, pairs, group 1": Forward(q_slots=2, dealt=1, cluster=2, group=1),
               "176, pairs, group 1": Forward(bn=176, dealt=1, cluster=2, group=1)},
         256: {"group 1, from registers": Forward(bn=80, group=1, staged=0)}}
CONFIGURATIONS: Mapping[int, Mapping[str, Forward]] = {
    d: {"drawn": base, "dealt": replace(base, dealt=1), "dealt, group 1": replace(base, dealt=1, group=1), "pairs": replace(base, dealt=1, cluster=2),
        "pairs, group 1": replace(base, dealt=1, cluster=2, group=1), "a tile": replace(base, blocks=0), "from registers": replace(base, staged=0),
        "2 chains": replace(base, chains=2),
        "no turns": replace(base, turns=0), "group 1": replace(base, group=1),
        **_MORE.get(d, {})}
    for d, base in _BASE.items()}
CHECKS = (([1], [1]), ([67, 130, 1], [131, 33, 200]), ([1024, 515], [1024, 777]))


def flop(d: int, causal: bool, length: int) -> int:
    """4 * batch * heads * length^2 * D, halved when causal."""
    return 4 * TOKENS * length * HIDDEN // (2 if causal else 1)


def operands(q_lengths: Sequence[int], k_lengths: Sequence[int], heads: int, kv_heads: int, d: int, seed: int = 0, size: float = 1.0) -> dict:
    """Packed random normal tensors and CuPy arrays that share their memory."""
    import cupy
    import numpy as np
    import torch
    made = torch.Generator(device="cuda").manual_seed(seed)
    starts = [np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) for lengths in (q_lengths, k_lengths)]
    tensors = {name: (size * torch.randn(int(starts[i][-1]), h, d, device="cuda", generator=made)).to(torch.bfloat16)
               for name, i, h in (("q", 0, heads), ("k", 1, kv_heads), ("v", 1, kv_heads))}
    tensors["o"] = torch.full_like(tensors["q"], float("nan"))
    lse = cupy.full((heads, int(starts[0][-1])), np.nan, np.float32)
    torch.cuda.synchronize()
    arrays = {name: cupy.asarray(t.view(torch.int16)).view("uint16") for name, t in tensors.items()}
    return {"tensors": tensors, "lse": lse, "q_starts": cupy.asarray(starts[0]), "k_starts": cupy.asarray(starts[1]), **arrays}


def make(given: Mapping, causal: bool, choice: Forward) -> Launch:
    """The launch of one configuration on operands."""
    return ours.forward(*(given[name] for name in ("q", "k", "v", "o", "lse", "q_starts", "k_starts")), causal, choice=choice)


def cudnn(given: Mapping, length: int, causal: bool, grouped: bool = False) -> Callable[[], Any]:
    """torch's scaled_dot_product_attention, cuDNN's kernel only, on the same memory; returns sequences x heads x length x D.
    grouped: several heads of q have one of k and v."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    views = [given["tensors"][name].unflatten(0, (-1, length)).transpose(1, 2) for name in ("q", "k", "v")]

    more = {"enable_gqa": True} if grouped else {}

    def run() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*views, is_causal=causal, **more)
    return run


def wrong(given: Mapping, causal: bool, run: Callable[[], None]) -> float:
    """Share of elements further from float64 than bf16 terms explain; nan and a wrong lse count."""
    import cupy
    import numpy as np
    given["o"].fill(0x7FC0)
    given["lse"].fill(np.nan)
    run()
    cupy.cuda.runtime.deviceSynchronize()
    numbers = {name: given["tensors"][name].float().cpu().numpy() for name in ("q", "k", "v", "o")}
    expected, lse = ours.reference(numbers["q"], numbers["k"], numbers["v"], given["q_starts"].get(), given["k_starts"].get(), causal)
    bound = 2.0 ** -7 * np.maximum(np.abs(expected), np.abs(numbers["v"]).max())
    mine = given["lse"].get()
    with np.errstate(invalid="ignore"):
        off = ~((mine == lse) | (np.abs(mine - lse) <= 1e-4 * np.maximum(1, np.abs(lse))))
    return max(float((~(np.abs(numbers["o"] - expected) <= bound)).mean()), float(off.mean()))


def every_shape(name: str, given_for: Callable[..., Mapping], share_wrong: Callable[[Mapping, bool], float]) -> int:
    """0 when no element is wrong at CHECKS, causal and not; else 1. Says which. given_for(q_lengths, k_lengths, seed) gives the operands."""
    for causal in (False, True):
        for seed, (q_lengths, k_lengths) in enumerate(CHECKS):
            share = share_wrong(given_for(q_lengths, k_lengths, seed), causal)
            if share:
                print(f"{name}: {share:.2%} wrong at {q_lengths} {k_lengths} {'causal' if causal else 'full'}")
                return 1
    print(f"{name}: right at {2 * len(CHECKS)} shapes")
    return 0


def twice(made: Callable[..., Launch], wrong: Callable[..., float], choice: object) -> Callable[[Mapping, bool], float]:
    """Of operands and whether the mask is causal: the greater share of wrong elements of two launches of a configuration."""
    def share(given: Mapping, causal: bool) -> float:
        launch = made(given, causal, choice)
        return max(wrong(given, causal, launch) for _ in range(2))
    return share


def check(name: str) -> int:
    """Check 'D: configuration' (or 'step NAME') on this GPU; 0 when every element is right."""
    d, choice = _named()[name]
    return every_shape(name, lambda q_lengths, k_lengths, seed: operands(q_lengths, k_lengths, 4, 2, d, seed), twice(make, wrong, choice))


def _named() -> dict[str, tuple[int, Forward]]:
    """What is checked on a GPU: the configurations of the recording, those of short sequences, and the steps."""
    every = {d: {**choices, **{f"short, {name}": short.choice for name, short in ours.SHORT[d].items()}} for d, choices in CONFIGURATIONS.items()}
    return {f"{d}: {name}": (d, choice) for d, choices in every.items() for name, choice in choices.items()} | {
        f"step {name}": (128, choice) for name, choice in ours.STEPS.items()}


def _timed(cell, choices: Mapping[str, Forward], rounds: int) -> tuple[dict[str, Launch], dict[str, Sample]]:
    d, causal, length = cell
    given = operands([length] * (TOKENS // length), [length] * (TOKENS // length), HIDDEN // d, HIDDEN // d, d)
    made = {name: make(given, causal, choice) for name, choice in choices.items()}
    return made, interleaved({name: launch.bound() for name, launch in made.items()} | {"cuDNN": cudnn(given, length, causal)}, rounds, 2)


def _records(cell, timed, kernel: str | None = None, last: Forward | None = None) -> list[Record]:
    """kernel: what configurations are of, their names become notes. last: the configuration of `final`, named in its options."""
    d, causal, length = cell
    made, samples = timed
    rate = {name: round(flop(*cell) / sample.ms / 1e9, 1) for name, sample in samples.items()}
    out = []
    for name, sample in samples.items():
        ours_ = kernel if kernel and name in made else name
        options = (f"D={d}", "causal" if causal else "full", *(last.named if name == "final" and last else ()))
        out.append(Record("attention", ours_, options, (TOKENS // length, length, HIDDEN // d, d), "bfloat16", **times(sample), tflops=rate[name],
                          **beside(sample, "cuDNN", samples["cuDNN"], rate["cuDNN"]), **facts(made.get(name)), note=name if kernel and name in made else ""))
    return out


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """All records; what was found so far is given to `keep` after each cell. `final` is the fastest configuration of the cell, timed once more."""
    right = prechecked.right(__name__, _named())
    records: list[Record] = []
    best: dict[tuple, Forward] = {}
    for cell in CELLS:
        tried = {name: choice for name, choice in CONFIGURATIONS[cell[0]].items() if f"{cell[0]}: {name}" in right}
        found = [r for r in _records(cell, _timed(cell, tried, rounds), "forward") if r.note]
        if found:
            best[cell] = tried[max(found, key=lambda r: r.tflops).note]
        records += found
        keep(records)
    for cell in best:
        steps = {name: choice for name, choice in ours.STEPS.items() if f"step {name}" in right} if cell in STEP_CELLS else {}
        records += _records(cell, _timed(cell, {**steps, "final": best[cell]}, rounds), last=best[cell])
        keep(records)
    return records


def shown(records: Iterable[Record], cells: Sequence[tuple[int, bool, int]] = CELLS) -> str:
    """One line a cell with the configurations, then the chosen one beside each peer, then its summary over all cells."""
    lines: list[str] = []
    last: dict[str, float | None] = {}
    records = list(records)
    for d, causal, length in cells:
        mask = "causal" if causal else "full"
        mine = [r for r in records if r.options[:2] == (f"D={d}", mask) and r.shape[1] == length]
        tried = sorted((r for r in mine if r.note), key=lambda r: -r.tflops)
        lines.append(f"d{d} {mask} {length}: " + "; ".join(f"{r.note} {r.tflops:.0f} ({r.ratio:.3f})" for r in tried))
        lines += text_table("    {:15} {:6.1f} {:.3f} [{:.3f} {:.3f}] of {} {}",
                            [(r.kernel, r.tflops, r.ratio, r.ratio_min, r.ratio_max, r.peer, r.peer_value) for r in mine if not r.note and r.kernel != "cuDNN"])
        last[f"d{d} {mask} {length}"] = next((r.ratio for r in mine if r.kernel == "final"), None)
    if any(last.values()):
        lines.append(f"final, geometric mean: {summaries.summary(last)} of cuDNN")
    return "\n".join(lines)
