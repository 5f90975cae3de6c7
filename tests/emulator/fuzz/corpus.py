# SPDX-License-Identifier: Apache-2.0
"""What is made malformed: kernels of the course with small launches, and the forms of the coverage table in their own kernel."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import hopperlab as hl
import ml_dtypes
import numpy as np
from emulator.coverage import kernel as coverage
from emulator.coverage import run as forms
from hopperlab import emulator
from hopperlab.emulator.machine.memory import GlobalMemory
from hopperlab.emulator.ptx.instructions import REFUSED
from hopperlab.measure.launches import launch as launches

from .mutate import mutant

LIMIT = 200_000            # work of one launch (hl.emulate), so that a loop without an end is cut short
FORMS = 6                  # forms of the table in one text
SKIPPED = (*REFUSED, "trap", "brkpt", "exit", "ret")


@dataclass(frozen=True)
class Case:
    """A text, what runs it, which of its lines are worth changing, and what stands behind them (debug sections)."""

    name: str
    text: str
    run: Callable[[str], None]
    wanted: Callable[[str], bool] = str.strip
    rest: str = ""

    def mutant(self, rng: random.Random) -> str:
        """One malformed text."""
        changed = mutant(rng, self.text, self.wanted)
        return changed if self.text.startswith(changed) else changed + self.rest


def _integers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def _launches() -> dict[str, Callable]:
    a, b = _integers((128, 128), ml_dtypes.bfloat16, 6), _integers((128, 128), ml_dtypes.bfloat16, 7)
    made = {
        "fold": lambda: launches.fold(3, _integers(1024, np.float32, 1), np.zeros(1024, np.float32), 1, backend="emulator"),
        "tma_scale": lambda: launches.tma_scale(_integers((100, 64), np.float32, 2), np.zeros((100, 64), np.float32), 2.0, 1, backend="emulator"),
        "tma_copy_ring": lambda: launches.tma_copy_ring(_integers((128, 128), np.float16, 3), np.zeros((128, 128), np.float16), (64, 64), "128B", 4, 1,
                                                        backend="emulator"),
        "bulk_copy": lambda: launches.bulk_copy(_integers(9000, np.float32, 4), np.zeros(9000, np.float32), 4, 16384, 1, backend="emulator"),
        "cp_async_copy": lambda: launches.cp_async_copy(_integers(1024 * 3, np.float32, 5), np.zeros(1024 * 3, np.float32), 4, 1, backend="emulator"),
    }
    for name in ("mma_multistage", "tma_wgmma", "warp_specialized"):
        made[name] = lambda name=name: launches.GEMMS[name](a, b, np.zeros((128, 128), ml_dtypes.bfloat16), backend="emulator")
    return made


def _kernel(name: str, make: Callable) -> Case:
    first = make()

    def run(text: str) -> None:
        launch = make()
        kernel = hl.RawModule(ptx=text, backend="emulator").get_function(launch.kernel.mangled)
        with hl.emulate(hazards="collect", trace=False, limit=LIMIT, budget=50):
            kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
    text, mark, rest = first.kernel.module.ptx.partition("\t.section\t.debug")
    return Case(name, text, run, _counts, mark + rest)


def _counts(line: str) -> bool:
    """Lines that say something: no comments, no line numbers."""
    return bool(line.strip()) and not line.lstrip().startswith(("//", ".loc", ".file"))


def _run_forms(text: str) -> None:
    memory = GlobalMemory()
    out, source = np.zeros(forms.OUT_BYTES, np.uint8), np.zeros(4 * 16**5, np.uint8)
    place = memory.register(out, "out").address
    maps = forms.images(memory.register(source, "tensor").address)
    out[49152:49280] = np.frombuffer(maps[1], np.uint8)
    session = emulator.Session(hazards_mode="collect", trace=False, limit=LIMIT, budget=50)
    emulator.launch(emulator.Program(text), "k", 1, forms.THREADS, [place.to_bytes(8, "little"), *maps], session=session, memory=memory)


@cache
def _accepted() -> list[str]:
    return [form for where, form in forms.table() if where == "sm_90a" and form.split(".")[0].rstrip(";") not in SKIPPED and "%pm" not in form]


def some_forms(rng: random.Random) -> Case:
    """A few forms of the table, by families, so that the rare ones come as often as the many."""
    families: dict[str, list[str]] = {}
    for form in _accepted():
        families.setdefault(form.split(".")[0].split(" ")[0], []).append(form)
    picked = [rng.choice(families[name]) for name in rng.choices(sorted(families), k=FORMS)]
    text = coverage.text({"k": picked})[0]
    return Case("forms", text, _run_forms, lambda line: line.startswith("{ ") or rng.random() < 0.1 and bool(line.strip()))


@cache
def kernels() -> list[Case]:
    """The kernels of the course, compiled once."""
    return [_kernel(name, make) for name, make in _launches().items()]
