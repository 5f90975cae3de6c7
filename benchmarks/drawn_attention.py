# SPDX-License-Identifier: Apache-2.0
"""Configurations of the attention kernels that nobody picked: drawn, timed on a GPU, and what their estimates are off (docs/estimates.md, Errors).

    python -m benchmarks.drawn_attention                      judge the draws in benchmarks/drawn/attention: ten minutes a draw, no GPU
    python -m benchmarks.drawn_attention h100_2026112801      one of them
    python -m benchmarks.drawn_attention --draw SEED          draw eighty-eight, time them on this machine's Hopper GPU and store them there, two minutes

A draw: cells of a head size, causal or not, a length of sequences (16384 tokens in all, 2048 numbers a token) and a type, each with configurations out of all
that fit and that ptxas compiles without a note and without spilling; every cell and every configuration of it has the same chance. Then cells of any length from
300 to 9000, each in the configuration that is chosen for it (in draws from seed 2026112803 on).
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hopperlab.estimates import accuracy, boards, estimating, sample
from hopperlab.hopper.limits import SHARED_PER_BLOCK
from hopperlab.measure.launches import attention, attention_fp8
from hopperlab.measure.launches.launch import Launch
from hopperlab.runtime.errors import HopperlabError, LaunchError

from .drawn_estimates import FOLDER as PRODUCTS
from .drawn_estimates import ROUNDS, draw_or_judge, options

FOLDER = PRODUCTS / "attention"
TOKENS, HIDDEN = 16384, 2048
LENGTHS, TYPES = (512, 1024, 2048, 4096, 8192, 16384), ("bf16", "e4m3")
CELLS, EACH, CHOSEN, SINCE = 12, 4, 40, 2026112803
OFF = {"bf16": 0.01, "e4m3": 0.08}              # mean error of a right result, of the mean magnitude
Choice = attention.Forward | attention_fp8.ForwardFp8


@dataclass(frozen=True)
class Cell:
    """What is computed: a head size, whether causal, the length of all sequences, and the type of q, k and v."""

    d: int
    causal: bool
    length: int
    kind: str


def possible(cell: Cell) -> list[Choice]:
    """All configurations of a cell that shared memory has room for; which of them need more registers than there are ptxas tells (`timed`)."""
    both = itertools.product((1, 2, 3), (0, 1), (0, 1))
    found: list[Choice] = []
    for consumers, overlap, turns in both:
        shared = {"consumers": consumers, "overlap": overlap, "turns": turns if consumers > 1 else 0}
        if cell.kind == "bf16":
            found += [attention.Forward(bn=bn, q_slots=q_slots, chains=chains, **shared)
                      for bn, q_slots, chains in itertools.product((64, 80, 128, 176, 192), (1, 2), (1, 2))]
        else:
            found += [attention_fp8.ForwardFp8(bn=bn, stages=stages, promoted=promoted, wide=wide, held=held, **shared)
                      for bn, stages, (promoted, wide), held in itertools.product((64, 96, 128, 160, 192, 224), (2, 3), ((0, 0), (1, 0), (1, 64)), range(overlap + 1))
                      if wide < cell.d]
    return list(dict.fromkeys(one for one in found if one.shared_bytes(cell.d) <= SHARED_PER_BLOCK))


def drawn(seed: int) -> Iterator[tuple[Cell, list[Choice]]]:
    """Cells, none twice, each with its configurations in the order in which they are taken until EACH of them compile."""
    known: set[Cell] = set()
    rng = np.random.default_rng(seed)
    while len(known) < CELLS:
        cell = Cell(int(rng.choice((64, 128, 256))), bool(rng.integers(2)), int(rng.choice(LENGTHS)), str(rng.choice(TYPES)))
        order = rng.permutation(len(possible(cell)))
        if cell not in known:
            known.add(cell)
            yield cell, [possible(cell)[k] for k in order]


def chosen(seed: int) -> Iterator[tuple[Cell, list[Choice]]]:
    """Cells of any length, each with the configuration that is chosen for it."""
    rng = np.random.default_rng((seed, 1))
    for _ in range(CHOSEN if seed >= SINCE else 0):
        cell = Cell(int(rng.choice((64, 128, 256))), bool(rng.integers(2)), int(rng.integers(300, 9000)), str(rng.choice(TYPES)))
        units = TOKENS // cell.length * (HIDDEN // cell.d)
        picked: Choice = attention.choose(cell.d, cell.causal, cell.length, units) if cell.kind == "bf16" else attention_fp8.choose(cell.d, cell.causal, cell.length)
        yield cell, [picked]


def launched(cell: Cell, choice: Choice) -> Launch:
    """In the emulator, of zeros."""
    count, heads = TOKENS // cell.length, HIDDEN // cell.d
    starts, tokens = np.arange(count + 1, dtype=np.int32) * cell.length, count * cell.length
    q, k, v = (np.zeros((tokens, heads, cell.d), np.uint16 if cell.kind == "bf16" else np.uint8) for _ in range(3))
    o, lse = np.zeros((tokens, heads, cell.d), np.uint16), np.zeros((heads, tokens), np.float32)
    if isinstance(choice, attention_fp8.ForwardFp8):
        ones = np.ones(heads, np.float32)
        return attention_fp8.forward_fp8(q, k, v, o, lse, ones, ones, ones, starts, starts, cell.causal, choice=choice, backend="emulator")
    return attention.forward(q, k, v, o, lse, starts, starts, cell.causal, choice=choice, backend="emulator")


def timed(seed: int) -> list[dict[str, object]]:
    """The rows of a draw on this machine's GPU, interleaved in each cell, the L2 cold, every result compared with cuDNN's."""
    import cupy

    from hopperlab.measure.machine.timing import interleaved
    from hopperlab.measure.suites import attention as suite
    from hopperlab.measure.suites import attention_fp8 as suite_fp8

    rows = []
    for cell, order in itertools.chain(drawn(seed), chosen(seed)):
        lengths, heads = [cell.length] * (TOKENS // cell.length), HIDDEN // cell.d
        given = (suite if cell.kind == "bf16" else suite_fp8).operands(lengths, lengths, heads, heads, cell.d)
        expected = suite.cudnn(given, cell.length, cell.causal)().transpose(1, 2).flatten(0, 1).float()
        runs = {}
        for choice in order:
            try:
                launch = (suite if cell.kind == "bf16" else suite_fp8).make(given, cell.causal, choice)
            except HopperlabError:
                continue
            if launch.kernel.use.spill_stores:
                continue
            given["o"].fill(0x7FC0)
            launch()
            cupy.cuda.runtime.deviceSynchronize()
            off = float((given["tensors"]["o"].float() - expected).abs().mean() / expected.abs().mean())
            if not off < OFF[cell.kind]:
                raise RuntimeError(f"{cell} {' '.join(choice.named)}: {off:.1%} off")
            runs[as_launched(choice, launch)] = launch.bound()
            if len(runs) == EACH:
                break
        rows += [{"d": cell.d, "causal": cell.causal, "length": cell.length, "type": cell.kind, "named": name, "us": round(1e3 * one.ms, 3)}
                 for name, one in interleaved(runs, ROUNDS, warmups=2).items()]
        print(f"{cell}: {len(runs)} timed", end="\r" if len(order) == 1 else "\n", flush=True)
    return rows


def as_launched(choice: Choice, launch: Launch) -> str:
    """A configuration's name with the heads that a launch of it works on at once: how many are chosen for 0 may change."""
    return " ".join(replace(choice, group=int(launch.args[-1])).named)


def asked(row: dict[str, object]) -> tuple[Cell, Choice]:
    """A row's cell and configuration."""
    cell, named = Cell(int(str(row["d"])), bool(row["causal"]), int(str(row["length"])), str(row["type"])), str(row["named"]).split()
    return cell, attention.parsed(named, attention.Forward) if cell.kind == "bf16" else attention.parsed(named, attention_fp8.ForwardFp8)


def sampled(row: dict[str, object]) -> sample.Sample:
    """What a sample of a row's launch did. Raises LaunchError where there is no estimate."""
    launch = launched(*asked(row))
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    return estimating.sampled(planned, "attention")


def estimated(row: dict[str, object], board: boards.Board) -> accuracy.Row | None:
    """A row with its estimate; None where there is none."""
    cell, _choice = asked(row)
    try:
        us = estimating.of_sample(sampled(row), "attention", board).us
    except LaunchError as why:
        print(f"{cell} {row['named']}: {why}", flush=True)
        return None
    return accuracy.Row(str(row["named"]), "drawn", "attention", f"{cell.kind} D={cell.d} {'causal' if cell.causal else 'full'} {cell.length}", False,
                        float(str(row["us"])), us)


def main() -> None:
    """Draw and time, or judge."""
    parser = options(__doc__, "benchmarks.drawn_attention", "benchmarks/drawn/attention")
    draw_or_judge(parser, parser.parse_args(), FOLDER, timed, estimated)


if __name__ == "__main__":
    main()
