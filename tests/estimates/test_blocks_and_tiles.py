# SPDX-License-Identifier: Apache-2.0
"""What two lengths say of a block of keys and of a tile: benchmarks/blocks_and_tiles.py."""
import math

import pytest

pairs, counted = (pytest.importorskip(f"benchmarks.{name}") for name in ("blocks_and_tiles", "counted_draws"))

pytestmark = pytest.mark.emulator_only
NAMED = "BN=80 CONSUMERS=2 STAGES=2"


def row(length, causal):
    return {"type": "bf16", "d": 256, "causal": causal, "length": length, "named": NAMED}


@pytest.mark.parametrize("causal", [False, True])
def test_cycles_of_two_lengths_are_blocks_and_tiles(causal):
    """128 rows a tile, of which each takes 1000 cycles and 300 a block."""
    def cycles(one):
        tiles = one["length"] // 128
        blocks = sum(math.ceil(min(one["length"], 128 * (tile + 1) if causal else one["length"]) / 80) for tile in range(tiles))
        return pairs.BEGUN + 16384 // one["length"] * 8 / 132 * (1000 * tiles + 300 * blocks)
    both = [row(length, causal) for length in pairs.LENGTHS]
    assert pairs.parts(both, cycles) == {("bf16", 256, causal, NAMED): (pytest.approx(300), pytest.approx(1000))}
    assert pairs.parts(both[:1], cycles) == {} == pairs.parts(both, lambda one: None)


@pytest.mark.parametrize("name", [name for name in counted.stored() if name.startswith(f"{pairs.PAIRS}/")])
def test_pairs_that_were_counted_have_both_lengths_and_blocks_cost_what_products_need(name):
    rows = counted.rows_of(counted.COUNTED / f"{name}.json")
    found = pairs.parts(rows, lambda one: float(one["cycles"]))
    assert len(found) == len(rows) / 2 > 50
    for (kind, d, causal, named), (block, tile) in found.items():
        _cell, choice = pairs.attention.asked({"d": d, "causal": causal, "length": 512, "type": kind, "named": named})
        products = choice.consumers * 2 * 64 * choice.bn * d / (2048 if kind == "bf16" else 4096)
        assert block > products and tile > 0, (kind, d, named)


def test_a_board_without_counts_is_an_error(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["blocks_and_tiles"])
    with pytest.raises(SystemExit):
        pairs.main()
    assert "name a board" in capsys.readouterr().err
