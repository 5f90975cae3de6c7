# SPDX-License-Identifier: Apache-2.0
"""What the emulator follows of tests/gpu/proxy_facts.py, held to the GPU."""
from gpu import proxy_facts


def test_with_a_fence_no_read_sees_a_refill_that_came_after_it(cupy):
    """Without one it happens, in the first of the rings (docs/hazards/unfenced-overwrite.md)."""
    found = {(r["shape"], r["fence"]): r["later"] for r in proxy_facts.reuse(cupy)}
    assert len(found) == len(proxy_facts.SHAPES) * len(proxy_facts.FENCES)
    assert {key: later for key, later in found.items() if key[1] != "none" and later} == {}


def test_loads_of_a_whole_warp_happen_once_a_lane_and_stores_all_arrive(cupy):
    for r in proxy_facts.whole_warp(cupy):
        assert r["loads"] == 32 and r["tiles stored"] == (1 if r["operands"] == "equal" else 32), r


def test_a_bulk_copy_of_no_bytes_is_legal(cupy):
    assert proxy_facts.in_child("nothing") == "copies nothing and goes on"


def test_a_map_that_began_as_zeros_is_a_map_when_every_field_is_set(cupy):
    assert proxy_facts.in_child("") == "the right tile"
