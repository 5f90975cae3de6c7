# SPDX-License-Identifier: Apache-2.0
"""Kernels as others write them (CUTLASS, DeepGEMM, FlashAttention, libcu++, cooperative groups, scans, histograms): silent as they are, and
named at the right line after one line of each was broken.

A file holds one kernel. Its head: `//! launch block=… grid=… shared=…`, `//! args …` (as in tests/support/hazard_cases.py), `//! check EXPRESSION` of
the arrays a[0], a[1] … afterwards, `//! moves` when values depend on the order, `//! plain` without common.cuh, and for each mutation
`//! mutate NAME KIND[|KIND]`. A line with `//~ NAME: CODE` becomes CODE in that mutation; `//@ NAME …` marks where reports point.
"""
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from support import hazard_cases

ROOM = Path(__file__).parent
COMMON = (ROOM / "common.cuh").read_text()
RUNS = (("lazy", 0), ("eager", 0), ("random", 1), ("random", 2))
pytestmark = pytest.mark.filterwarnings("ignore::hopperlab.runtime.errors.PtxasWarning")


@dataclass(frozen=True)
class Kernel:
    """One file: its head, and its lines as they are."""

    name: str
    lines: tuple[str, ...]
    launch: dict = field(hash=False)
    args: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    flags: frozenset = frozenset()
    mutations: dict = field(default_factory=dict, hash=False)

    def marked(self, name: str) -> set[int]:
        """Lines where a mutation's reports may point."""
        return {n for n, line in enumerate(self.lines, 1) if name in line.partition("//@ ")[2].split()}


def read(path: Path) -> Kernel:
    lines = tuple(path.read_text().splitlines())
    head = [line[4:].split(maxsplit=1) for line in lines if line.startswith("//! ")]
    rest = {key: value for key, *value in head}
    launch = {k: int(v) for k, v in (pair.split("=") for pair in rest["launch"][0].split())}
    mutations = dict(value[0].split() for key, *value in head if key == "mutate")
    checks = tuple(value[0] for key, *value in head if key == "check")
    return Kernel(path.stem, lines, launch, tuple(rest.get("args", [""])[0].split()), checks, frozenset(k for k in rest if k in ("moves", "plain")),
                  mutations)


KERNELS = [read(path) for path in sorted(ROOM.glob("*.cu"))]
MUTANTS = [(k, name) for k in KERNELS for name in k.mutations]


@cache
def module(kernel: Kernel, mutation: str):
    changed, hit = [], mutation == ""
    for line in kernel.lines:
        found = re.search(r"//~ (\w+):(.*)$", line)
        if found and found[1] == mutation:
            line, hit = found[2].split("//@")[0], True
        changed.append(line.replace("//~", "//"))
    assert hit, f"no line of {kernel.name} is changed by {mutation}"
    text = "\n".join(changed) + "\n"
    prelude = "" if "plain" in kernel.flags else COMMON
    return hl.RawModule(code=f'{prelude}#line 1 "{kernel.name}.cu"\n{text}', backend="emulator", name="common.cuh")


def run(kernel: Kernel, mutation: str, schedule: str, seed: int):
    values, arrays = hazard_cases.arguments(kernel)
    entry = module(kernel, mutation).get_function("k")
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as session:
        entry((kernel.launch.get("grid", 1),), (kernel.launch["block"],), values, shared_mem=kernel.launch.get("shared", 0))
    return session, arrays


def told(session):
    return "\n".join(f"{h}\n  where={h.where and h.where.line} other={h.other and h.other.line}" for h in (*session.hazards, *session.warnings))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_it_is_silent_as_it_is(kernel):
    """No hazard, right values, and the same under every schedule. DeepGEMM's scales are read by ordinary loads and refilled without a proxy fence: its one warning."""
    results, doubts = [], {"unfenced-overwrite"} if kernel.name == "deep_gemm" else set()
    for schedule, seed in RUNS:
        session, arrays = run(kernel, "", schedule, seed)
        assert not session.hazards and {w.kind for w in session.warnings} == doubts, f"{schedule}: {told(session)}"
        for check in kernel.checks:
            assert eval(check, {"np": np, "a": arrays, "ml_dtypes": ml_dtypes}), f"{schedule}: {check}\n{arrays}"
        results.append([a.tobytes() for a in arrays])
    assert "moves" in kernel.flags or all(r == results[0] for r in results)


@pytest.mark.parametrize("kernel, mutation", MUTANTS, ids=[f"{k.name}-{m}" for k, m in MUTANTS])
@pytest.mark.sampled(every=8)
def test_one_broken_line_is_named(kernel, mutation):
    """The right kind, at a marked line, with a message that says what to write."""
    wanted, lines = set(kernel.mutations[mutation].split("|")), kernel.marked(mutation)
    assert lines, "no line is marked"
    assert module(kernel, mutation).ptx.split(".section")[0] != module(kernel, "").ptx.split(".section")[0]
    for schedule, seed in RUNS[:3]:
        session, _ = run(kernel, mutation, schedule, seed)
        found = [h for h in session.hazards if h.kind in wanted]
        assert found, f"{schedule}: {told(session)}"
        ends = {site.line for h in found for site in (h.where, h.other) if site is not None and site.file.startswith(kernel.name)}
        if any(h.kind == "deadlock" for h in found):            # its message lists all who wait
            ends |= {line for line in lines if any(f"{kernel.name}.cu:{line} " in h.message for h in found)}
        assert ends & lines, f"{schedule}: marked {lines}\n{told(session)}"
        assert all(f"{kernel.name}.cu:" in h.message and len(h.message) > 80 for h in found), told(session)


def test_there_are_enough():
    assert len(KERNELS) >= 20 and all(2 <= len(k.mutations) for k in KERNELS), [k.name for k in KERNELS if len(k.mutations) < 2]
