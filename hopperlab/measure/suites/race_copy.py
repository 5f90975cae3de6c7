# SPDX-License-Identifier: Apache-2.0
"""The race of copies, `hopperlab bench copy`: every way to copy a bf16 matrix beside cudaMemcpy, at any sizes."""
from __future__ import annotations

import re

from ..launches.copies import stream_copy
from ..machine import peers
from .copies import copy_variants
from .race import Contestant, Race, Races, check_size, options

SHAPES = ((16384, 32768), (65536, 32768))
MOST_BYTES = 64 << 30           # of the arrays of one shape
BYTES = {"B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
COLUMNS = 32768                 # of the bf16 matrix that a size in bytes stands for
KERNELS = dict.fromkeys(("vector_copy", "stream_copy", "cp_async_copy", "bulk_copy", "tma_copy", "tma_copy_ring"))
PEERS = {"memcpy": peers.Peer("cudaMemcpy", "cupy", {"cudaMemcpy": peers.device_copy})}


def parsed(text: str) -> tuple[int, int]:
    """'1GiB', '64MiB', or '16384x32768' (rows x bf16 columns). Raises ValueError that names the rule."""
    size = re.fullmatch(r"(\d+)(B|[KMG]iB)", text, re.IGNORECASE)
    pair = re.fullmatch(r"(\d+)x(\d+)", text)
    if size is None and pair is None:
        raise ValueError(f"{text!r} is no size of a copy: write 64MiB or 4GiB, or 16384x32768 for rows x bf16 columns")
    if size is not None:
        total = int(size[1]) * BYTES[size[2].upper()]
        rows, columns = total // (2 * COLUMNS), COLUMNS
        if rows < 1 or rows * 2 * columns != total:
            raise ValueError(f"{text!r}: a size is a multiple of {2 * COLUMNS // 1024} KiB")
    else:
        rows, columns = int(pair[1]), int(pair[2])
    if rows < 1 or columns < 8 or columns % 8:
        raise ValueError(f"{text!r}: {columns} columns, no multiple of 8; TMA needs rows of a multiple of 16 bytes")
    check_size(text, 4 * rows * columns, MOST_BYTES)
    return rows, columns


def race(shape: tuple[int, ...], kernels: tuple[str, ...], chosen: tuple[str, ...]) -> Race:
    """Every way to copy a bf16 matrix, beside cudaMemcpy."""
    import cupy
    source = cupy.random.default_rng(3).integers(0, 1 << 16, size=shape, dtype=cupy.uint16)
    target = cupy.empty_like(source)
    streamed = stream_copy(source.reshape(-1), target.reshape(-1))
    variants = {**copy_variants(source, target), "stream_copy": (options(streamed), streamed)}
    field = {name: Contestant(launch.kernel.name, launch.bound(), macros, launch)
             for name, (macros, launch) in variants.items() if launch.kernel.name in kernels}
    for name in chosen:
        field |= {entry: Contestant(entry, make(source, target), family=PEERS[name].family)
                  for entry, make in PEERS[name].entries.items()}

    def wrong(contestant: Contestant) -> float:
        target.fill(0x7FC0)
        contestant.run()
        return float((source != target).mean())
    return Race("copy", tuple(shape), "bfloat16", 2 * source.nbytes, "gb_s", field, wrong)


RACES = Races("copy", SHAPES, parsed, KERNELS, tuple(KERNELS), PEERS, race)
