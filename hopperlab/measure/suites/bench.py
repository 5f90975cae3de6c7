# SPDX-License-Identifier: Apache-2.0
"""`hopperlab bench SUITE`: check the request, run the suite's rows of the table, print a table, write JSON.

Everything about the request is checked before anything runs, GPU or not; without a GPU it says what is recorded.
"""
from __future__ import annotations

import json
import sys
from datetime import date
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...hopper.tensormap import TensorMapError
from ...runtime.errors import BackendError
from .. import recordings
from ...runtime.tables import text_table
from ..launches.operand_checks import OperandError
from ..machine import board, here
from ..machine.peers import installed
from ..recordings import Record, Recording
from . import race, report, table
from .race import MODES, USUAL, Plan, Races
from .report import Progress
from .table import RACE, Suite

DONE, WRONG, REFUSED = 0, 1, 2
SHORT_MODES = {mode.split()[0]: mode for mode in MODES}


class RequestError(ValueError):
    """The command line asks for something that no suite can do; the message names the rule."""


@dataclass(frozen=True)
class Request:
    """What `hopperlab bench` was asked, as words: see `hopperlab bench --help`."""

    suite: str
    shapes: Sequence[str] = ()
    kernels: Sequence[str] = ()
    peers: Sequence[str] | None = None
    rounds: int | None = None
    modes: Sequence[str] = ()
    power: float | None = None
    out: Path | None = None
    as_json: bool = False
    random: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Checked:
    """A request that can run: rows of the table, parsed shapes, names that exist, peers that are installed.

    kernels: of a race, or what is picked of the one row. plan: of a race; rounds: None for each row's own.
    """

    rows: tuple[Suite, ...]
    shapes: tuple[tuple[int, ...], ...] = ()
    kernels: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    plan: Plan = Plan()
    rounds: int | None = None

    @property
    def absent(self) -> list[str]:
        """Peers of the race that are not installed here, with their packages."""
        there = installed(self.races.peers) if self.races else []
        return [f"{peer.family} ({name}, package {peer.package})" for name, peer in (self.races.peers if self.races else {}).items() if name not in there]

    @property
    def races(self) -> Races | None:
        """The race that is asked for; None for suites that measure by themselves."""
        return self.rows[0].function if self.rows[0].kind == RACE else None


def check(request: Request) -> Checked:
    """Parse and check a request. Raises RequestError for an unknown suite, kernel, peer or mode, and for a bad shape or number."""
    if request.suite not in table.BENCHES:
        raise RequestError(f"there is no suite {request.suite!r}; there are {', '.join(table.BENCHES)}")
    if request.rounds is not None and not 2 <= request.rounds <= 1000:
        raise RequestError(f"--rounds {request.rounds}: a median and its spread need 2 rounds or more (and at most 1000)")
    if request.random is None and request.seed is not None:
        raise RequestError("--seed draws shapes for --random N")
    if request.random is not None and not 1 <= request.random <= 1000:
        raise RequestError(f"--random {request.random}: how many shapes, 1 to 1000")
    if request.seed is not None and request.seed < 0:
        raise RequestError(f"--seed {request.seed}: 0 or more")
    if not 0 <= (request.power or 0) <= 60:
        raise RequestError(f"--power {request.power:g}: seconds, from 0 (no power) to 60")
    rows = request.random is not None and table.drawn(request.suite) or table.rows(request.suite)
    checked = _checked_race(request, rows) if rows[0].kind == RACE else _checked_rows(request, rows)
    _check_out(request, checked)
    return checked


def _checked_race(request: Request, rows: tuple[Suite, ...]) -> Checked:
    races: Races = rows[0].function
    try:
        shapes = _drawn(request, races) or tuple(dict.fromkeys(races.shape(word) for word in request.shapes)) or races.shapes
    except ValueError as problem:
        raise RequestError(str(problem)) from None
    if list(request.kernels) == ["none"]:
        kernels: tuple[str, ...] = ()
    else:
        kernels = tuple(dict.fromkeys(_known(request.kernels, races.kernels, f"{races.name} has no kernel"))) or races.default_kernels
    if request.random is not None and not request.kernels:
        kernels = kernels[-1:]                              # many shapes: the best of ours alone
    peers = _peers(request, races)
    if not kernels and not peers and (request.peers is not None or here.gpu() is not None):
        raise RequestError("--kernels none and no peers: nobody would race")
    modes = tuple(SHORT_MODES[word] for word in dict.fromkeys(_known(request.modes, SHORT_MODES, "there is no mode"))) or USUAL
    usual = 0.5 if request.random is None else 0.0
    if request.random is not None and not request.modes:
        modes = MODES[:2]
    return Checked(rows, shapes, kernels, peers, Plan(request.rounds or rows[0].rounds, modes, usual if request.power is None else request.power))


def _drawn(request: Request, races: Races) -> tuple[tuple[int, ...], ...]:
    """Shapes that nobody chose; none where they are not asked for. The seed of today is today's date."""
    if request.random is None:
        return ()
    if races.random is None or request.shapes:
        raise RequestError(f"--random draws shapes of gemm, fp8 and attention: {request.suite} has none" if races.random is None
                           else "--random draws its own shapes: leave --shapes out")
    seed = int(f"{date.today():%Y%m%d}") if request.seed is None else request.seed
    return tuple(dict.fromkeys(races.random(request.random, seed)))


def _checked_rows(request: Request, rows: tuple[Suite, ...]) -> Checked:
    """Suites that measure by themselves: --kernels picks recordings where there are several, else what the one row offers."""
    for option in ("shapes", "peers", "modes", "random"):
        if getattr(request, option):
            raise RequestError(f"{request.suite} measures fixed shapes and takes no --{option}")
    if len(rows) > 1:
        _known(request.kernels, [row.recording for row in rows], f"{request.suite} has no")
        return Checked(tuple(row for row in rows if not request.kernels or row.recording in request.kernels), rounds=request.rounds)
    if request.kernels and not rows[0].choices:
        raise RequestError(f"{request.suite} is measured as a whole and takes no --kernels")
    return Checked(rows, kernels=tuple(dict.fromkeys(_known(request.kernels, rows[0].known, f"{request.suite} has no"))), rounds=request.rounds)


def _known(words: Sequence[str], known, complaint: str) -> Sequence[str]:
    for word in words:
        if word not in known:
            raise RequestError(f"{complaint} {word!r}; there are {', '.join(known)}")
    return words


def _peers(request: Request, races: Races) -> tuple[str, ...]:
    """Those asked for, which must be installed where there is a GPU; by default all that are, at random shapes all of the first's family (Triton's
    configurations are tried shape by shape, which takes longer than all else)."""
    if request.peers is None:
        found = tuple(installed(races.peers))
        return tuple(name for name in found if request.random is None or races.peers[name].family == races.peers[found[0]].family)
    if list(request.peers) == ["none"]:
        return ()
    chosen = tuple(dict.fromkeys(_known(request.peers, races.peers, f"{races.name} has no peer")))
    missing = [races.peers[name].package for name in chosen if name not in installed(races.peers)]
    if missing and here.gpu() is not None:
        raise RequestError(f"not installed here: {', '.join(missing)}")
    return chosen


def _check_out(request: Request, checked: Checked) -> None:
    if request.out is None:
        return
    if request.out.suffix == ".json":
        if len(checked.rows) > 1:
            raise RequestError(f"--out {request.out}: {request.suite} writes several files; name a folder")
        folder = request.out.parent
    else:
        folder = request.out
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"--out {request.out}: {folder} is a file, not a folder (a file's name ends in .json)")


def run(request: Request) -> int:
    """The subcommand. Returns 0; 1 when a result was wrong; 2 when the request or the machine does not allow it."""
    try:
        checked = check(request)
    except RequestError as problem:
        print(f"hopperlab bench: {problem}\n`hopperlab bench --help` lists what it takes", file=sys.stderr)
        return REFUSED
    if (why := here.no_gpu()) is not None:
        print(f"hopperlab bench: {why}\n{recorded()}", file=sys.stderr)
        return REFUSED
    before = board.state()
    for warning in before.warnings:
        print(f"hopperlab bench: warning: {warning}", file=sys.stderr)
    try:
        found = measure(checked, request.out)
    except race.WrongResult as problem:
        print(f"hopperlab bench: {problem}", file=sys.stderr)
        return WRONG
    except (OperandError, TensorMapError) as problem:       # a kernel's own rule, such as n a multiple of 8 for a TMA store
        print(f"hopperlab bench: one of the kernels cannot run this shape: {problem}", file=sys.stderr)
        return REFUSED
    except BackendError as problem:
        print(f"hopperlab bench: {problem}", file=sys.stderr)
        return REFUSED
    except MemoryError as problem:
        print(f"hopperlab bench: the GPU's memory is too small, or in use by others: {problem}", file=sys.stderr)
        return REFUSED
    _report(request, found, before, checked.absent)
    return DONE


Found = list[tuple[Suite, list[Record]]]                    # in the order of the rows


def measure(checked: Checked, out: Path | None = None) -> Found:
    """The records of each row. out: where those that take long leave what they have so far."""
    if checked.races is not None:
        return [(checked.rows[0], _raced(checked.races, checked, out))]
    rows = _possible(checked.rows)
    with Progress(len(rows)) as progress:
        return [(row, _row(progress, row, checked, out)) for row in rows]


def _possible(rows: Sequence[Suite]) -> list[Suite]:
    """One suite as it is; of several those that this machine has GPUs for, with a line about the others."""
    if len(rows) == 1 or all(row.gpus == 1 for row in rows):
        return list(rows)
    count = max(1, here.gpus())
    left = [row for row in rows if row.gpus > count]
    for row in left:
        print(f"hopperlab bench: {row.recording} is left out: it needs {row.gpus} GPUs, and this machine shows {count}", file=sys.stderr)
    return [row for row in rows if row not in left]


def _raced(races: Races, checked: Checked, out: Path | None) -> list[Record]:
    keep = _keeping(checked.rows[0], out)
    count = races.contestants(checked.kernels, checked.peers)
    records: list[Record] = []
    with Progress(race.steps([count] * len(checked.shapes), checked.plan)) as progress:
        if len(checked.shapes) > len(races.shapes):
            progress.say(f"compiling for {len(checked.shapes)} shapes")
            races.ahead(checked.shapes, checked.kernels)
        for shape in checked.shapes:
            progress.say(f"{races.title(shape)}: compiling, making operands")
            records += race.run(races.race(shape, checked.kernels, checked.peers), checked.plan, progress.step)
            keep(records)
            _free()
    return records


def _row(progress: Progress, row: Suite, checked: Checked, out: Path | None) -> list[Record]:
    progress.step(f"measuring {row.recording}")
    records = row.measure(checked.rounds or row.rounds, checked.kernels, _keeping(row, out))
    _free()
    return records


def _keeping(row: Suite, out: Path | None) -> Callable[[list[Record]], None]:
    """What is called with the records so far: it writes them, and that they are not all."""
    head = board.header() if out is not None else {}

    def keep(records: list[Record]) -> None:
        if out is not None:
            _written(row, out, {**head, "warnings": ["cut short: more was to follow"]}, records)
    return keep


def _free() -> None:
    """Give CuPy's unused memory back, so that the next shape and PyTorch can have it."""
    import cupy
    cupy.get_default_memory_pool().free_all_blocks()


def _written(row: Suite, out: Path, head: dict[str, object], records: list[Record]) -> Path:
    """Write a recording: to the file that `out` names, or into the folder under its own name."""
    single = out.suffix == ".json"
    return recordings.save(out.stem if single else row.recording, head, records, out.parent if single else out)


def _report(request: Request, found: Found, before: board.State, absent: Sequence[str] = ()) -> None:
    after = board.state(idle=False)
    everything = [record for _, records in found for record in records]
    head = {**board.header(), "board_before": str(before.now), "board_after": str(after.now),
            "warnings": sorted({*before.warnings, *after.warnings}), **({"absent": list(absent)} if absent else {})}
    heads = {row.recording: {**head, **({"method": table.found(row.method)} if row.method else {})} for row, _ in found}
    if request.as_json:
        print(json.dumps({"header": heads[found[0][0].recording] if len(found) == 1 else head,
                          "records": [record.as_json() for record in everything]}, indent=1))
    else:
        for row, records in found:
            print(shown(row, Recording(row.recording, heads[row.recording], tuple(records))))
        print(f"board: {before.now} before, {after.now} after")
        print(*(f"absent, because it is not installed: {one}" for one in absent), sep="\n", end="\n" if absent else "")
    for warning in (*head["warnings"], *report.warnings(everything)):
        print(f"warning: {warning}", file=sys.stderr)
    for row, records in found if request.out is not None else ():
        print(f"written: {_written(row, request.out, heads[row.recording], records)}", file=sys.stderr)


def shown(row: Suite, recording: Recording) -> str:
    """As the suite shows it, or as a table where it does not."""
    return table.found(row.shown)(recording) if row.shown else report.table(list(recording))


def recorded() -> str:
    """What is recorded, for a machine that cannot measure."""
    found = {name: recordings.load(name) for name in recordings.names()}
    lines = text_table("    {:18} {:4d} records  {}", [(name, len(recording), recording.source) for name, recording in found.items()])
    return "\n".join(["Recorded results, which hopperlab.measure.load(name) reads:", *lines, "`hopperlab ladder` prints the story of the product ladder from them."])
