# SPDX-License-Identifier: Apache-2.0
"""Occupancy against cases worked out by hand, and the setmaxnreg pool against what an H200 did."""

import pytest

from hopperlab.hopper import limits


@pytest.mark.parametrize("threads, regs, smem, blocks, by", [
    (1024, 32, 0, 2, "threads"),            # 32 warps of 64; 1024 regs a warp
    (1024, 64, 0, 1, "registers"),          # 2048 a warp: 8 a quarter, 32 warps
    (32, 16, 0, 32, "blocks"),
    (128, 32, 0, 16, "threads"),
    (256, 128, 0, 2, "registers"),          # 4096 a warp: 4 a quarter, 16 warps
    (384, 168, 0, 1, "registers"),          # 5376 a warp: 3 a quarter, 12 warps
    (256, 40, 48 * 1024, 4, "shared memory"),   # 49 KiB each of 228
    (128, 255, 227 * 1024, 1, "shared memory"),
    (96, 255, 0, 2, "registers"),           # three warps are counted as four: 8 warps fit
])
def test_occupancy_worked_out_by_hand(threads, regs, smem, blocks, by):
    got = limits.occupancy(threads, regs, smem)
    assert (got.blocks, got.limited_by) == (blocks, by)
    assert got.warps == blocks * -(-threads // 32) and got.fraction == got.warps / 64
    assert limits.resident_blocks(threads, regs, smem) == 132 * blocks


@pytest.mark.parametrize("arguments, words", [
    ((0, 32, 0), "0 threads"), ((1025, 32, 0), "1025 threads"), ((32, 256, 0), "256 registers"),
    ((32, 32, 228 * 1024), "233472 bytes"), ((1024, 128, 0), "more than the 65536 registers"),
])
def test_blocks_no_sm_can_hold(arguments, words):
    with pytest.raises(ValueError, match=words):
        limits.occupancy(*arguments)


def test_registers_come_in_steps_of_eight_a_thread():
    assert [limits.registers_per_warp(r) for r in (1, 8, 9, 168, 255)] == [256, 256, 512, 5376, 8192]


# 168 registers at entry, three warpgroups: these ran on an H200, those hung.
RAN = [(24, 232, 232), (24, 240, 240), (40, 224, 224), (40, 232, 232), (56, 224, 224), (160, 168, 176), (168, 168, 168)]
HUNG = [(32, 240, 240), (40, 240, 240), (48, 240, 240)]


def test_setmaxnreg_pool_is_the_sum():
    assert all(limits.setmaxnreg_fits(168, counts) for counts in RAN)
    assert not any(limits.setmaxnreg_fits(168, counts) for counts in HUNG)
    for wrong in (16, 25, 264):
        with pytest.raises(ValueError, match=f"setmaxnreg {wrong}"):
            limits.setmaxnreg_fits(168, (wrong, 168))
