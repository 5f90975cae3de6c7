# SPDX-License-Identifier: Apache-2.0
"""Recordings: what was measured on a GPU, as JSON files in hopperlab/recordings/BOARD/, each with the machine it came from.

`load` takes the learner's board (HOPPERLAB_BOARD, else the GPU of this machine, else the first of BOARDS), and another's where that one has no such file. A file
is {"header": {...}, "records": [{...}, ...]}. A record is flat; fields that do not apply are absent. Timelines and counters have forms of
their own (timelines.py, profile/counters.py); suites/table.py lists every file. Constants fitted to recordings stand where they are used and say so,
such as launches/gemm_model.MODEL.
"""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from .suites.table import OWN_FORM

FOLDER = Path(__file__).resolve().parent.parent / "recordings"
BOARDS: Mapping[str, str] = {"h200": "H200", "h100": "H100"}
"""Folder below FOLDER -> the word that names its board in a GPU's name. The first is the one that lessons' stored outputs come from."""
LESSONS_BOARD = next(iter(BOARDS))
HEADER_FIELDS = ("gpu", "driver", "cuda", "libraries", "clocks", "power_limit_watts", "date", "method")


@dataclass(frozen=True)
class Record:
    """One measured thing.

    suite, kernel: what was run; options: NVRTC options or settings that made this variant; shape: (m, n, k) of a product,
    (rows, columns) of a copy; dtype: of the operands. ms, ms_min, ms_max: median, least and greatest time of a launch.
    tflops: 10^12 operations per second; gb_s: 10^9 bytes per second, read plus written (read alone in loads).
    peer, peer_value: what it ran beside, interleaved, and its rate in the same unit; ratio, ratio_min, ratio_max: rate over
    the peer's, median, least and greatest over the rounds. mode: 'cold L2' or 'sustained' (back to back) where a suite measures
    both. watts: mean board power while running alone; clock_mhz: SM clock, temperature_c: GPU temperature meanwhile;
    limited: what held the clocks down meanwhile ('power', 'heat').
    value, value_min, value_max: what a micro-experiment measured, in `unit` (such as 'cycles'); joules: energy of one launch,
    by the board's counter while running alone.
    registers: a thread; spills: bytes; shared_bytes: dynamic shared memory a block; grid, block: the launch.
    runs, wrong: launches tried and launches with a wrong result; outcome: 'right', 'wrong', 'sometimes wrong', 'hang',
    'launch failure'; of memcheck 'clean' or its errors; worst: largest fraction of wrong elements in a launch; note: one sentence, or what was
    run (memcheck: the tests and kernels).
    """

    suite: str
    kernel: str
    options: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    ms: float | None = None
    ms_min: float | None = None
    ms_max: float | None = None
    tflops: float | None = None
    gb_s: float | None = None
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    ratio_min: float | None = None
    ratio_max: float | None = None
    mode: str = ""
    watts: float | None = None
    clock_mhz: int | None = None
    temperature_c: int | None = None
    limited: str = ""
    value: float | None = None
    value_min: float | None = None
    value_max: float | None = None
    unit: str = ""
    joules: float | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    runs: int | None = None
    wrong: int | None = None
    outcome: str | None = None
    worst: float | None = None
    note: str = ""

    def as_json(self) -> dict:
        """The record without the fields that do not apply."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "", ())}


@dataclass(frozen=True)
class Recording:
    """A file of records with its header. Iterate it, filter it with `where`, read the machine with `source`."""

    name: str
    header: Mapping[str, object]
    records: tuple[Record, ...] = field(default=())

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def where(self, **wanted: object) -> list[Record]:
        """Records whose fields equal all of `wanted`; a tuple field matches a list too."""
        same = {key: tuple(value) if isinstance(value, list) else value for key, value in wanted.items()}
        return [record for record in self.records if all(getattr(record, key) == value for key, value in same.items())]

    def one(self, **wanted: object) -> Record:
        """The only record that `where` finds. Raises LookupError when there is none or more than one."""
        found = self.where(**wanted)
        if len(found) != 1:
            raise LookupError(f"recording {self.name!r} has {len(found)} records with {wanted}")
        return found[0]

    @property
    def source(self) -> str:
        """One line: 'recorded on NVIDIA H200, driver 580.…, CUDA 13.0, 2026-…'."""
        head = self.header
        return f"recorded on {head['gpu']}, driver {head['driver']}, CUDA {head['cuda']}, {head['date']}"


def board_of(gpu: str) -> str:
    """The folder of a GPU's recordings, by the GPU's name: 'NVIDIA H100 80GB HBM3' -> 'h100'; a board that is not in BOARDS gets one of its own."""
    return next((board for board, word in BOARDS.items() if word in gpu), "_".join(gpu.lower().removeprefix("nvidia ").split()))


def nearest() -> str:
    """The board whose recordings this machine shows first: HOPPERLAB_BOARD, else that of its GPU, else the lessons' own. Raises ValueError for an unknown one."""
    asked = os.environ.get("HOPPERLAB_BOARD", "").lower()
    if asked:
        if asked not in BOARDS:
            raise ValueError(f"HOPPERLAB_BOARD={asked}: recordings are from {', '.join(BOARDS)}")
        return asked
    from .machine.here import gpu
    found = gpu()
    board = board_of(found.name) if found else LESSONS_BOARD
    return board if board in BOARDS else LESSONS_BOARD


def path_of(name: str, board: str | None = None) -> Path:
    """The stored file `name`.json of a board (None: the nearest), or of another board where that one has none. Raises FileNotFoundError with the names that exist."""
    order = dict.fromkeys((board or nearest(), *BOARDS))
    for path in (FOLDER / one / f"{name}.json" for one in order):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no recording {name!r}; there are: {', '.join(names()) or 'none'}")


def names(folder: Path | None = None) -> list[str]:
    """Names of the recordings in a folder that `load` reads, sorted; without one, of those stored, of any board."""
    files = folder.glob("*.json") if folder else (path for board in BOARDS for path in (FOLDER / board).glob("*.json"))
    return sorted({path.stem for path in files} - OWN_FORM)


def load(name: str, folder: Path | None = None, board: str | None = None) -> Recording:
    """A stored recording of a board (None: the nearest, see path_of), or one from a folder. Raises FileNotFoundError with the names that exist, ValueError when the
    file breaks the schema."""
    path = folder / f"{name}.json" if folder else path_of(name, board)
    if not path.is_file():
        raise FileNotFoundError(f"no recording {name!r}; there are: {', '.join(names(folder)) or 'none'}")
    return parse(name, json.loads(path.read_text(encoding="utf-8")))


def shelf(folder: Path, gpu: object) -> Path:
    """Where files for `folder` go: what is meant for hopperlab/recordings itself goes into the folder of the GPU's board."""
    return folder / board_of(str(gpu)) if folder.resolve() == FOLDER else folder


def parse(name: str, data: Mapping) -> Recording:
    """A recording from its JSON form. Raises ValueError that names what is missing, unknown or of the wrong type."""
    if set(data) != {"header", "records"}:
        raise ValueError(f"recording {name!r} has the keys {sorted(data)}, not header and records")
    missing = [key for key in HEADER_FIELDS if key not in data["header"]]
    if missing:
        raise ValueError(f"the header of recording {name!r} lacks {', '.join(missing)}")
    return Recording(name, data["header"], tuple(_record(name, i, item) for i, item in enumerate(data["records"])))


def _record(name: str, index: int, item: Mapping) -> Record:
    known = {f.name: f for f in fields(Record)}
    unknown = sorted(set(item) - set(known))
    if unknown:
        raise ValueError(f"record {index} of {name!r} has unknown fields: {', '.join(unknown)}")
    for key in ("suite", "kernel"):
        if not isinstance(item.get(key), str):
            raise ValueError(f"record {index} of {name!r} needs a {key}")
    tuples = {"options", "shape", "grid", "block"}
    for key, value in item.items():
        wanted = list if key in tuples else str if known[key].type.startswith("str") else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ValueError(f"record {index} of {name!r}: {key} is {value!r}")
    return Record(**{key: tuple(value) if key in tuples else value for key, value in item.items()})


def save(name: str, header: Mapping[str, object], records: Iterable[Record], folder: Path = FOLDER) -> Path:
    """Write a recording and return its path; into hopperlab/recordings: by board. One record a line, so that a diff shows which one changed."""
    lines = ",\n".join("    " + json.dumps(record.as_json()) for record in records)
    head = json.dumps(dict(header), indent=2).replace("\n", "\n  ")
    text = f'{{\n  "header": {head},\n  "records": [\n{lines}\n  ]\n}}\n'
    parse(name, json.loads(text))
    folder = shelf(folder, header["gpu"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    return path
