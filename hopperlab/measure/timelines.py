# SPDX-License-Identifier: Apache-2.0
"""Where each warp of a kernel was, and when: `hl.timeline(kernel, grid, block, args)` runs a kernel that has marks (trace.cuh).

The same rows come from the GPU (nanoseconds, from the SMs' clocks) and from the emulator (virtual time: 0, 1, 2 … in the order
in which the marks were made; never speed).
"""
from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import session as sessions
from ..runtime.module import RawKernel, RawModule
from . import recordings

if TYPE_CHECKING:
    from ..runtime.shapes import Shape

EVENTS = {0: "issue", 1: "wait", 2: "mma", 3: "store"}
USER = 16                       # the first id of TRACE_USER events
VARIABLE = "hopperlab_trace"    # of trace.cuh
OPTION = "-DHOPPERLAB_TRACE"
HEADER_WORDS = 8
MOST_BYTES = 64 << 20           # of the buffer, where the caller does not choose the number of blocks


@dataclass(frozen=True)
class Mark:
    """One row: warp `warp` of block `block` (linear), on multiprocessor `sm`, was in `event` number `id` from start to end.

    Times are in the timeline's unit from its first moment; start == end for a moment ('issue').
    """

    block: int
    warp: int
    sm: int
    event: str
    id: int
    start: float
    end: float


class KernelTimeline(list):
    """Rows (Mark) by block, warp and start. place: 'gpu' or 'emulator'; unit: 'ns' or 'virtual'.

    dropped: marks that found no room; open: spans that a warp began and did not end (drawn to its end);
    timer_ns: how finely the timer that aligns the SMs counts (0 in the emulator); kernel: its name.
    """

    def __init__(self, rows: Sequence[Mark] = (), *, kernel: str = "", place: str = "emulator", unit: str = "virtual",
                 dropped: int = 0, open: int = 0, timer_ns: int = 0, source: str = ""):
        super().__init__(rows)
        self.kernel, self.place, self.unit, self.source = kernel, place, unit, source
        self.dropped, self.open, self.timer_ns = dropped, open, timer_ns

    def of(self, event: str) -> list[Mark]:
        """The rows of one event. Raises ValueError, with the events there are, for another word."""
        known = sorted({row.event for row in self})
        if event not in known:
            raise ValueError(f"no event {event!r} in this timeline; it has {', '.join(known) or 'none'}")
        return [row for row in self if row.event == event]

    def only(self, blocks: Sequence[int]) -> KernelTimeline:
        """The rows of some blocks; times stay as they are."""
        return KernelTimeline([row for row in self if row.block in blocks], **vars(self))

    def total(self, event: str, block: int, warp: int) -> float:
        """How long one warp was in `event`, all its spans together."""
        return sum(row.end - row.start for row in self.of(event) if (row.block, row.warp) == (block, warp))

    def as_dict(self) -> dict:
        """Plain data for JSON."""
        return {"kernel": self.kernel, "place": self.place, "unit": self.unit, "dropped": self.dropped, "open": self.open,
                "timer_ns": self.timer_ns, "source": self.source, "rows": [list(asdict(row).values()) for row in self]}

    def __repr__(self) -> str:
        blocks, warps = len({row.block for row in self}), len({(row.block, row.warp) for row in self})
        events = ", ".join(dict.fromkeys(row.event for row in self))
        length = max((row.end for row in self), default=0)
        lost = f", {self.dropped} marks found no room" if self.dropped else ""
        return (f"<timeline of {self.kernel}: {len(self)} rows of {warps} warps in {blocks} blocks over {length:.0f} {self.unit} "
                f"({events}){lost}>")


def timeline(kernel: RawKernel, grid: Shape, block: Shape, args: Sequence = (), *, shared_mem: int = 0, marks: int = 512,
             blocks: int | None = None, names: Mapping[int, str] | None = None) -> KernelTimeline:
    """Launch `kernel` once with its marks compiled in, and return what each warp did when.

    kernel: its source includes <hopperlab/trace.cuh>; where it was compiled without -DHOPPERLAB_TRACE, it is compiled again
    with it. grid, block, args, shared_mem: as for a launch. marks: room for each warp; more are counted as dropped. blocks: how
    many are traced, the first by number (default: as many as fit into 64 MiB). names: of TRACE_USER + i, by i.
    Runs on the GPU, or in the emulator where kernels run there or inside `hl.emulate`.
    Raises ValueError when the kernel has no marks, and what a launch raises.
    """
    emulated = kernel.backend == "emulator" or sessions.current() is not None
    with marking(kernel, grid, block, emulated, marks, blocks) as (traced, buffer):
        traced(grid, block, args, shared_mem=shared_mem)
        found = buffer if emulated else buffer.get()
    warps = _warps(block)
    return decode(found.reshape(-1, HEADER_WORDS + 2 * int(marks)), warps, kernel.name, "emulator" if emulated else "gpu", names or {})


@contextmanager
def marking(kernel: RawKernel, grid: Shape, block: Shape, emulated: bool, marks: int = 512, blocks: int | None = None) -> Iterator[tuple[RawKernel, Any]]:
    """Inside the block the kernel with its marks compiled in, and the array of words into which its launches write them: in the emulator, or on the GPU.
    Called, and raising, as `timeline`."""
    traced, words = _traced(kernel), HEADER_WORDS + 2 * int(marks)
    if marks < 1 or (blocks is not None and blocks < 1):
        raise ValueError(f"marks is {marks} and blocks is {blocks}: both are at least 1")
    count = min(math.prod(_sizes(grid)), blocks or max(1, MOST_BYTES // (8 * words * _warps(block))))
    target = emulated_target if emulated else gpu_target
    buffer = target(traced, count * _warps(block) * words, count, int(marks))
    try:
        yield traced, buffer
    finally:
        target(traced, 0, 0, 0)                             # the buffer goes; later launches of this module write nothing


def _warps(block: Shape) -> int:
    return -(-math.prod(_sizes(block)) // 32)


def _sizes(value) -> tuple[int, ...]:
    return tuple(int(v) for v in (value if isinstance(value, (tuple, list)) else (value,)))


def _traced(kernel: RawKernel) -> RawKernel:
    """The kernel compiled with marks. Raises ValueError when it has none."""
    module = kernel.module
    if VARIABLE not in module.ptx and module.source is not None and OPTION not in module.options:
        template = kernel.name if kernel.name != kernel.mangled else None
        module = RawModule(code=module.source, options=(*module.options, OPTION), backend=module.backend, name=module.name,
                           name_expressions=(template,) if template else None)
    if VARIABLE not in module.ptx:
        raise ValueError(f"{kernel.name} of {module.name} has no marks: include <hopperlab/trace.cuh>, put `Trace trace;` at the "
                         "top of the kernel and trace.begin, trace.end and trace.mark where something happens")
    return kernel if module is kernel.module else module.get_function(kernel.name)


def _described(address: int, blocks: int, marks: int) -> bytes:
    """struct TraceTarget of trace.cuh."""
    return np.array([address], np.uint64).tobytes() + np.array([blocks, marks], np.uint32).tobytes()


def emulated_target(kernel: RawKernel, words: int, blocks: int, marks: int) -> Any:
    from ..emulator.machine import memory
    from ..runtime.arrays import address_of
    buffer = np.zeros(max(words, 1), np.uint64)
    place = kernel.module.program.variables(memory.default()).arrays[VARIABLE]
    place[:] = np.frombuffer(_described(address_of(buffer, "the trace buffer"), blocks, marks), np.uint8)
    return buffer


def gpu_target(kernel: RawKernel, words: int, blocks: int, marks: int) -> Any:
    """A CuPy buffer of `words` into which the launches of this kernel's module write from now on: its first `blocks` blocks, `marks` a warp. It must
    stay while they run."""
    import cupy
    buffer = cupy.zeros(max(words, 1), np.uint64)
    described = np.frombuffer(_described(buffer.data.ptr, blocks, marks), np.uint8)
    place = kernel.module.cupy.get_global(VARIABLE)
    place.copy_from_host(described.ctypes.data, described.nbytes)
    return buffer


# --- words to rows ----------------------------------------------------------------------------------------------------
def decode(regions: np.ndarray, warps: int, kernel: str, place: str, names: Mapping[int, str]) -> KernelTimeline:
    """Rows of the regions that trace.cuh describes: one a warp, `warps` a block. Virtual time counts the moments there are."""
    seen = np.flatnonzero(regions[:, 7])
    heads = regions[:, :HEADER_WORDS].astype(np.int64)
    slope, offsets, unit, tick = _axis(heads[seen], place)
    rows, dropped, unclosed = [], 0, 0
    for index in seen.tolist():
        head = heads[index].tolist()
        block, warp, sm = index // warps, index % warps, head[4]
        pairs = regions[index, HEADER_WORDS:HEADER_WORDS + 2 * head[5]].reshape(-1, 2).tolist()
        spans, left = _spans(pairs, head[3])
        dropped, unclosed = dropped + head[6] - head[5], unclosed + left
        rows += [(block, warp, sm, _name(event, names), number, slope * start + offsets[sm], slope * end + offsets[sm])
                 for event, number, start, end in spans]
    moments = sorted({moment for row in rows for moment in row[5:]})
    first = moments[0] if moments else 0.0
    rank = {moment: float(i) if unit == "virtual" else round(moment - first, 1) for i, moment in enumerate(moments)}
    marks = [Mark(*row[:5], rank[row[5]], rank[row[6]]) for row in rows]
    return KernelTimeline(sorted(marks, key=lambda m: (m.block, m.warp, m.start, m.end)), kernel=kernel, place=place, unit=unit,
                          dropped=dropped, open=unclosed, timer_ns=tick)


def _axis(heads: np.ndarray, place: str) -> tuple[float, dict[int, float], str, int]:
    """(nanoseconds a cycle, offset by SM, unit, resolution of the timer) from each warp's two readings of both clocks.

    The timer counts coarsely, so that the rate comes from all warps together and an SM's offset is a mean over its warps.
    In the emulator both clocks are one virtual time.
    """
    sms = {int(sm) for sm in heads[:, 4]}
    if place == "emulator":
        return 1.0, dict.fromkeys(sms, 0.0), "virtual", 0
    cycles = (heads[:, 3] - heads[:, 1]).sum()
    passed = (heads[:, 2] - heads[:, 0]).sum()
    slope = float(passed / cycles) if passed > 0 and cycles > 0 else 1.0
    base = int(heads[:, 0].min()) if len(heads) else 0
    offsets = {}
    for sm in sms:
        own = heads[heads[:, 4] == sm]
        offsets[sm] = float(np.mean([own[:, 0] - base - slope * own[:, 1], own[:, 2] - base - slope * own[:, 3]]))
    readings = np.unique(np.concatenate([heads[:, 0], heads[:, 2]]))
    tick = int(np.gcd.reduce(np.diff(readings))) if len(readings) > 1 else 0
    return slope, offsets, "ns" if passed > 0 else "cycles", tick


def _spans(pairs: Sequence[Sequence[int]], last: int) -> tuple[list[tuple[int, int, int, int]], int]:
    """(event, id, start, end) of a warp's marks, and how many spans were still open at its end (they last to `last`)."""
    spans, open_ = [], {}
    for clock, code in pairs:
        kind, event, number = code & 3, code >> 2 & 0x3FFF, code >> 16
        if kind == 0:
            spans.append((event, number, clock, clock))
        elif kind == 1:
            open_.setdefault((event, number), []).append(clock)
        elif open_.get((event, number)):
            spans.append((event, number, open_[event, number].pop(), clock))
    left = [(event, number, clock, last) for (event, number), clocks in open_.items() for clock in clocks]
    return spans + left, len(left)


def _name(event: int, names: Mapping[int, str]) -> str:
    return EVENTS.get(event) or names.get(event - USER, f"user {event - USER}")


# --- files ------------------------------------------------------------------------------------------------------------
def save(found: KernelTimeline, path: Path, header: Mapping[str, object] | None = None) -> Path:
    """Write a timeline as JSON, a row a line; header: of the machine (measure.header()), for one taken on a GPU."""
    data = found.as_dict()
    rows = ",\n".join("  " + json.dumps(row) for row in data.pop("rows"))
    head = json.dumps({**data, "header": dict(header or {}), "columns": [f.name for f in fields(Mark)]}, indent=1)
    path = recordings.shelf(path.parent, (header or {}).get("gpu", "")) / path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
    return path


def load(path: Path | None = None) -> KernelTimeline:
    """A timeline from a file (default: the one recorded on the nearest board). Raises ValueError when its columns are others."""
    data = json.loads((path or recordings.path_of("timeline")).read_text(encoding="utf-8"))
    if data["columns"] != [f.name for f in fields(Mark)]:
        raise ValueError(f"columns {data['columns']} are not those of a Mark")
    head = data["header"]
    source = f"recorded on {head['gpu']}, driver {head['driver']}, CUDA {head['cuda']}, {head['date']}" if head else data["source"]
    kept = {key: data[key] for key in ("kernel", "place", "unit", "dropped", "open", "timer_ns")}
    return KernelTimeline([Mark(*row) for row in data["rows"]], **kept, source=source)
