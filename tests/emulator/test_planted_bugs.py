# SPDX-License-Identifier: Apache-2.0
"""Planted synchronisation bugs are named at both of their source lines, in every schedule; the clean twin is silent.

The lines are found by their text in the kernel's source, so that an edit of a kernel does not break a test. Each bug is a
macro of the kernel; that it changes the PTX is asserted too, so that no test passes because the compiler undid the bug.
"""
import hopperlab as hl
import pytest
from support.gemms import SCHEDULES, mma_multistage, warp_specialized

WS, MMA = "gemm/warp_specialized.cu", "gemm/mma_multistage.cu"


def lines(path, text):
    """1-based lines of the kernel that contain `text`."""
    return {k + 1 for k, line in enumerate(hl.kernel_source(path).splitlines()) if text in line}


def kinds(session, kind):
    return [h for h in session.hazards if h.kind == kind]


def ptx(path, options):
    return hl.load_kernel(path, "gemm", options=options, backend="emulator").module.ptx


CASES = [
    (warp_specialized, WS, "BUG_NO_FULL_WAIT", "read-before-arrival", "wgmma_m64n128k16_bf16(d", "cp_async_bulk_tensor_2d_load("),
    (warp_specialized, WS, "BUG_WRONG_PARITY", "read-before-arrival", "wgmma_m64n128k16_bf16(d", "cp_async_bulk_tensor_2d_load("),
    (warp_specialized, WS, "BUG_EARLY_RELEASE", "overwrite-in-flight", "cp_async_bulk_tensor_2d_load(", "wgmma_m64n128k16_bf16(d"),
    (mma_multistage, MMA, "BUG_WAIT_TOO_SHALLOW", "read-before-arrival", "load_fragments(", "copy_next_tile()"),
    (mma_multistage, MMA, "BUG_NO_BARRIER_AFTER_WAIT", "read-before-arrival", "load_fragments(", "copy_next_tile()"),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("gemm, path, bug, kind, early, other", CASES, ids=[c[2] for c in CASES])
@pytest.mark.sampled(by="bug")
def test_bug_is_named_at_both_ends(gemm, path, bug, kind, early, other, schedule):
    option = (f"-D{bug}=1",)
    assert ptx(path, option) != ptx(path, ())
    _, _, session = gemm(256, 256, 512, schedule, options=option, hazards="collect")
    found = kinds(session, kind)
    assert found, [str(h) for h in session.hazards]
    assert any(h.where.line in lines(path, early) and h.other.line in lines(path, other) for h in found), [
        (h.where, h.other) for h in found]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bug, says", [
    ("BUG_FORGOTTEN_EXPECT_TX", "mbarrier.arrive.expect_tx"),
    ("BUG_WRONG_BYTES", "16 more bytes; 32768 arrived of 32784 expected"),
    ("BUG_PRODUCER_PARITY", "2 of 2 arrivals pending"),
])
def test_deadlock_says_who_waits_for_what(bug, says, schedule):
    _, _, session = warp_specialized(256, 256, 512, schedule, options=(f"-D{bug}=1",), hazards="collect")
    (deadlock,) = kinds(session, "deadlock")
    assert says in deadlock.message and "mbarrier at shared address" in deadlock.message
    assert deadlock.where.line in lines(WS, "mbarrier_wait_parity(")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("gemm", [warp_specialized, mma_multistage])
def test_clean_twin_is_silent(gemm, schedule):
    _, _, session = gemm(256, 256, 512, schedule, hazards="collect")
    assert session.hazards == []


def test_hazards_raise_by_default_and_say_so():
    with pytest.raises(hl.HazardError, match="overwrite-in-flight") as caught:
        warp_specialized(128, 128, 512, options=("-DBUG_EARLY_RELEASE=1",), hazards="raise")
    assert caught.value.hazards and "wgmma.wait_group" in str(caught.value)
    with pytest.raises(hl.DeadlockError):
        warp_specialized(128, 128, 128, options=("-DBUG_FORGOTTEN_EXPECT_TX=1",), hazards="raise")
