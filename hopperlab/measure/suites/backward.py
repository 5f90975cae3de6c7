# SPDX-License-Identifier: Apache-2.0
"""Attention backward beside cuDNN, the recording `backward`: `hopperlab bench backward`.

Needs a Hopper GPU, CuPy and PyTorch. Every configuration is first checked against float64 in a process of its own with a time limit; then what
passed is timed beside cuDNN (and FlashAttention, where it is installed), interleaved, with a cold L2, over head sizes, lengths and masks at 16k tokens
and a hidden size of 2048: the whole pass, from o and the log-sum-exp to dq, dk and dv in bf16. At every timed shape the first and the last head are
compared with float64. `final` and `ordered` are the fastest configuration of each cell without and with an order, timed once more; `accuracy` and `bits` say
how far results are from float64, and whether two runs give the same.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import summaries
from ...runtime.tables import text_table
from . import prechecked
from .attention import HIDDEN, LENGTHS, TOKENS
from .backward_peers import PEERS
from .fields import beside, facts, times, wait
from .race import WrongResult
from ..launches import attention
from ..launches import attention_backward as ours
from ..launches.attention_backward import Backward, BackwardPass
from ..machine.timing import Sample, interleaved
from ..recordings import Record

if TYPE_CHECKING:
    from ...runtime.arrays import Array

CELLS = tuple((d, causal, length) for d in ours.HEAD_SIZES for causal in (False, True) for length in LENGTHS)
STEP_CELLS = ((64, False, 4096), (64, True, 4096), (128, False, 4096), (128, True, 4096))
CONFIGURATIONS: Mapping[str, Backward] = {
    "bulk": Backward(), "bulk, group 1": Backward(group=1), "bulk, group 16": Backward(group=16), "bulk, not rotated": Backward(rotated=0),
    "atomics": Backward(dq="atomics"),
    "ordered": Backward(dq="ordered"), "ahead": Backward(ahead=1), "ordered, ahead": Backward(dq="ordered", ahead=1), "ordered, group 1": Backward(dq="ordered", group=1)}
CHECKS = (1, 130, 777)
BIT_RUNS = 20
METHOD = ("medians of whole backward passes (ours: three kernels) timed with events around them, variants interleaved in one process, each after a write of "
          "512 MiB; random normal "
          "inputs; 10 * batch * heads * length^2 * D operations, halved when causal; the ratio is that of speeds, round by round")


def flop(d: int, causal: bool, length: int) -> int:
    """10 * batch * heads * length^2 * D, halved when causal: five products."""
    return 10 * TOKENS * length * HIDDEN // (2 if causal else 1)


def operands(tokens: int, length: int, heads: int, d: int, causal: bool, seed: int = 0) -> dict:
    """Random normal tensors, CuPy arrays that share their memory, and o and lse by our forward pass."""
    import cupy
    import numpy as np
    import torch
    made = torch.Generator(device="cuda").manual_seed(seed)
    tensors = {name: torch.randn(tokens, heads, d, device="cuda", generator=made).to(torch.bfloat16) for name in ("q", "k", "v", "d_o")}
    tensors |= {name: torch.full_like(tensors["q"], float("nan")) for name in ("o", "dq", "dk", "dv")}
    torch.cuda.synchronize()
    arrays = {name: cupy.asarray(t.view(torch.int16)).view("uint16") for name, t in tensors.items()}
    lse, starts = cupy.full((heads, tokens), np.nan, np.float32), cupy.arange(0, tokens + 1, length, dtype=np.int32)
    attention.forward(*(arrays[name] for name in ("q", "k", "v", "o")), lse, starts, starts, causal)()
    wait()
    return {"tensors": tensors, "lse": lse, "length": length, "causal": causal, **arrays}


def make(given: Mapping, choice: Backward) -> BackwardPass:
    """The launches of one configuration on operands."""
    return ours.backward(*(given[name] for name in ("q", "k", "v", "o", "d_o", "lse", "dq", "dk", "dv")), given["length"], given["causal"], choice=choice)


def exact(given: dict) -> dict:
    """(first token, head) -> `gradients` of the first and of the last head, on the GPU; computed once for operands."""
    import cupy
    length, (tokens, heads, d) = given["length"], given["q"].shape
    if "exact" not in given:
        given["exact"] = {}
        for first, head in {(0, 0), (tokens - length, heads - 1)}:
            numbers = [cupy.asarray(given["tensors"][name][first:first + length, head].float()) for name in ("q", "k", "v", "d_o")]
            given["exact"][first, head] = ours.gradients(*numbers, given["causal"], d ** -0.5, cupy)
        cupy.get_default_memory_pool().free_all_blocks()
    return given["exact"]


def wrong(given: dict, run: Callable[[], object]) -> float:
    """Share of elements of dq, dk and dv further from float64 than roundings explain, in the first and the last head; nan counts."""
    import cupy
    for name in ours.MADE:
        given[name].fill(0x7FC0)
    run()
    wait()
    shares = []
    for (first, head), found in exact(given).items():
        for name, wanted, bound in zip(ours.MADE, *found, strict=True):
            made = cupy.asarray(given["tensors"][name][first:first + given["length"], head].float())
            shares.append(float((~(abs(made - wanted) <= bound)).mean()))
    return max(shares)


def check(name: str) -> int:
    """Check 'D: configuration' (or 'D: step NAME') on this GPU; 0 when every element is right, and an ordered result is the same in both runs."""
    d, choice = _named()[name]
    for causal in (False, True):
        for length in CHECKS:
            given, bits = operands(2 * length, length, 2, d, causal, seed=length), []
            launches = make(given, choice)
            for _ in range(2):
                share = wrong(given, launches)
                bits.append(given["dq"].copy())
                if share or choice.dq == "ordered" and not (bits[0] == bits[-1]).all():
                    print(f"{name}: {share:.2%} wrong at length {length} {'causal' if causal else 'full'}")
                    return 1
    print(f"{name}: right at {2 * len(CHECKS)} shapes")
    return 0


def _named() -> dict[str, tuple[int, Backward]]:
    """What is checked: 'D: name' of each configuration or step whose kernel no other one before has."""
    found: dict[str, tuple[int, Backward]] = {}
    kernels = set()
    for d in ours.HEAD_SIZES:
        for name, choice in {**CONFIGURATIONS, **{f"step {name}": choice for name, choice in ours.STEPS.items()}}.items():
            if (d == 64 or choice.consumers > 1) and choice.options(d, False) not in kernels:
                kernels.add(choice.options(d, False))
                found[f"{d}: {name}"] = d, choice
    return found


def _passed(d: int, choices: Mapping[str, Backward], right: Iterable[str]) -> dict[str, Backward]:
    """Those whose kernel is right."""
    known = _named()
    kernels = {known[name][1].options(d, False) for name in right if known[name][0] == d}
    return {name: choice for name, choice in choices.items() if choice.options(d, False) in kernels}


def _timed(cell, choices: Mapping[str, Backward], rounds: int, peers: Sequence[str] = ("cuDNN",)) -> tuple[dict[str, BackwardPass], dict[str, Sample]]:
    """The passes and samples of these configurations and peers. Raises WrongResult where a head is not float64's."""
    d, causal, length = cell
    given = operands(TOKENS, length, HIDDEN // d, d, causal)
    made = {name: make(given, choice) for name, choice in choices.items()}
    for name, one in made.items():
        if share := wrong(given, one):
            raise WrongResult(f"backward: {name} is wrong at d{d} {'causal' if causal else 'full'} {length}: {share:.2g} of the elements")
    others = {name: run for name in peers if (run := PEERS[name](given)) is not None}
    return made, interleaved({name: one.bound() for name, one in made.items()} | others, rounds, 2)


def _records(cell, timed, kernel: str | None = None, chosen: Mapping[str, Backward] | None = None) -> list[Record]:
    """kernel: what configurations are of, their names become notes. chosen: configurations that a record's options name."""
    d, causal, length = cell
    made, samples = timed
    rate = {name: round(flop(*cell) / sample.ms / 1e9, 1) for name, sample in samples.items()}
    out = []
    for name, sample in samples.items():
        options = (f"D={d}", "causal" if causal else "full", *(chosen[name].named if chosen and name in chosen else ()))
        main = made[name].launches[1] if name in made else None
        out.append(Record("backward", kernel if kernel and name in made else name, options, (TOKENS // length, length, HIDDEN // d, d), "bfloat16",
                          **times(sample), tflops=rate[name],
                          **beside(sample, "cuDNN", samples["cuDNN"], rate["cuDNN"]), **facts(main), note=name if kernel and name in made else ""))
    return out


def parts(cell: tuple[int, bool, int], choice: Backward, rounds: int) -> list[Record]:
    """Each of the three kernels alone, in one cell."""
    d, causal, length = cell
    launches = make(operands(TOKENS, length, HIDDEN // d, d, causal), choice).launches
    samples = interleaved({launch.kernel.name: launch.bound() for launch in launches}, rounds, 2)
    return [Record("backward", "part", (f"D={d}", "causal" if causal else "full", launch.kernel.name), (TOKENS // length, length, HIDDEN // d, d), "bfloat16",
                   **times(samples[launch.kernel.name]), **facts(launch)) for launch in launches]


def accuracy(right: Collection[str], length: int = 2048) -> list[Record]:
    """Mean and worst error against float64 of the first head, of ours and of the peers, as a share of the results' root mean square."""
    import cupy
    records = []
    for d in ours.HEAD_SIZES:
        given = operands(length, length, HIDDEN // d, d, True, seed=d)
        numbers = [cupy.asarray(given["tensors"][name][:, 0].float()) for name in ("q", "k", "v", "d_o")]
        exact = ours.gradients(*numbers, True, d ** -0.5, cupy)[0]
        results: dict[str, list[Any]] = {}
        for name, choice in _passed(d, {name: CONFIGURATIONS[name] for name in ("bulk", "ordered")}, right).items():
            make(given, choice)()
            wait()
            results[name] = [cupy.asarray(given["tensors"][made][:, 0].float()) for made in ours.MADE]
        for name, peer in PEERS.items():
            run = peer(given)
            if run is not None:
                results[name] = [cupy.asarray(made[0, 0].float()) for made in run()]
        for name, made in results.items():
            for which, got, wanted in zip(ours.MADE, made, exact, strict=True):
                error = abs(got - wanted) / cupy.sqrt((wanted ** 2).mean())
                records.append(Record("backward", "accuracy", (f"D={d}", "causal", name, which), (1, length, HIDDEN // d, d), "bfloat16", value=float(error.mean()),
                                      value_max=float(error.max()), unit="of the results' root mean square", note="error against float64"))
    return records


def bits(right: Collection[str], length: int = 4096) -> list[Record]:
    """In how many of BIT_RUNS further runs a bit of dq, dk or dv differs from the first run's."""
    records = []
    for d in ours.HEAD_SIZES:
        given = operands(length, length, HIDDEN // d, d, False, seed=d)
        runs = {name: make(given, choice) for name, choice in _passed(d, {name: CONFIGURATIONS[name] for name in ("atomics", "bulk", "ordered")}, right).items()}
        for name, run in runs.items():
            results: list[list[Array]] = []
            for _ in range(BIT_RUNS + 1):
                run()
                wait()
                results.append([given[made].copy() for made in ours.MADE])
            other = sum(any(bool((a != b).any()) for a, b in zip(results[0], one, strict=True)) for one in results[1:])
            records.append(Record("backward", "bits", (f"D={d}", "full", f"DQ={name}"), (1, length, HIDDEN // d, d), "bfloat16", value=other,
                                  unit=f"of {BIT_RUNS} runs differ",
                                  note="from the first run, in a bit of dq, dk or dv"))
    return records


def _chosen(found: Sequence[Record], tried: Mapping[str, Backward]) -> dict[str, Backward]:
    """The fastest configuration without an order as `final`, the fastest with one as `ordered`, of a cell's records."""
    out = {}
    for name, ordered in (("final", False), ("ordered", True)):
        those = [r for r in found if r.note and (tried[r.note].dq == "ordered") == ordered]
        if those:
            out[name] = tried[max(those, key=lambda r: r.tflops or 0).note]
    return out


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """All records; what was found so far is given to `keep` after each cell."""
    right = prechecked.right(__name__, _named())
    records: list[Record] = []
    for cell in CELLS:
        d = cell[0]
        tried = _passed(d, CONFIGURATIONS, right)
        found = _records(cell, _timed(cell, tried, rounds), "backward")
        best = _chosen(found, tried)
        steps = {name: choice for name, choice in _passed(d, ours.STEPS, right).items() if name != "ordered"} if cell in STEP_CELLS else {}
        records += found + _records(cell, _timed(cell, steps | best, rounds, tuple(PEERS)), chosen=best)
        if cell in STEP_CELLS and "final" in best:
            records += parts(cell, best["final"], rounds)
        keep(records)
    records += accuracy(right) + bits(right)
    keep(records)
    return [replace(record, suite="backward") for record in records]


def shown(records: Iterable[Record], cells: Sequence[tuple[int, bool, int]] = CELLS) -> str:
    """One line a cell with the configurations, then the chosen ones beside each peer; summaries over all cells; errors and bits."""
    records, lines = list(records), []
    ratios: dict[str, dict[str, float | None]] = {"final": {}, "ordered": {}}
    for d, causal, length in cells:
        mask = "causal" if causal else "full"
        mine = [r for r in records if r.options[:2] == (f"D={d}", mask) and r.shape[1] == length and r.tflops]
        tried = sorted((r for r in mine if r.note), key=lambda r: -(r.tflops or 0))
        lines.append(f"d{d} {mask} {length}: " + "; ".join(f"{r.note} {r.tflops:.0f} ({r.ratio:.3f})" for r in tried))
        rows = [(r.kernel, r.tflops, r.ratio, r.ratio_min, r.ratio_max, r.peer, r.peer_value) for r in mine if not r.note and r.kernel != "cuDNN"]
        lines += text_table("    {:15} {:6.1f} {:.3f} [{:.3f} {:.3f}] of {} {}", rows)
        for name, into in ratios.items():
            into[f"d{d} {mask} {length}"] = next((r.ratio for r in mine if r.kernel == name), None)
    lines += [f"{name}, geometric mean: {summaries.summary(found)} of cuDNN" for name, found in ratios.items() if any(found.values())]
    lines += [f"{r.kernel} {' '.join(r.options)}: {r.value:.3g} {r.unit}" for r in records if r.kernel in ("accuracy", "bits")]
    lines += [f"{r.kernel} {' '.join(r.options)}: {1e3 * (r.ms or 0):.1f} us" for r in records if r.kernel == "part"]
    return "\n".join(lines)
