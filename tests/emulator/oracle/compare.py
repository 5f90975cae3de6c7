# SPDX-License-Identifier: Apache-2.0
"""The model's verdict beside what the emulator names, and what counts as a disagreement."""
from __future__ import annotations

from dataclasses import dataclass

from .model import Finding, Oracle, TooManyStates, Verdict
from .programs import Program
from .writer import SCHEDULES, run

PAIRS = {"race": ("unordered",), "read-before-arrival": ("unordered",), "overwrite-in-flight": ("unordered",), "missing-proxy-fence": ("unfenced", "unordered"),
         "unfenced-overwrite": ("unfenced", "unordered")}
SINGLE = {"deadlock": ("deadlock", "arrivals"), "phase-overrun": ("overrun",), "divergent-collective": ("deadlock",),
          "barrier-misuse": ("arrivals", "bytes", "uninitialised", "deadlock", "early"),
          "exit-in-flight": ("exit", "deadlock", "lifetime"), "cluster-lifetime": ("lifetime", "exit")}


UNDEFINED = {"uninitialised", "arrivals"}               # what comes after them means nothing: only silence is wrong
WORST = ("unfenced", "unordered", "lifetime", "exit", "overrun", "bytes", "arrivals", "uninitialised", "early", "deadlock")


@dataclass(frozen=True)
class Named:
    """What the emulator said of one pair of steps; lines: of those that it names together with them."""

    kind: str
    line: int = 0
    other: int = 0
    message: str = ""
    lines: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Disagreement:
    """kind: 'missed' (every execution is wrong, nothing was named), 'unnamed' (a pair that no execution orders, and neither end was named), 'invented'
    (named, and no execution shows it), 'depends' (wrong in some executions, and named under no schedule), 'error' (the emulator gave up)."""

    kind: str
    schedule: str
    what: object

    @property
    def signature(self) -> tuple:
        return self.kind, getattr(self.what, "kind", None)


def named(session) -> list[Named]:
    """The hazards of a run as lines of steps, each pair once. What memory holds is not the model's business: uninitialised reads are left out."""
    rows = {(h.kind, h.where.line if h.where else 0, h.other.line if h.other else 0): h for h in session.hazards if h.kind != "uninitialised-read"}
    return [Named(*row, h.message, frozenset(place.site.line for side in ("writers", "readers") for place in h.facts.get(side, ()))) for row, h in rows.items()]


def allowed(one: Named, verdict: Verdict) -> bool:
    """Whether some execution shows what the emulator named."""
    kinds = {f.kind for f in verdict.may}
    if kinds & UNDEFINED:
        return True
    if one.kind in PAIRS:
        pair = tuple(sorted((one.line, one.other)))
        return any((f.line, f.other) == pair and f.kind in PAIRS[one.kind] for f in verdict.may)
    if one.kind == "phase-overrun":
        return any(f.kind in ("overrun", "early") and f.line == one.line for f in verdict.may)
    if one.kind == "barrier-misuse" and " a pass" in one.message:      # initialised for too few: the model knows what follows from it
        return bool(kinds)
    return bool(kinds & set(SINGLE.get(one.kind, ())))


def unnamed(verdict: Verdict, found: list[Named]):
    """Pairs that every execution leaves unordered, or unfenced, and of which nothing was named: neither an end nor what conflicts with one, and so on
    (the emulator remembers the last accesses of each word, and names one pair where there are several)."""
    pairs = {(f.line, f.other): f for f in verdict.must if f.kind in ("unordered", "unfenced")}
    reached = {line for n in found if n.kind in PAIRS for line in (n.line, n.other, *n.lines)}
    grown = True
    while grown:
        joined = [pair for pair in pairs if set(pair) & reached]
        grown = bool(joined)
        for pair in joined:
            reached |= set(pair)
            del pairs[pair]
    yield from pairs.values()


def worst(verdict: Verdict) -> Finding:
    """One finding that stands for all: one that every execution shows if there is one, a pair of accesses before anything else."""
    return min(verdict.must or verdict.may, key=lambda f: (WORST.index(f.kind), f))


def disagreements(program: Program, verdict: Verdict | None = None, schedules=SCHEDULES, seeds=(0,), strict_reads: bool = False) -> list[Disagreement]:
    """What the emulator says otherwise than the model, under each schedule. Raises TooManyStates."""
    verdict = verdict or Oracle(program, strict_reads).verdict()
    out, silent = [], 0
    runs = [(s, seed) for s in schedules for seed in (seeds if s == "random" else (0,))]
    for schedule, seed in runs:
        try:
            found = named(run(program, schedule, seed, strict_reads))
        except Exception as error:                      # noqa: BLE001  the emulator must not give up on a legal program, whatever it says
            out.append(Disagreement("error", schedule, Named(type(error).__name__, message=str(error))))
            continue
        silent += not found
        out += [Disagreement("invented", schedule, n) for n in found if not allowed(n, verdict)]
        if not found and not verdict.clean:
            out.append(Disagreement("missed", schedule, worst(verdict)))
        elif found and not {f.kind for f in verdict.may} & UNDEFINED:
            out += [Disagreement("unnamed", schedule, f) for f in unnamed(verdict, found)]
    if verdict.clean and verdict.may and silent == len(runs):
        out.append(Disagreement("depends", "all", worst(verdict)))
    return out


def shrink(program: Program, signature: tuple, strict_reads: bool = False) -> Program:
    """The program with as many steps dropped as leave a disagreement of the same kind."""
    def kinds(verdict: Verdict) -> set:
        return {f.kind for f in verdict.may}

    allowed_kinds = kinds(Oracle(program, strict_reads).verdict())

    def same(candidate: Program) -> bool:
        try:
            verdict = Oracle(candidate, strict_reads).verdict()
            return kinds(verdict) <= allowed_kinds and any(d.signature == signature for d in disagreements(candidate, verdict, strict_reads=strict_reads))
        except TooManyStates:
            return False
    smaller = True
    while smaller:
        smaller = False
        for line in range(sum(1 for _ in program.steps()), 0, -1):
            candidate = program.without(line)
            if any(s for warps in candidate.warps for s in warps) and same(candidate):
                program, smaller = candidate, True
    return program


__all__ = ["Disagreement", "Finding", "Named", "TooManyStates", "disagreements", "named", "shrink"]
