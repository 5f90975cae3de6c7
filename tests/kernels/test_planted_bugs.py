# SPDX-License-Identifier: Apache-2.0
"""The planted bugs are still planted: what each macro takes out is gone from the PTX, and nothing else is."""
import re
from collections import Counter

import pytest

from hopperlab.runtime.library import kernel_source
from hopperlab.runtime.module import RawModule
from hopperlab.runtime.compile.toolchain import KERNELS

WATCHED = ("mbarrier.arrive.expect_tx", "mbarrier.arrive.release", "mbarrier.try_wait", "cp.async.wait_group", "bar.sync",
           "barrier.sync", "fence.proxy.async", "cp.async.bulk.wait_group.read", "wgmma.wait_group", "cp.async.bulk.tensor")


def instructions(path: str, *options: str, kernel: str = "") -> list[str]:
    """The watched instructions of a kernel in the order of its PTX, with their immediates."""
    module = RawModule(code=kernel_source(path), options=options, name=path, backend="emulator")
    text = module.ptx
    if kernel:
        text = text[re.search(rf"\.entry\s+{kernel}\b", text).start():].split("\n.visible", 1)[0]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line.split(";")[0] for line in lines if line.startswith(WATCHED)]
    return [re.sub(r"[%\[\]].*", "", line).strip() for line in lines]


def counts(path: str, *options: str, kernel: str = "") -> Counter:
    return Counter(line.split()[0] for line in instructions(path, *options, kernel=kernel))


REMOVED = [
    ("gemm/mma_multistage.cu", "gemm", "BUG_NO_BARRIER_AFTER_WAIT", "bar.sync"),
    ("gemm/warp_specialized.cu", "gemm", "BUG_FORGOTTEN_EXPECT_TX", "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"),
    ("copy/tma_copy.cu", "tma_copy", "BUG_FORGOTTEN_EXPECT_TX", "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"),
    ("copy/tma_copy.cu", "tma_copy", "BUG_NO_FULL_WAIT", "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"),
    ("copy/tma_copy.cu", "tma_copy_ring", "BUG_REUSE_BEFORE_READ", "cp.async.bulk.wait_group.read"),
    ("copy/tma_scale.cu", "tma_scale", "BUG_NO_PROXY_FENCE", "fence.proxy.async.shared::cta"),
    ("copy/tma_scale.cu", "tma_scale", "BUG_REUSE_BEFORE_READ", "cp.async.bulk.wait_group.read"),
    ("copy/tma_scale.cu", "tma_scale", "BUG_NO_FULL_WAIT", "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"),
]


@pytest.mark.parametrize(("path", "kernel", "bug", "gone"), REMOVED)
def test_bug_takes_its_instruction_away(path, kernel, bug, gone):
    right, wrong = counts(path, kernel=kernel), counts(path, f"-D{bug}=1", kernel=kernel)
    assert right[gone] > 0
    assert wrong[gone] == 0
    others = {name for name in right if name != gone}
    assert {name for name in wrong if name != gone} == others


def test_skipping_the_full_wait_leaves_the_producers_wait():
    wait = "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64"
    right, wrong = counts("gemm/warp_specialized.cu"), counts("gemm/warp_specialized.cu", "-DBUG_NO_FULL_WAIT=1")
    assert 0 < wrong[wait] < right[wait]


def test_shallow_wait_leaves_one_group_more():
    right = [line for line in instructions("gemm/mma_multistage.cu") if line.startswith("cp.async.wait_group")]
    wrong = [line for line in instructions("gemm/mma_multistage.cu", "-DBUG_WAIT_TOO_SHALLOW=1") if line.startswith("cp.async.wait_group")]
    assert set(right) == {"cp.async.wait_group 2"}
    assert set(wrong) == {"cp.async.wait_group 3"}


def test_early_release_arrives_before_the_wait():
    def order(*options):
        text = " ".join(line.split(".")[0] + "." + line.split(".")[1] for line in instructions("gemm/warp_specialized.cu", *options)
                        if line.startswith(("wgmma.wait_group", "mbarrier.arrive.release")))
        return text
    assert order().startswith("wgmma.wait_group mbarrier.arrive")
    assert order("-DBUG_EARLY_RELEASE=1").startswith("mbarrier.arrive wgmma.wait_group")


@pytest.mark.parametrize("bug", ["BUG_WRONG_PARITY", "BUG_PRODUCER_PARITY", "BUG_WRONG_BYTES"])
def test_wrong_values_change_no_instruction(bug):
    assert counts("gemm/warp_specialized.cu") == counts("gemm/warp_specialized.cu", f"-D{bug}=1")
    right = RawModule(code=kernel_source("gemm/warp_specialized.cu"), backend="emulator").ptx
    wrong = RawModule(code=kernel_source("gemm/warp_specialized.cu"), options=(f"-D{bug}=1",), backend="emulator").ptx
    assert right != wrong


def test_lesson_00_kernels_lack_what_they_lack():
    kernels = {number: counts(f"start_here/kernel_{number}.cu") for number in (1, 2, 3, 4)}
    fence = "fence.proxy.async.shared::cta"
    assert kernels[1][fence] == 0 and kernels[3][fence] == 1            # ordinary stores, then a bulk store of them
    text = RawModule(code=kernel_source("start_here/kernel_2.cu"), backend="emulator").ptx
    after_wait = text[text.index("cp.async.wait_group"):]
    assert after_wait.index("ld.shared") < after_wait.index("bar.sync")  # read before any barrier
    text = RawModule(code=kernel_source("start_here/kernel_4.cu"), backend="emulator").ptx
    loop = text[text.index("ld.shared"):]
    assert loop.index("cp.async.bulk") < loop.index("bar.sync")          # refilled before any barrier


def test_every_bug_is_documented_and_used():
    """In bugs.cuh, in bugs_by_lesson.cuh, in the headers of the kernels of lessons 13x and 19, or in the one kernel that has it."""
    kernels = [path.read_text() for path in KERNELS.rglob("*.cu")]
    header = "".join((KERNELS / "include" / "hopperlab" / name).read_text() for name in ("bugs.cuh", "bugs_by_lesson.cuh", "chain.cuh", "peers.cuh")) + "".join(kernels)
    declared = set(re.findall(r"#ifndef (BUG_\w+)", header))
    shared = [(KERNELS / "include" / "hopperlab" / name).read_text() for name in ("peers.cuh", "peer_copy.cuh")]              # which use their own
    used = {bug for text in [*kernels, *shared] for bug in re.findall(r"BUG_\w+", re.sub(r"#ifndef BUG_.*\n#define BUG_.*\n", "", text))}
    assert used == declared
    for bug in declared:
        assert re.search(rf"(#ifndef {bug} +// |//   {bug} +).+: ", header), bug
        assert f"#define {bug} 0" in header
