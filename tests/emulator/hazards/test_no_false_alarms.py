# SPDX-License-Identifier: Apache-2.0
"""The course's own kernels are silent under every schedule, except those that are wrong on purpose (lessons 00 and 17)."""
import inspect
from pathlib import Path

import hopperlab as hl
import numpy as np
import pytest
from hopperlab.measure.launches import launch as launches, gemm as launches_gemm
from hopperlab.measure.launches.roles import Roles, register_roles

SCHEDULES = ("lazy", "eager", "random")
ROOM = Path(hl.__file__).parent / "kernels"
WRONG_ON_PURPOSE = {"start_here/kernel_1.cu", "start_here/kernel_2.cu", "start_here/kernel_4.cu", "article/listing.cu",
                    "mbarrier/two_slots.cu"}               # an exercise: right once it is answered (tests/lessons/test_l04_stepper.py)


# Kernels that other tests run under every schedule with the checker on: file -> test.
ELSEWHERE = {"clusters/shared_tiles.cu": "lessons/test_l12_shared_tiles.py",
             **{f"launches/{name}.cu": "kernels/test_chain.py" for name in ("persistent_chain", "rms_norm")},
             **{f"decoding/{name}.cu": "kernels/test_decoding.py" for name in ("append", "combine", "decode", "latent")},
             **{f"micro/{path.name}": "kernels/test_micro.py" for path in (ROOM / "micro").glob("*.cu")}}


def gemm(make):
    a, b = ((np.arange(rows * 200).reshape(rows, 200) % 5).astype(np.uint16) for rows in (264, 136))
    few = {"blocks": 2} if "blocks" in inspect.signature(make).parameters else {}      # persistent kernels: two blocks are enough
    return make(a, b, np.zeros((264, 136), np.uint16), backend="emulator", **few)


def halves(rows=128, columns=128):
    return (np.arange(rows * columns).reshape(rows, columns) % 99).astype(np.float16)


def folded():
    x = np.arange(512 * 20).astype(np.float32)
    return launches.fold(3, x, np.zeros_like(x), blocks=4, backend="emulator")


def copied(name, **more):
    x = np.arange(70_000 // 16 * 16).astype(np.uint8)
    return getattr(launches, name)(x, np.zeros_like(x), backend="emulator", **more)


SWIZZLED = [("none", (16, 24)), ("32B", (16, 16)), ("64B", (64, 32)), ("128B", (32, 64))]
KERNELS = {
    "copy/bulk_copy.cu": [lambda: copied("bulk_copy", blocks=3)],
    "copy/cp_async_copy.cu": [lambda: copied("cp_async_copy", blocks=3)],
    "copy/vector_copy.cu": [lambda: copied("vector_copy")],
    "copy/tma_copy.cu": [lambda s=s, b=b: launches.tma_copy(halves(), halves(), b, s, backend="emulator") for s, b in SWIZZLED]
    + [lambda s=s, b=b: launches.tma_copy_ring(halves(), halves(), b, s, 3, 2, backend="emulator") for s, b in SWIZZLED],
    "copy/tma_scale.cu": [lambda: launches.tma_scale(np.ones((200, 64), np.float32), np.zeros((200, 64), np.float32), 2.0, 2, backend="emulator")],
    "micro/tma_vs_cp_async.cu": [lambda how=how: launches.box_load(how, halves().view(np.uint16), np.zeros(3, np.uint32), (8, 64), blocks=3,
                                                                   backend="emulator") for how in ("tma", "cp_async")],
    "start_here/kernel_3.cu": [folded],
    "registers/roles.cu": [lambda roles=roles: gemm(lambda *abc, **more: register_roles(*abc, roles, **more)) for roles in (Roles(), Roles(1, 3, 128, 2, 40, 256))],
}
KERNELS |= {f"gemm/{step}.cu": [lambda make=make: gemm(make)] for step, make in launches_gemm.LADDER.items()}
LAUNCHES = [(path, k) for path, makers in KERNELS.items() for k in range(len(makers))]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("path, number", LAUNCHES, ids=[f"{path}-{k}" for path, k in LAUNCHES])
@pytest.mark.sampled(every=7)            # tests/kernels runs them with hazards that raise
def test_the_courses_kernels_are_silent(path, number, schedule):
    launch = KERNELS[path][number]()
    with hl.emulate(schedule=schedule, seed=11, hazards="collect") as session:
        launch()
    assert not session.hazards and not session.warnings, [str(h) for h in (*session.hazards, *session.warnings)]


def test_no_kernel_is_forgotten():
    """A kernel outside the ladder of GEMMs gets a line above, or a test in tests/kernels that runs it under every schedule."""
    files = {p.relative_to(ROOM).as_posix() for p in ROOM.rglob("*.cu")}
    tests = [p.read_text() for p in Path(__file__).parents[2].joinpath("kernels").glob("test_*.py") if p.name != "test_kernels_compile.py"]
    run = "".join(text for text in tests if "run_clean" in text or "hazards" in text)
    left = {path for path in files - WRONG_ON_PURPOSE - set(KERNELS) if Path(path).stem not in run}
    for path in left & set(ELSEWHERE):
        assert "hazards" in Path(__file__).parents[3].joinpath("tests", ELSEWHERE[path]).read_text(), path
    assert left <= set(ELSEWHERE), sorted(left - set(ELSEWHERE))
