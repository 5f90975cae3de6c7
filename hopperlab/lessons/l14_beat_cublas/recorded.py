# SPDX-License-Identifier: Apache-2.0
"""Recorded for lesson 14: each step's gain over the one it builds on, and power without a pause. The notebook passes the recording in."""
from __future__ import annotations

from typing import Any

from ...measure.story import Story
from ...runtime.tables import text_table
from ...show.speed_by_shape import by_x

# What each step changed: from its header. A branch is a step that the last one does not stand on.
BUILDS_ON = {"register_double_buffer": "shared_tile", "mma_multistage": "register_double_buffer", "tma_mma": "mma_multistage", "tma_wgmma_2": "tma_mma",
             "tma_wgmma": "tma_wgmma_2", "warp_specialized": "tma_wgmma", "two_consumers_128x256": "warp_specialized",
             "cluster_multicast": "two_consumers_128x256", "persistent": "cluster_multicast", "pingpong": "persistent", "overlapped_store": "persistent",
             "stream_k": "persistent", "split_k": "persistent", "final": "overlapped_store"}
BRANCHES = ("pingpong", "stream_k", "split_k")


def gains(told: Story) -> dict[str, float]:
    """Step -> its speed over the speed of the step that it builds on, for the steps of which both were recorded."""
    rate = {step.name: step.tflops for step in told.steps}
    return {name: rate[name] / rate[before] for name, before in BUILDS_ON.items() if name in rate and before in rate}


def gains_table(told: Story) -> str:
    """A line a step: its speed over the step that it builds on, and what is new in it."""
    ideas = {step.name: step.idea for step in told.steps}
    rows = [(name, f"x {gain:.2f}", BUILDS_ON[name] + " (a branch)" * (name in BRANCHES), ideas[name]) for name, gain in gains(told).items()]
    return "\n".join([f"{told.size}³, {told.source}", *text_table("{:24} {:>7} {:27} {}", rows, ("step", "speed", "over", "what is new"))])


def power_table(recording: Any) -> str:
    """Launches without a pause, in turns with cuBLAS: rate, watts, clock under load, rate a watt; and the clocks and power of the board."""
    header = recording.header
    rows = [(by_x(r.shape), r.options[0], r.tflops, r.watts, r.clock_mhz, r.tflops / r.watts) for r in recording.where(kernel="sustained")]
    head = ("without a pause", "who", "TFLOP/s", "W", "MHz", "TFLOP/s a watt")
    return "\n".join([recording.source, f"the board: at most {header['clocks']['sm_max_mhz']:.0f} MHz and {header['power_limit_watts']:.0f} W",
                      *text_table("{:22} {:14} {:8.0f} {:6.0f} {:6.0f} {:15.2f}", rows, head)])
