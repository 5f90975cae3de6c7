# SPDX-License-Identifier: Apache-2.0
"""Counters beside Nsight Compute's: the recorded comparison still holds, and what the command says where it cannot measure."""
import json

import pytest

from hopperlab.measure.profile import counters, ncu
from hopperlab.measure import recordings

RECORDED = json.loads(recordings.path_of("counters", "h200").read_text())
ENGINES = json.loads(recordings.path_of("counters_engines", "h200").read_text())


@pytest.mark.parametrize(("recorded", "module"), [
    pytest.param(RECORDED, "counter_kernels", id="accesses"),
    pytest.param(ENGINES, "counter_kernels_engines", id="engines", marks=pytest.mark.thorough)])       # tests/emulator/test_counters.py counts bytes of engines too
def test_the_emulator_still_counts_what_an_h200_counted(recorded, module):
    """Wavefronts, conflicts, requests and sectors of every recorded kernel; bytes of every engine."""
    counted = counters.in_emulator([f"hopperlab.measure.launches.{module}"], True)
    assert recorded["header"]["gpu"] == "NVIDIA H200" and len(recorded["rows"]) >= 12
    assert [row["kernel"] for row in recorded["rows"]] == [kernel for kernel, _ in counted]
    for row, (kernel, counts) in zip(recorded["rows"], counted):
        now = counters.Row(kernel, counts, row["gpu"])
        assert set(row["gpu"]) == set(counters.METRICS) and now.differing() == row["differing"] == [], kernel


def test_the_recorded_kernels_cover_padding_swizzles_and_every_tma_mode():
    names = {row["kernel"] for row in RECORDED["rows"]}
    assert {"transpose_plain", "transpose_padded", "transpose_xor", "ldmatrix_plain", "ldmatrix_xor", "cp_async_columns", "bulk_copy"} <= names
    assert {"tma_none", "tma_32b", "tma_64b", "tma_128b"} <= names


def test_every_compared_counter_was_seen_above_zero():
    seen = {name for row in (*RECORDED["rows"], *ENGINES["rows"]) for name, amount in row["gpu"].items() if amount}
    assert seen == set(counters.METRICS)


def test_the_recorded_engines_cover_reductions_multicast_clusters_atomics_and_wgmma():
    names = {row["kernel"] for row in ENGINES["rows"]}
    assert {"tensor_add_128b", "bulk_reduce", "tensor_out_of_bounds", "multicast_halves", "dsmem_load_word", "dsmem_st_async",
            "dsmem_bulk_reduce", "atomics_compare_and_swap", "wgmma_a_in_registers", "wgmma_no_swizzle", "wgmma_b_mn_major"} <= names


def test_bytes_of_the_copy_engine_are_the_bytes_that_came_from_l2():
    """In these kernels each sector is loaded once, so that all that L2 gave an SM is what the engines asked for."""
    read, written = counters.BESIDE
    for row in RECORDED["rows"]:
        counts = row["emulator"]
        loads = 32 * (counts.get("global_load_sectors", 0) + counts.get("cp_async_sectors", 0))
        assert row["beside"][read] == loads + counts.get("tma_load_bytes", 0) + counts.get("bulk_load_bytes", 0), row["kernel"]
        stores = 32 * counts.get("global_store_sectors", 0)
        assert row["beside"][written] == stores + counts.get("bulk_store_bytes", 0), row["kernel"]


CSV = '''==PROF== Connected to process 1
"ID","Process ID","Kernel Name","{metric}"
"","","",""
"0","1","fill_kernel(int)","7"
"1","1","two","1,024"
"2","1","one","3"
'''


def test_launches_are_matched_by_name_and_order():
    metric = counters.METRICS["shared_load_wavefronts"]
    rows = [counters.Row("one", {"shared_load_wavefronts": 3}), counters.Row("_Z3twoILi4EEvPf", {"shared_load_wavefronts": 1000}),
            counters.Row("one", {"shared_load_wavefronts": 3})]
    counters.attach(rows, ncu.parse(CSV.format(metric=metric)))
    assert rows[0].gpu == {"shared_load_wavefronts": 3} and rows[0].differing() == []
    assert rows[1].gpu == {"shared_load_wavefronts": 1024} and rows[1].differing() == ["shared_load_wavefronts"]
    assert rows[2].gpu is None
    text = counters.table(rows)
    assert "1,000          1,024 DIFFERENT" in text and "one: not measured on a GPU" in text
    assert text.endswith("3 launches, 2 measured on a GPU, 1 with every counter equal")


def test_a_counter_that_ncu_does_not_know_is_said_and_not_compared():
    metric = counters.METRICS["shared_load_wavefronts"]
    other = counters.METRICS["wgmma_wavefronts"]
    text = CSV.format(metric=metric).replace(f'"{metric}"', f'"{metric}","{other}"').replace('"3"', '"3","n/a"')
    row = counters.Row("one", {"shared_load_wavefronts": 3, "wgmma_wavefronts": 9})
    counters.attach([row], ncu.parse(text))
    assert row.gpu == {"shared_load_wavefronts": 3} and row.differing() == []
    assert " 9 not measured by this Nsight Compute" in " ".join(counters.table([row]).split())


def test_without_a_gpu_the_command_says_so(monkeypatch, capsys, tmp_path):
    from hopperlab import cli
    from hopperlab.runtime.gpu import driver
    monkeypatch.setattr(driver, "find_gpu", lambda: None)
    script = tmp_path / "script.py"
    script.write_text("from hopperlab.measure.launches import counter_kernels as c\nimport numpy as np\n"
                      "c.launch(c.STRIDED, 'two', (np.zeros(4096, np.float32), np.zeros(1024, np.float32)), (1,), (256,), STRIDE=2)\n")
    assert cli.main(["profile", str(script)]) == 2
    assert "no NVIDIA GPU here" in capsys.readouterr().err
    out = tmp_path / "counters.json"
    assert cli.main(["profile", str(script), "--emulator", "--json", str(out)]) == 0
    assert "global_load_sectors" in capsys.readouterr().out
    assert json.loads(out.read_text())["rows"][0]["emulator"]["global_load_sectors"] == 8 * 8


def test_a_script_that_fails_is_named(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("raise ValueError('mine')")
    with pytest.raises(counters.ProfileError, match="mine"):
        counters.in_emulator([str(script)], False)
