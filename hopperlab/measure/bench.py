"""`hopperlab bench SUITE`: check the request, run the suite, print a table, write JSON. Suites are rows of bench_suites.SUITES.

Everything about the request is checked before anything runs, GPU or not; without a GPU it says what is recorded.
"""
from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..hopper.tensormap import TensorMapError
from . import bench_race, bench_report, board, recordings
from .bench_race import MODES, Plan
from .bench_report import Progress
from .bench_suites import SUITES, Part, Races, Table
from .launches_checks import OperandError
from .peers import installed
from .recordings import Record, Recording

Measured = list[Record] | Recording
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
    power: float = 0.5
    out: Path | None = None
    as_json: bool = False


@dataclass(frozen=True)
class Checked:
    """A request that can run: parsed shapes, names that exist, peers that are installed."""

    suite: Races | Table
    shapes: tuple[tuple[int, ...], ...]
    kernels: tuple[str, ...]
    peers: tuple[str, ...]
    plan: Plan


def check(request: Request) -> Checked:
    """Parse and check a request. Raises RequestError for an unknown suite, kernel, peer or mode, and for a bad shape or number."""
    suite = SUITES.get(request.suite)
    if suite is None:
        raise RequestError(f"there is no suite {request.suite!r}; there are {', '.join(SUITES)}")
    if request.rounds is not None and not 2 <= request.rounds <= 1000:
        raise RequestError(f"--rounds {request.rounds}: a median and its spread need 2 rounds or more (and at most 1000)")
    if not 0 <= request.power <= 60:
        raise RequestError(f"--power {request.power:g}: seconds, from 0 (no power) to 60")
    _check_out(request, suite)
    if isinstance(suite, Table):
        return _checked_table(request, suite)
    try:
        shapes = tuple(dict.fromkeys(suite.shape(word) for word in request.shapes)) or suite.shapes
    except ValueError as problem:
        raise RequestError(str(problem)) from None
    kernels = tuple(dict.fromkeys(_known(request.kernels, suite.kernels, f"{suite.name} has no kernel"))) or suite.default_kernels
    modes = tuple(SHORT_MODES[word] for word in dict.fromkeys(_known(request.modes, SHORT_MODES, "there is no mode"))) or MODES
    plan = Plan(request.rounds or Plan.rounds, modes, request.power)
    return Checked(suite, shapes, kernels, _peers(request, suite), plan)


def _checked_table(request: Request, suite: Table) -> Checked:
    for option in ("shapes", "peers", "modes"):
        if getattr(request, option):
            raise RequestError(f"{suite.name} measures fixed shapes and takes no --{option}")
    if suite.missing():
        raise RequestError(f"the suite {suite.name} is not part of this installation ({suite.needs} is missing)")
    chosen = tuple(dict.fromkeys(_known(request.kernels, suite.kernels(), f"{suite.name} has no")))
    return Checked(suite, (), chosen, (), Plan(request.rounds or suite.rounds))


def _known(words: Sequence[str], known, complaint: str) -> Sequence[str]:
    for word in words:
        if word not in known:
            raise RequestError(f"{complaint} {word!r}; there are {', '.join(known)}")
    return words


def _peers(request: Request, suite: Races) -> tuple[str, ...]:
    """Those asked for, which must be installed where there is a GPU; by default all that are."""
    if request.peers is None:
        return tuple(installed(suite.peers))
    if list(request.peers) == ["none"]:
        return ()
    chosen = tuple(dict.fromkeys(_known(request.peers, suite.peers, f"{suite.name} has no peer")))
    missing = [suite.peers[name].package for name in chosen if name not in installed(suite.peers)]
    if missing and _gpu() is not None:
        raise RequestError(f"not installed here: {', '.join(missing)}")
    return chosen


def _check_out(request: Request, suite: Races | Table) -> None:
    if request.out is None:
        return
    if request.out.suffix == ".json":
        if isinstance(suite, Table) and not suite.missing() and len(suite.parts(tuple(request.kernels))) > 1:
            raise RequestError(f"--out {request.out}: {suite.name} writes several files; name a folder")
        folder = request.out.parent
    else:
        folder = request.out
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"--out {request.out}: {folder} is a file, not a folder (a file's name ends in .json)")


def _gpu():
    from ..runtime.driver import find_gpu
    return find_gpu()


def run(request: Request) -> int:
    """The subcommand. Returns 0; 1 when a result was wrong; 2 when the request or the machine does not allow it."""
    try:
        checked = check(request)
    except RequestError as problem:
        print(f"hopperlab bench: {problem}\n`hopperlab bench --help` lists what it takes", file=sys.stderr)
        return REFUSED
    if (why := no_gpu()) is not None:
        print(f"hopperlab bench: {why}\n{recorded()}", file=sys.stderr)
        return REFUSED
    before = board.state()
    for warning in before.warnings:
        print(f"hopperlab bench: warning: {warning}", file=sys.stderr)
    try:
        files = measure(checked)
    except bench_race.WrongResult as problem:
        print(f"hopperlab bench: {problem}", file=sys.stderr)
        return WRONG
    except (OperandError, TensorMapError) as problem:       # a kernel's own rule, such as n a multiple of 8 for a TMA store
        print(f"hopperlab bench: one of the kernels cannot run this shape: {problem}", file=sys.stderr)
        return REFUSED
    except MemoryError as problem:
        print(f"hopperlab bench: the GPU's memory is too small, or in use by others: {problem}", file=sys.stderr)
        return REFUSED
    _report(request, checked, files, before)
    return DONE


def measure(checked: Checked) -> dict[str, Measured]:
    """file name -> records of a checked request, or a whole recording with a method of its own."""
    suite, plan = checked.suite, checked.plan
    if isinstance(suite, Table):
        parts = suite.parts(checked.kernels)
        with Progress(len(parts)) as progress:
            return {name: _part(progress, name, part, plan.rounds) for name, part in parts.items()}
    count = suite.contestants(checked.kernels, checked.peers)
    records: list[Record] = []
    with Progress(bench_race.steps([count] * len(checked.shapes), plan)) as progress:
        for shape in checked.shapes:
            progress.say(f"{'x'.join(map(str, shape))}: compiling, making operands")
            records += bench_race.run(suite.race(shape, checked.kernels, checked.peers), plan, progress.step)
            _free()
    return {f"bench_{suite.name}": records}


def _part(progress: Progress, name: str, part: Part, rounds: int) -> Measured:
    progress.step(f"measuring {name}")
    records = part(rounds)
    _free()
    return records


def _free() -> None:
    """Give CuPy's unused memory back, so that the next shape and PyTorch can have it."""
    import cupy
    cupy.get_default_memory_pool().free_all_blocks()


def _report(request: Request, checked: Checked, files: dict[str, Measured], before: board.State) -> None:
    after = board.state(idle=False)
    everything = [record for records in files.values() for record in records]
    head = {**board.header(), "board_before": str(before.now), "board_after": str(after.now),
            "warnings": sorted({*before.warnings, *after.warnings})}
    if isinstance(checked.suite, Races):
        head["method"] = bench_race.METHOD
    if request.as_json:
        print(json.dumps({"header": head, "records": [record.as_json() for record in everything]}, indent=1))
    else:
        for name, records in files.items():
            print(_shown(name, records))
        print(f"board: {before.now} before, {after.now} after")
    for warning in (*head["warnings"], *bench_report.warnings(everything)):
        print(f"warning: {warning}", file=sys.stderr)
    for name, records in files.items() if request.out is not None else ():
        single = request.out.suffix == ".json"
        own = {"method": records.header["method"]} if isinstance(records, Recording) else {}
        path = recordings.save(request.out.stem if single else name, {**head, **own}, records,
                               request.out.parent if single else request.out)
        print(f"written: {path}", file=sys.stderr)


def _shown(name: str, records: Measured) -> str:
    """The ladder as its story, everything else as a table."""
    if name == "ladder" and isinstance(records, Recording):
        from . import story
        try:
            return str(story.tell(records))
        except ValueError:                                  # the step's size was not measured: then the table
            pass
    return bench_report.table(list(records))


def no_gpu(what: str = "timing") -> str | None:
    """Why `what` cannot be done on this machine; None where it can."""
    from ..runtime import backend
    gpu = _gpu()
    if gpu is None:
        return f"{what} needs a Hopper GPU (H100, H200), and there is no NVIDIA GPU here; the emulator gives values, never times"
    if gpu.capability != backend.HOPPER:
        return f"{what} needs a Hopper GPU (H100, H200); {gpu.name} has compute capability {gpu.capability[0]}.{gpu.capability[1]}"
    if not backend.has_cupy():
        return f"{what} needs CuPy: {backend.install_cupy(gpu)}"
    if backend.backend() != "gpu":
        return f"{what} needs the GPU, but HOPPERLAB_BACKEND sends kernels to the emulator: unset it"
    return None


def recorded() -> str:
    """What is recorded, for a machine that cannot measure."""
    lines = ["Recorded results, which hopperlab.measure.load(name) reads:"]
    for name in recordings.names():
        recording = recordings.load(name)
        lines.append(f"    {name:18s} {len(recording):4d} records  {recording.source}")
    return "\n".join([*lines, "`hopperlab ladder` prints the story of the product ladder from them."])
