# SPDX-License-Identifier: Apache-2.0
"""Every synchronising instruction of the course's kernels is needed: take one away, and a hazard is named whatever the schedule.

Each mutant is the kernel's PTX with one instruction removed (a try_wait says yes at once). Instructions that are not needed
where they stand are listed with the reason; a kernel that gains an unneeded one, or a checker that misses one, fails here.
"""
import re
from functools import lru_cache

import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from hopperlab.measure.launches import launch as launches
from support.emulated import SCHEDULES, kinds

SYNC = re.compile(r"\s*(?:@!?%\w+\s+)?(bar\.sync|bar\.arrive|cp\.async\.wait_group|cp\.async\.bulk\.wait_group|fence\.proxy|"
                  r"wgmma\.wait_group|mbarrier\.try_wait|mbarrier\.arrive|cp\.async\.bulk\.commit_group|cp\.async\.commit_group)")
REDUNDANT = {
    # The next round's mbarrier carries thread 0's wait_group.read to everyone; the last stores have been read in their round.
    ("fold", "bar.sync", 2), ("fold", "cp.async.bulk.wait_group", 1),
}


def integers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def build(name):
    """The launch of a case, on fresh arrays."""
    more = {"backend": "emulator"}
    if name == "fold":
        return launches.fold(3, integers(2048, np.float32, 1), np.zeros(2048, np.float32), 1, **more)
    if name == "tma_scale":
        return launches.tma_scale(integers((300, 64), np.float32, 2), np.zeros((300, 64), np.float32), 2.0, 1, **more)
    if name == "tma_copy_ring":
        return launches.tma_copy_ring(integers((192, 192), np.float16, 3), np.zeros((192, 192), np.float16), (64, 64), "128B", 4, 1, **more)
    if name == "bulk_copy":
        return launches.bulk_copy(integers(9000 * 4, np.float32, 4), np.zeros(9000 * 4, np.float32), 4, 16384, 1, **more)
    if name == "cp_async_copy":
        return launches.cp_async_copy(integers(1024 * 9, np.float32, 5), np.zeros(1024 * 9, np.float32), 4, 1, **more)
    a, b = integers((128, 448), ml_dtypes.bfloat16, 6), integers((128, 448), ml_dtypes.bfloat16, 7)
    return launches.GEMMS[name](a, b, np.zeros((128, 128), ml_dtypes.bfloat16), **more)


@lru_cache
def body(name):
    """(lines of PTX, indices of the kernel's own synchronising instructions)."""
    launch = build(name)
    lines = launch.kernel.module.ptx.splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(rf".*\.entry {launch.kernel.name}\(", line))
    end = next((i for i in range(start + 1, len(lines)) if ".entry" in lines[i]), len(lines))
    return lines, [i for i in range(start, end) if SYNC.match(lines[i])]


def mutant(name, number):
    """(PTX without the instruction, its opcode, how many of that opcode came before it)."""
    lines, places = body(name)
    at = places[number]
    opcode = SYNC.match(lines[at]).group(1)
    before = sum(SYNC.match(lines[i]).group(1) == opcode for i in places[:number])
    gone = ""
    if opcode == "mbarrier.try_wait":
        predicate = lines[at].split()[1].rstrip(",")
        gone = f"setp.eq.u32 {predicate}, 0, 0;"
    return "\n".join([*lines[:at], gone, *lines[at + 1:]]), opcode, before


CASES = ["fold", "tma_scale", "tma_copy_ring", "bulk_copy", "cp_async_copy", "mma_multistage", "tma_wgmma", "warp_specialized"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(every=4)
def test_every_instruction_is_needed(name):
    launch, missed = build(name), []
    count = len(body(name)[1])
    assert count >= 4
    for number in range(count):
        text, opcode, before = mutant(name, number)
        kernel = hl.RawModule(ptx=text).get_function(launch.kernel.name)
        for schedule in SCHEDULES:
            with hl.emulate(schedule=schedule, hazards="collect") as session:
                kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
            if bool(kinds(session)) == ((name, opcode, before) in REDUNDANT):
                missed.append((opcode, before, schedule, kinds(session)))
    assert not missed, missed


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_accumulators_stay_in_flight_when_roles_drift_apart(schedule):
    """Without wait_group the two consumers of warp_specialized run at different speeds and meet again; their results are still unwaited."""
    launch = build("warp_specialized")
    number = next(k for k, i in enumerate(body("warp_specialized")[1]) if "wgmma.wait_group" in body("warp_specialized")[0][i])
    kernel = hl.RawModule(ptx=mutant("warp_specialized", number)[0]).get_function("gemm")
    with hl.emulate(schedule=schedule, hazards="collect") as session:
        kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
    assert {"register-in-flight", "overwrite-in-flight"} <= set(kinds(session))
