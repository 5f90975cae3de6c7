# SPDX-License-Identifier: Apache-2.0
"""The story of the product ladder, from a recording: what each step reaches, its share of cuBLAS, and what it gained.

`tell(read())` is what `hopperlab ladder` prints, show.ladder draws and readme.py puts into README.md.
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..runtime.tables import text_table
from . import recordings, summaries
from .launches.gemm import LADDER
from .recordings import Record, Recording

PEERS = ("cublasGemmEx", "torch")
IDEAS: Mapping[str, str] = {
    "naive": "one thread an element, straight from memory",
    "shared_tile": "tiles shared by a block",
    "register_double_buffer": "the next tile loads into registers meanwhile (Volta)",
    "mma_multistage": "cp.async into a ring, ldmatrix, mma.sync (Ampere)",
    "tma_mma": "TMA loads the tiles, mma.sync multiplies",
    "tma_wgmma_2": "wgmma reads the tiles from shared memory; two stages",
    "tma_wgmma": "four stages",
    "warp_specialized": "one warpgroup loads, two multiply",
    "two_consumers_128x256": "a larger tile: fewer bytes a product",
    "cluster_multicast": "two CTAs share a tile of B",
    "persistent": "a CTA per SM, tiles in an order that suits the L2",
    "pingpong": "the consumers take turns on different tiles",
    "overlapped_store": "stmatrix and TMA store under the next tile",
    "stream_k": "k dealt out evenly over the SMs",
    "split_k": "the CTAs of a cluster share out k",
    "final": "all of it, with a tile and schedule by shape",
}


@dataclass(frozen=True)
class Step:
    """One rung. share: of the peer's speed in the same rounds; gain: speed over the step before (None for the first)."""

    name: str
    idea: str
    tflops: float
    share: float
    gain: float | None
    registers: int | None
    shared_bytes: int | None
    spills: int | None


@dataclass(frozen=True)
class Best:
    """The last step at one shape: its configuration, and its share of the better cuBLAS entry point."""

    shape: tuple[int, ...]
    configuration: str
    tflops: float
    peer_tflops: float
    share: float


@dataclass(frozen=True)
class Story:
    """Steps in climbing order at one size, the last one by shape, and where it was measured.

    more: lines on what else the recording holds (edges, sustained speed).
    """

    size: int
    source: str
    peer: str
    peer_tflops: float
    steps: tuple[Step, ...]
    shapes: tuple[Best, ...]
    more: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        head = f"The product ladder at {self.size}³, bf16, {self.source}"
        return "\n".join([head, "", *_step_lines(self), "", *_shape_lines(self)])


def read(path: Path | None = None, board: str | None = None) -> Recording:
    """The recording `ladder` of a board (None: the nearest), or one in a file or folder that `hopperlab bench ladder` wrote. Raises ValueError or OSError."""
    if path is None:
        if board is not None and board.lower() not in recordings.BOARDS:
            raise ValueError(f"no board {board!r} was recorded: there are {', '.join(recordings.BOARDS)}")
        return recordings.load("ladder", board=board and board.lower())
    if path.is_dir():
        path = path / "ladder.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as problem:
        raise ValueError(f"{path} is not JSON: {problem}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds no recording: a recording is an object with a header and records")
    return recordings.parse(path.stem, data)


def tell(recording: Recording, size: int = 8192) -> Story:
    """The story at size³. Raises ValueError, with the sizes there are, when no step was measured at that size."""
    cube = (size, size, size)
    plain = [record for record in recording if record.suite == "ladder" and not record.note]
    found = {record.kernel: record for record in plain if record.shape == cube}
    peers = [found[name] for name in PEERS if name in found]
    names = [name for name in LADDER if name in found]
    if not names or not peers:
        sizes = sorted({record.shape[0] for record in plain if record.kernel in LADDER})
        known = ", ".join(f"{known}³" for known in sizes) or "none"
        raise ValueError(f"{recording.name} has no steps of the ladder at {size}³; it has {known}")
    peer = max(peers, key=lambda record: record.tflops)
    steps, before = [], None
    for name in names:
        record = found[name]
        gain = None if before is None else round(record.tflops / before, 3)
        steps.append(Step(name, IDEAS.get(name, ""), record.tflops, record.ratio, gain, record.registers, record.shared_bytes,
                          record.spills))
        before = record.tflops
    return Story(size, recording.source, peer.kernel, peer.tflops, tuple(steps), tuple(_bests(recording)), tuple(_more(recording)))


def _more(recording: Recording) -> Iterable[str]:
    """Edges, whose ratio is the full tile's time over theirs; and sustained launches, with TFLOP/s a watt where power was read."""
    for record in recording.where(kernel="edge"):
        shape, who = "x".join(map(str, record.shape)), " ".join(record.options)
        yield f"edge {shape} {who}: {100 * record.ratio:.1f} % of the speed at the next full tile"
    for record in recording.where(kernel="sustained"):
        watts = f", {record.watts:.0f} W, {record.tflops / record.watts:.2f} TFLOP/s a watt" if record.watts else ""
        yield f"sustained {'x'.join(map(str, record.shape))} {' '.join(record.options)}: {record.tflops:.0f} TFLOP/s{watts}"


def _bests(recording: Recording) -> Iterable[Best]:
    """By shape: the last step as it is launched, where it ran beside cuBLAS once more; else its fastest configuration."""
    tried: dict[tuple[int, ...], list[Record]] = {}
    last: dict[tuple[int, ...], Record] = {}
    for record in recording:
        if record.kernel == "final" and not record.note:
            last[record.shape] = record
        elif record.note and record.ratio is not None and record.kernel not in (*PEERS, "edge", "sustained"):
            tried.setdefault(record.shape, []).append(record)
    for shape, found in tried.items():
        best = last.get(shape) or max(found, key=lambda record: record.tflops)
        name = best.note or next((record.note for record in found if record.options == best.options), " ".join(best.options))
        yield Best(shape, name, best.tflops, best.peer_value, best.ratio)


def mean_share(shapes: Sequence[Best]) -> float:
    """Geometric mean of the shares of cuBLAS over the shapes."""
    return summaries.summary([best.share for best in shapes]).mean


def _step_lines(story: Story) -> list[str]:
    rows: list[tuple] = [(step.name, step.tflops, 100 * step.share, None if step.gain is None else f"x{step.gain:.2f}", step.registers,
                          None if step.shared_bytes is None else step.shared_bytes / 1024, step.spills, step.idea) for step in story.steps]
    rows.append((f"cuBLAS ({story.peer})", story.peer_tflops, 100.0, None, None, None, None, None))
    lines = text_table("{:24} {:8.1f} {:9.1f} {:>6} {:5d} {:5.0f} {:6d}  {}", rows, ("step", "TFLOP/s", "% cuBLAS", "gain", "regs", "KiB", "spills", "what is new"))
    lines.append("KiB: dynamic shared memory of a block. % cuBLAS: median of the ratios round by round. gain: over the line before.")
    return lines


def _shape_lines(story: Story) -> list[str]:
    if not story.shapes:
        return []
    rows: list[tuple] = [("x".join(map(str, best.shape)), best.tflops, 100 * best.share, best.configuration) for best in story.shapes]
    rows.append(("geometric mean", None, 100 * mean_share(story.shapes), None))
    return [*text_table("{:24} {:8.1f} {:9.1f}  {}", rows, ("the last step by shape", "TFLOP/s", "% cuBLAS", "configuration")), *story.more]
