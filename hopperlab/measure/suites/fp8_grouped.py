# SPDX-License-Identifier: Apache-2.0
"""Products of groups on rows as a router deals them out. For the recording `fp8` (measure/suites/fp8.py calls it): fp8/grouped.cu against a launch per group.
The recording `fp8_grouped`: fp8/grouped_tall.cu at drawn numbers of groups, rows and sizes, in both layouts, against DeepGEMM and cuBLASLt.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import fp8_operands
from ..launches.fp8 import block_scaled
from .fields import beside, facts, tflops, times
from .fp8_operands import Contestant
from ..launches.fp8_grouped import Tiles, grouped, masked, tall
from ..launches.launch import Launch
from ..recordings import Record
from ..machine.timing import interleaved

GROUPS, ROWS, N, K = 16, 8192, 4096, 7168
ALIGNED = 16                            # rows of a group: what a launch of its own needs, so that the contestants have the same work
CUBLASLT = "cuBLASLt a launch per group"
SEED, CELLS = 2026112711, 16
LAUNCHES = 32                           # groups at most for which cuBLASLt is launched once a group
METHOD = ("cells drawn at random: 8 to 256 groups, 8 to 1024 rows per group on average, dealt out with unequal chances (of groups that lie one behind "
          "the other multiples of 16), n and k of 1024 to 8192; cold L2, contestants interleaved round by round in one process; every result compared with fp32 "
          "before it is timed; DeepGEMM by sgl-deep-gemm, its scales laid as it wants them beforehand")


@dataclass(frozen=True)
class Cell:
    """One product of groups. rows: of each group; masked: in rooms of one size."""

    rows: tuple[int, ...]
    n: int
    k: int
    masked: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows of all groups, n, k."""
        return sum(self.rows), self.n, self.k

    @property
    def words(self) -> tuple[str, ...]:
        """As options of a record."""
        return f"GROUPS={len(self.rows)}", f"MASKED={int(self.masked)}"


def drawn(count: int = CELLS, seed: int = SEED) -> list[Cell]:
    """Cells that fit a GPU of 80 GB: at most 32768 rows, weights of at most 8 GB."""
    import numpy as np
    rng, found = np.random.default_rng(seed), []
    while len(found) < count:
        groups, mean = int(2 ** rng.integers(3, 9)), 2 ** rng.uniform(3, 10)
        n, k = (128 * round(2 ** rng.uniform(3, 6)) for _ in range(2))
        apart = len(found) % 2 == 1
        if groups * mean <= 32768 and groups * n * k <= 8e9:
            found.append(Cell(tuple(routed(int(rng.integers(1 << 30)), groups, round(groups * mean), 1 if apart else ALIGNED)), n, k, apart))
    return found


def routed(seed: int = 5, groups: int = GROUPS, rows: int = ROWS, aligned: int = ALIGNED) -> list[int]:
    """Rows of each group: `rows`, dealt out with unequal chances, multiples of `aligned`."""
    import numpy as np
    rng = np.random.default_rng(seed)
    return (aligned * rng.multinomial(max(1, rows // aligned), rng.dirichlet(np.full(groups, 2.0)))).tolist()


def _one_after_another(runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def run() -> None:
        for one in runs:
            one()
    return run


def _slices(given: Mapping, first: Sequence[int]):
    """Operands of each group that has rows, as fp8_operands.operands makes them."""
    for group, (begin, end) in enumerate(zip(first, first[1:])):
        if end > begin:
            part = {"a": given["a"][begin:end], "b": given["b"][group], "c": given["c"][begin:end],
                    "a_scales": given["a_scales"][:, begin:end].copy(), "b_scales": given["b_scales"][group]}
            t = given["tensors"]
            yield part | {"tensors": {"a": t["a"][begin:end], "b": t["b"][group], "c": t["c"][begin:end],
                                      "a_scales": t["a_scales"][:, begin:end].contiguous(), "b_scales": t["b_scales"][group]}}


def _operands(rows: Sequence[int], n: int = N, k: int = K) -> dict:
    """fp8_operands.operands of all rows, with a B of its own for each group (its tensors stacked), and where each group begins."""
    import cupy
    import numpy as np
    import torch
    given = fp8_operands.operands((sum(rows), n, k))
    made = [fp8_operands.operands((128, n, k), seed=100 + group)["tensors"] for group in range(len(rows))]
    b, b_scales = (torch.stack([tensors[name] for tensors in made]) for name in ("b", "b_scales"))
    first = torch.as_tensor(np.cumsum([0, *rows]).astype(np.int32), device="cuda")
    torch.cuda.synchronize()
    return given | {"b": cupy.asarray(b.view(torch.uint8)), "b_scales": cupy.asarray(b_scales), "first": cupy.asarray(first),
                    "tensors": given["tensors"] | {"b": b, "b_scales": b_scales, "first": first}}


def records(rounds: int) -> list[Record]:
    """`grouped`, our kernel a launch per group, and cuBLASLt's a launch per group, interleaved; every result is compared with fp32 first."""
    rows = routed()
    given = _operands(rows)
    parts = list(_slices(given, given["first"].get().tolist()))
    launch = grouped(given["a"], given["b"], given["c"], given["a_scales"], given["b_scales"], given["first"])
    own = [block_scaled(*(part[name] for name in ("a", "b", "c", "a_scales", "b_scales"))) for part in parts]
    runs = {"grouped": launch.bound(), "a launch per group": _one_after_another([one.bound() for one in own]),
            CUBLASLT: _one_after_another([fp8_operands.cublaslt(part) for part in parts])}
    for name, run in runs.items():
        share = max(fp8_operands.wrong(part, run) for part in parts)
        if share > 1e-3:
            raise RuntimeError(f"{name}: {share:.2%} of a group's elements are wrong")
    samples = interleaved(runs, rounds, 2)
    shape = (sum(rows), N, K)
    rate = {name: tflops(shape, sample) for name, sample in samples.items()}
    peer = CUBLASLT
    return [Record("fp8", name, (f"GROUPS={GROUPS}",), shape, "e4m3", **times(sample), tflops=rate[name],
                   **beside(sample, peer, samples[peer], rate[peer]), **facts(launch if name == "grouped" else None)) for name, sample in samples.items()]


def _room(given: Mapping, rows: Sequence[int]) -> dict:
    """The operands of `_operands` in rooms of one size, a multiple of 128 rows, as tensors: a, a_scales (groups x rows x k-blocks, and `columns`: k-blocks x
    all rows), c, counts; what is empty is zero."""
    import torch
    t = given["tensors"]
    high = -(-max(rows) // 128) * 128
    a = t["a"].new_zeros(len(rows), high, t["a"].shape[1])
    a_scales, c = t["a_scales"].new_zeros(len(rows), high, t["a_scales"].shape[0]), t["c"].new_zeros(len(rows), high, t["c"].shape[1])
    at = 0
    for group, count in enumerate(rows):
        a[group, :count], a_scales[group, :count] = t["a"][at:at + count], t["a_scales"][:, at:at + count].T
        at += count
    counts = torch.as_tensor(list(rows), dtype=torch.int32, device="cuda")
    columns = a_scales.flatten(0, 1).T.contiguous()
    torch.cuda.synchronize()
    return {"a": a, "a_scales": a_scales, "columns": columns, "c": c, "counts": counts}


def ours(cell: Cell, given: Mapping, room: Mapping, tiles: Tiles | None = None) -> tuple[Launch, Contestant]:
    """grouped_tall.cu on a cell. tiles: None, as the course picks them."""
    import cupy
    import torch
    if not cell.masked:
        launch = tall(*(given[name] for name in ("a", "b", "c", "a_scales", "b_scales", "first")), tiles=tiles)
        first = [0, *given["first"].get().tolist()[1:]]
        return launch, Contestant(launch.bound(), [given["tensors"]["c"][begin:end] for begin, end in zip(first, first[1:])])
    a, c = cupy.asarray(room["a"].view(torch.uint8)), cupy.asarray(room["c"].view(torch.int16)).view("uint16")
    launch = masked(a, given["b"], c, cupy.asarray(room["columns"]), given["b_scales"], cupy.asarray(room["counts"]), sum(cell.rows) / len(cell.rows), tiles)
    return launch, Contestant(launch.bound(), [room["c"][group, :count] for group, count in enumerate(cell.rows)])


def _others(cell: Cell, given: Mapping, room: Mapping) -> dict[str, Contestant]:
    """Whoever is here that takes the cell's layout."""
    if cell.masked:
        found = {"DeepGEMM": fp8_operands.deepgemm_masked(room, given, cell.rows)}
    else:
        found = {"DeepGEMM": fp8_operands.deepgemm_behind_one_another(given, cell.rows)}
        if len(cell.rows) <= LAUNCHES:
            parts = list(_slices(given, given["first"].get().tolist()))
            first = given["first"].get().tolist()
            found[CUBLASLT] = Contestant(_one_after_another([fp8_operands.cublaslt(part) for part in parts]),
                                                            [given["tensors"]["c"][begin:end] for begin, end in zip(first, first[1:])])
    return {name: one for name, one in found.items() if one is not None}


def checked(cell: Cell, given: Mapping, contestants: Mapping[str, Contestant]) -> dict[str, Contestant]:
    """Those whose results are right. Ours and DeepGEMM's must be: else RuntimeError. cuBLASLt does not take all sizes, and reads scales whose rows have
    gaps as if they had none (fp8_operands.cublaslt_orders): where it fails it is left out."""
    import torch
    exact = {group: fp8_operands.exact_product(part) for group, part in zip((g for g, count in enumerate(cell.rows) if count),
                                                                           _slices(given, given["first"].get().tolist()))}
    right = {}
    for name, one in contestants.items():
        for result in one.results:
            result.fill_(float("nan"))
        torch.cuda.synchronize()
        try:
            one.run()
        except RuntimeError:
            if name != CUBLASLT:
                raise
            continue
        torch.cuda.synchronize()
        share = max(fp8_operands.share_off(one.results[group], product) for group, product in exact.items())
        if share <= 1e-3:
            right[name] = one
        elif name != CUBLASLT:
            raise RuntimeError(f"{name} at {cell.words} {cell.shape}: {share:.2%} of a group's elements are wrong")
    return right


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """The recording `fp8_grouped`: at each drawn cell ours and the others; ratio: beside the fastest of the others."""
    import cupy
    import torch
    made: list[Record] = []
    for cell in drawn():
        given = _operands(cell.rows, cell.n, cell.k)
        room = _room(given, cell.rows) if cell.masked else {}
        launch, own = ours(cell, given, room)
        runs = {"grouped_tall": own, **_others(cell, given, room)}
        samples = interleaved({name: one.run for name, one in checked(cell, given, runs).items()}, rounds, 2)
        made += _records(cell, launch, samples)
        keep(made)
        del given, room, launch, own, runs
        torch.cuda.empty_cache()
        cupy.get_default_memory_pool().free_all_blocks()
    return made


def _records(cell: Cell, launch: Launch, samples: Mapping) -> list[Record]:
    rate = {name: tflops(cell.shape, sample) for name, sample in samples.items()}
    fastest = min((name for name in samples if name != "grouped_tall"), key=lambda name: samples[name].ms, default=None)
    mean = math.ceil(sum(cell.rows) / len(cell.rows))
    made = []
    for name, sample in samples.items():
        ours = name == "grouped_tall"
        compared = beside(sample, fastest, samples[fastest], rate[fastest]) if ours and fastest else {}
        options = (*cell.words, *(launch.kernel.module.options if ours else ()))
        made.append(Record("fp8_grouped", name, options, cell.shape, "e4m3", **times(sample), tflops=rate[name], **compared, **facts(launch if ours else None),
                           note=f"seed {SEED}; {mean} rows per group on average, {max(cell.rows)} at most"))
    return made
