# SPDX-License-Identifier: Apache-2.0
"""fp8/grouped.cu against a launch a group, on rows as a router deals them out: records for the recording `fp8` (measure/suites/fp8.py calls it)."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import fp8_operands
from ..launches.fp8 import block_scaled
from .fields import beside, facts, tflops, times
from ..launches.fp8_grouped import grouped
from ..recordings import Record
from ..machine.timing import interleaved

GROUPS, ROWS, N, K = 16, 8192, 4096, 7168
ALIGNED = 16                            # rows of a group: what a launch of its own needs, so that the contestants have the same work


def routed(seed: int = 5) -> list[int]:
    """Rows of each group: ROWS, dealt out with unequal chances, multiples of ALIGNED."""
    import numpy as np
    rng = np.random.default_rng(seed)
    return (ALIGNED * rng.multinomial(ROWS // ALIGNED, rng.dirichlet(np.full(GROUPS, 2.0)))).tolist()


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


def _operands(rows: Sequence[int]) -> dict:
    """fp8_operands.operands of all rows, with a B of its own for each group (its tensors stacked)."""
    import cupy
    import numpy as np
    import torch
    given = fp8_operands.operands((sum(rows), N, K))
    made = [fp8_operands.operands((128, N, K), seed=100 + group)["tensors"] for group in range(len(rows))]
    b, b_scales = (torch.stack([tensors[name] for tensors in made]) for name in ("b", "b_scales"))
    torch.cuda.synchronize()
    return given | {"b": cupy.asarray(b.view(torch.uint8)), "b_scales": cupy.asarray(b_scales), "tensors": given["tensors"] | {"b": b, "b_scales": b_scales},
                    "first": cupy.asarray(np.cumsum([0, *rows]).astype(np.int32))}


def records(rounds: int) -> list[Record]:
    """`grouped`, our kernel a launch a group, and cuBLASLt's a launch a group, interleaved; every result is compared with fp32 first."""
    rows = routed()
    given = _operands(rows)
    parts = list(_slices(given, given["first"].get().tolist()))
    launch = grouped(given["a"], given["b"], given["c"], given["a_scales"], given["b_scales"], given["first"])
    own = [block_scaled(*(part[name] for name in ("a", "b", "c", "a_scales", "b_scales"))) for part in parts]
    runs = {"grouped": launch.bound(), "a launch a group": _one_after_another([one.bound() for one in own]),
            "cuBLASLt a launch a group": _one_after_another([fp8_operands.cublaslt(part) for part in parts])}
    for name, run in runs.items():
        share = max(fp8_operands.wrong(part, run) for part in parts)
        if share > 1e-3:
            raise RuntimeError(f"{name}: {share:.2%} of a group's elements are wrong")
    samples = interleaved(runs, rounds, 2)
    shape = (sum(rows), N, K)
    rate = {name: tflops(shape, sample) for name, sample in samples.items()}
    peer = "cuBLASLt a launch a group"
    return [Record("fp8", name, (f"GROUPS={GROUPS}",), shape, "e4m3", **times(sample), tflops=rate[name],
                   **beside(sample, peer, samples[peer], rate[peer]), **facts(launch if name == "grouped" else None)) for name, sample in samples.items()]
