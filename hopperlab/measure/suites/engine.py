# SPDX-License-Identifier: Apache-2.0
"""Later questions to the copy engine, the recording `engine`: how many tensor maps it keeps, in which pieces it tells a barrier of a box (lesson 05x), and where an
im2col load walks when its corners differ (lesson 06x).

`maps`: the same copy through one map after the other, over their number. `pieces`: a barrier that was told of fewer bytes than the box has, over what it was
told: it opens early only where the pieces that have landed add up to that. `corners`: the matrix of a convolution, with its corners and with the two exchanged,
held against the definition and against what the emulator lays out; each in a process of its own (`python -m hopperlab.measure.suites.engine CASE`), since the
engine refuses some walks with an illegal instruction, which costs the CUDA context. Needs a Hopper GPU.
"""
from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from ...hopper.tensormap import TensorMapError
from ...runtime.arrays import array_module, asnumpy
from ...runtime.tensor_map import TensorMap
from ..launches import copies, micro
from ..recordings import Record
from .bugs import FATAL
from .fields import facts
from .micro_records import flush, numbered, sampled

METHOD = ("cycles of one multiprocessor's clock around the instructions named, inside the kernel: median, least and greatest over samples and launches; maps: of the "
          "passes after the first; pieces: `runs` trials, `note` in how many the barrier opened, `value` the bytes that were there then")
PASSES = 5
COUNTS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024, 2048, 4096)
STRIDES = (1, 8)                # from map to map, in maps of 128 bytes
BOXES = ((64, 64), (64, 16), (8, 256))
TRIALS = 64
SMALL = (16, 32, 64, 1000)      # announced besides the multiples
CONVOLUTIONS = (((3, 3), 1, 1), ((3, 3), 0, 1), ((5, 3), 1, 1), ((1, 5), 2, 1), ((7, 2), 0, 2), ((4, 3), 1, 3))       # filter (rows, columns), padding, stride
IMAGE = (2, 11, 13, 8)
SECONDS = 40                    # of one process with an im2col load


def maps(rounds: int) -> list[Record]:
    """Cycles of a copy of 128 bytes from the L2, by how many maps are used in turn: first uses, and uses again, forwards and there and back."""
    records = []
    for stride in STRIDES:
        for turn in (False, True):
            for count in COUNTS:
                probe = micro.map_cache(count, PASSES, stride, turn, backend="gpu")
                again = sampled(probe, rounds, lambda out, count=count: out[count:])
                words = (f"maps={count}", f"stride={128 * stride}", f"order={'there and back' if turn else 'forwards'}")
                records.append(numbered("maps", "map_cache", (*words, "use=again"), again, "cycles", probe.launch))
                if not turn:
                    first = sampled(probe, rounds, lambda out, count=count: out[:count], cold=True)
                    records.append(numbered("maps", "map_cache", (*words, "use=first"), first, "cycles", probe.launch))
    return records


def announcements(rows: int, columns: int) -> Iterator[int]:
    """Bytes that are announced for a box: every 64th part of it (but 32 bytes at least), a few small numbers, and all of it."""
    whole = 2 * rows * columns
    yield from sorted({*(small for small in SMALL if small < whole), *range(max(32, whole // 64), whole + 1, max(32, whole // 64))})


def pieces(rounds: int) -> list[Record]:
    """How often a barrier opened that was told of fewer bytes, and how much of the box was there then; from the memory and from the L2."""
    records = []
    for rows, columns in BOXES:
        for announced in announcements(rows, columns):
            probe = micro.early_opening(rows, columns, announced, TRIALS, backend="gpu")
            for source in ("memory", "L2"):
                found = []
                for _ in range(max(1, rounds)):
                    if source == "memory":
                        flush()
                    found.append(probe.cycles().reshape(-1, 2)[:, 0].copy())
                records.append(_opened(np.concatenate(found), (f"announced={announced}", f"from={source}"), (rows, columns), probe))
    return records


def _opened(lines: np.ndarray, words: tuple[str, ...], shape: tuple[int, int], probe: micro.Probe) -> Record:
    opened = 128 * lines[lines >= 0]
    spread = {"value": float(np.median(opened)), "value_min": float(opened.min()), "value_max": float(opened.max())} if len(opened) else {}
    return Record("pieces", "early_opening", words, shape, "bfloat16", unit="bytes", runs=len(lines), note=f"opened in {len(opened)}", **spread, **facts(probe.launch))


def corners(_rounds: int) -> list[Record]:
    """Whether the engine lays out a convolution's matrix as its definition says, and as the emulator does, with each corner and with the two exchanged."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(corner, range(2 * len(CONVOLUTIONS))))


def corner(case: int, seconds: float = SECONDS) -> Record:
    """One of them, laid out in a fresh process: the number of the convolution, twice, and 1 more where the corners are exchanged."""
    (edges, padding, stride), exchanged = CONVOLUTIONS[case // 2], bool(case % 2)
    options = (f"filter={edges[0]} x {edges[1]}", f"padding={padding}", f"stride={stride}", f"corners={'exchanged' if exchanged else 'right'}")
    fields: dict[str, Any] = {"outcome": "hang", "note": f"ended by its time limit of {seconds:g} s"}
    try:
        done = subprocess.run([sys.executable, "-m", "hopperlab.measure.suites.engine", str(case)], capture_output=True, text=True, timeout=seconds)
        fields = json.loads(done.stdout.strip().splitlines()[-1]) if not done.returncode else {"outcome": _failure(done.stderr), "note": "the CUDA context was lost"}
    except subprocess.TimeoutExpired:
        pass
    return Record("corners", "im2col_load", options, IMAGE, "float16", **fields)


def _failure(said: str) -> str:
    """What a process died of. Raises RuntimeError for what is no failed launch."""
    if "illegal instruction" in said.lower():
        return "illegal instruction"
    if any(word in said.lower() for word in FATAL):
        return "launch failure"
    raise RuntimeError(said[-2000:])


def laid_out(case: int, place: str = "gpu") -> dict[str, Any]:
    """The fields of a case's record, made in this process: how many pixels are wrong, and whether the emulator lays out the same."""
    (edges, padding, stride), exchanged = CONVOLUTIONS[case // 2], bool(case % 2)
    image = np.random.default_rng(9).integers(1, 1000, IMAGE).astype(np.float16)
    exact = _matrix(image, edges, padding, stride)
    try:
        here, there = (_laid(image, exact.shape, edges, padding, stride, exchanged, where) for where in (place, "emulator"))
    except TensorMapError as problem:
        return {"outcome": "refused", "note": str(problem).partition("\n")[0]}
    wrong = int((here != exact).any(axis=(1, 2)).sum())
    beside = "as in the emulator" if np.array_equal(here, there) else "not as in the emulator"
    return {"outcome": "wrong" if wrong else "right", "note": f"{wrong} of {len(exact)} pixels wrong, {beside}"}


def _matrix(image: np.ndarray, edges: tuple[int, int], padding: int, stride: int) -> np.ndarray:
    """(output pixels, filter elements, channels), by the definition."""
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    rows, columns = ((size - edge) // stride + 1 for size, edge in zip(padded.shape[1:3], edges, strict=True))
    taps = [padded[:, y:y + stride * rows:stride, x:x + stride * columns:stride][:, :rows, :columns] for y, x in itertools.product(*map(range, edges))]
    return np.stack([tap.reshape(-1, image.shape[-1]) for tap in taps], axis=1)


def _laid(image: np.ndarray, shape: tuple[int, ...], edges: tuple[int, int], padding: int, stride: int, exchanged: bool, place: str) -> np.ndarray:
    """The same by copy/im2col_load.cu in a place; exchanged: lower and upper corner of the map change places."""
    xp: Any = array_module(place)
    source, out = xp.asarray(image), xp.zeros(shape, np.float16)
    launch = copies.im2col_load(source, out, edges, padding, stride, channels=8, backend=place)
    if exchanged:
        fields = launch.args[0].fields
        lower, upper = ((-padding, -padding), tuple(padding - (edge - 1) for edge in edges))
        launch = replace(launch, args=(TensorMap.im2col(source, upper, lower, 8, fields.pixels_per_column, element_strides=(1, stride, stride, 1)), *launch.args[1:]))
    launch()
    return asnumpy(out)


def measure(rounds: int = 5, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """The records of `maps`, `pieces` and `corners`; keep: called with what there is after each of them."""
    records: list[Record] = []
    for experiment in (maps, pieces, corners):
        records += experiment(rounds)
        keep(list(records))
    return records


if __name__ == "__main__":
    print(json.dumps(laid_out(int(sys.argv[1]))))
