# SPDX-License-Identifier: Apache-2.0
"""Runs forms of the table in the emulator, many in one kernel of a warpgroup; test_coverage.py uses it."""

from pathlib import Path

import numpy as np

from emulator.coverage.kernel import text
from hopperlab import emulator
from hopperlab.emulator.machine.memory import GlobalMemory
from hopperlab.hopper import tensormap
from hopperlab.hopper.tensormap import TensorMapFields

TABLE = Path(__file__).parent / "table.txt"
OUT_BYTES = 32768 + 65536
THREADS = 128


def table() -> list[tuple[str, str]]:
    """(architecture, form) of every line."""
    return [tuple(line.split("\t")) for line in TABLE.read_text().splitlines()]


def images(address: int) -> list[bytes]:
    """Tensor maps of int32: ranks 1 to 5 in tile mode, 3 to 5 in im2col mode, over 4-wide boxes at an address."""
    tiles = [TensorMapFields("int32", rank, address, (16,) * rank, tuple(64 * 16**k for k in range(rank - 1)), (4,) * rank, (1,) * rank) for rank in range(1, 6)]
    columns = [TensorMapFields("int32", rank, address, (16,) + (8,) * (rank - 1), tuple(64 * 8**k for k in range(rank - 1)), (), (1,) * rank,
                               pixel_box_lower_corner=(0,) * (rank - 2), pixel_box_upper_corner=(0,) * (rank - 2), channels_per_pixel=4, pixels_per_column=4)
                               for rank in (3, 4, 5)]
    return [tensormap.pack(fields) for fields in (*tiles, *columns)]


def run(forms: list[str]) -> None:
    """All forms one after another; whatever the emulator cannot do is raised."""
    program = emulator.Program(text({"k": forms})[0])
    memory = GlobalMemory()
    out, source = np.zeros(OUT_BYTES, np.uint8), np.zeros(4 * 16**5, np.uint8)
    place = memory.register(out, "out").address
    maps = images(memory.register(source, "tensor").address)
    out[49152:49280] = np.frombuffer(maps[1], np.uint8)
    session = emulator.Session(hazards_mode="collect", trace=False, check=False)
    emulator.launch(program, "k", 1, THREADS, [place.to_bytes(8, "little"), *maps], session=session, memory=memory)
