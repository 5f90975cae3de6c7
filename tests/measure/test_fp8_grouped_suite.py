# SPDX-License-Identifier: Apache-2.0
"""The suite of fp8 products by groups without a GPU: which cells are drawn, and what a record says."""
from types import SimpleNamespace

import pytest

from hopperlab.measure.launches.fp8_grouped import chosen
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import fp8_grouped


def test_the_drawn_cells_fit_a_gpu_and_have_both_layouts():
    cells = fp8_grouped.drawn()
    assert len(cells) == fp8_grouped.CELLS and [cell.masked for cell in cells[:2]] == [False, True]
    for cell in cells:
        assert 8 <= len(cell.rows) <= 256 and sum(cell.rows) <= 32768 + 256 and len(cell.rows) * cell.n * cell.k <= 8e9
        assert cell.n % 128 == 0 and cell.k % 128 == 0 and (cell.masked or all(count % fp8_grouped.ALIGNED == 0 for count in cell.rows))
    assert fp8_grouped.drawn(seed=1) != cells == fp8_grouped.drawn()


def test_rows_are_dealt_out_whole():
    rows = fp8_grouped.routed(3, 8, 1000, 1)
    assert len(rows) == 8 and sum(rows) == 1000 and len(set(rows)) > 1
    assert sum(fp8_grouped.routed()) == fp8_grouped.ROWS


CUBLASLT = fp8_grouped.CUBLASLT


@pytest.mark.parametrize("others, peer", [({"DeepGEMM": 2.0, CUBLASLT: 3.0}, "DeepGEMM"), ({"DeepGEMM": 4.0, CUBLASLT: 3.0}, CUBLASLT), ({}, None)])
def test_ours_stands_beside_the_fastest_of_the_others(others, peer):
    cell = fp8_grouped.Cell((16, 48), 256, 128, False)
    kernel = SimpleNamespace(module=SimpleNamespace(options=("-DROWS=2",)), use=SimpleNamespace(registers=168, spill_stores=0, spill_loads=0))
    launch = SimpleNamespace(kernel=kernel, shared_mem=1000, grid=(132,), block=(384,))
    samples = {name: Sample((ms, ms, ms)) for name, ms in {"grouped_tall": 1.0, **others}.items()}
    records = {record.kernel: record for record in fp8_grouped._records(cell, launch, samples)}
    ours = records.pop("grouped_tall")
    assert set(records) == set(others) and all(record.ratio is None and record.registers is None for record in records.values())
    assert ours.peer == peer and ours.ratio == (None if peer is None else others[peer])
    assert ours.shape == (64, 256, 128) and ours.options == ("GROUPS=2", "MASKED=0", "-DROWS=2")
    assert ours.note == f"seed {fp8_grouped.SEED}; 32 rows per group on average, 48 at most"


def test_a_tile_more_for_groups_of_many_rows():
    heights = [(128 * tiles.rows, tiles.cluster) for tiles in (chosen(16, rows, 4096, 7168) for rows in (16, 186, 1024))]
    assert heights == [(128, 1), (256, 1), (256, 2)]
