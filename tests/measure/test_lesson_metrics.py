# SPDX-License-Identifier: Apache-2.0
"""`hopperlab profile --metrics lessons` with a pretended ncu: names that exist are asked for, what is missing is said, nothing crashes."""
import json
import os
import stat
import sys
import textwrap

import pytest

from hopperlab import cli
from hopperlab.measure.machine import board
from hopperlab.measure.profile import lesson_metrics, ncu as profiler
from hopperlab.measure.profile.lesson_metrics import METRICS, title
from hopperlab.measure.profile.ncu import ProfileError

TENSOR, REGISTERS = "tensor cores: tensor pipe busy", "occupancy: registers per thread"


def test_the_table_has_every_subject_of_the_lessons_and_explains_each_line():
    groups = {metric.group for metric in METRICS}
    assert groups >= {"tensor cores", "issue slots", "traffic", "shared memory", "occupancy", "stall reasons"}
    assert len({title(metric) for metric in METRICS}) == len(METRICS)
    assert all(len(metric.words) > 4 and metric.names for metric in METRICS)


def test_the_first_name_that_exists_is_taken():
    first, second = next(m for m in METRICS if title(m) == TENSOR).names[:2]
    assert lesson_metrics.choose({name.split(".")[0] for name in (first, second)})[TENSOR] == first
    chosen = lesson_metrics.choose({second.split(".")[0]})
    assert chosen[TENSOR] == second and REGISTERS in chosen and "traffic: memory read" not in chosen
    assert set(lesson_metrics.choose(set())) == {title(metric) for metric in METRICS}      # no list: ask for all


CSV = '''==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread","lts__t_sector_hit_rate.pct"
"","","ns","register/thread","%"
"0","cupy_fill(int)","9","9","9"
"1","gemm(TensorMap, int)","1,234,567","168","n/a"
'''


def test_rows_are_read_in_the_tables_units():
    rows = lesson_metrics.read(profiler.parse(CSV), lesson_metrics.choose(set()))
    assert [row["kernel"] for row in rows] == ["cupy_fill", "gemm"]
    assert rows[1]["values"] == {"time: duration": 1234.567, REGISTERS: 168.0}


def test_the_table_explains_and_keeps_the_largest_stalls():
    stalls = [title(metric) for metric in METRICS if metric.group == "stall reasons"]
    values = {name: float(i) for i, name in enumerate(stalls)} | {TENSOR: 87.5}
    text = lesson_metrics.table([{"kernel": "gemm", "values": values}], ["traffic: memory read"])
    assert "tensor pipe busy" in text and "87.50 %" in text and "the roof of a product" in text
    shown = [metric.title for metric in METRICS if metric.group == "stall reasons" and f"\n    {metric.title:30s} " in text]
    assert len(shown) == 6 and "not selected" in shown and "memory" not in shown
    assert text.endswith("not measured by this Nsight Compute: traffic: memory read")


FAKE = '''#!{python}
"""ncu, pretended: knows METRICS but one, which it refuses; writes the log that it is asked for."""
import sys
words = sys.argv[1:]
if "--query-metrics" in words:
    print("Device NVIDIA H200 (GH100)\\nsm__pipe_tensor_cycles_active  Counter  cycle  busy\\nlts__t_sector_hit_rate  Ratio")
    sys.exit(0)
names = words[words.index("--metrics") + 1].split(",")
open({calls!r}, "a").write(" ".join(names) + "\\n")
log = open(words[words.index("--log-file") + 1], "w")
if {refuse!r} in " ".join(names):
    log.write("==ERROR== Failed to find metric {refuse}.ratio\\n")
    sys.exit(1)
if {silent}:
    log.write("==WARNING== No kernels were profiled.\\n")
    sys.exit({code})
log.write('"ID","Kernel Name","' + '","'.join(names) + '"\\n"0","gemm(int)","' + '","'.join("5" for name in names) + '"\\n')
'''


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """Puts a pretended ncu on the PATH; returns a function that makes it and tells what it was asked."""
    from hopperlab.runtime.gpu import driver
    monkeypatch.setattr(driver, "find_gpu", lambda: "a GPU")
    monkeypatch.setattr(board, "header", lambda: {"gpu": "a GPU"})
    script = tmp_path / "script.py"
    script.write_text("")

    def make(refuse="no such name", silent=False, code=0):
        tool, calls = tmp_path / "ncu", tmp_path / "calls"
        tool.write_text(textwrap.dedent(FAKE).format(python=sys.executable, calls=str(calls), refuse=refuse, silent=silent, code=code))
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
        return script, lambda: calls.read_text().splitlines()
    return make


def test_what_this_ncu_lacks_is_said_and_not_asked_for(ncu, capsys, tmp_path):
    script, asked = ncu()
    out = tmp_path / "out.json"
    assert cli.main(["profile", "--metrics", "lessons", str(script), "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "1. gemm" in shown and "tensor pipe busy" in shown and "not measured by this Nsight Compute: " in shown
    assert "dram__bytes_read.sum" not in asked()[0]
    data = json.loads(out.read_text())
    assert "traffic: memory read" in data["missing"] and data["kernels"][0]["values"][TENSOR] == 5.0


def test_a_name_that_ncu_refuses_is_left_out_at_a_second_try(ncu, capsys):
    script, asked = ncu(refuse="smsp__average_warps_issue_stalled_gmma_per_issue_active")
    assert cli.main(["profile", "--metrics", "lessons", str(script)]) == 0
    assert "stall reasons: wgmma queue" in capsys.readouterr().out.splitlines()[-1]
    first, second = asked()
    assert "stalled_gmma" in first and "stalled_gmma" not in second and "stalled_barrier" in second


@pytest.mark.parametrize(("code", "message"), [(0, "no kernel was profiled: the script launches none whose name matches 'gemm'"),
                                               (3, "the script failed under the profiler")])
def test_nothing_measured_says_why(ncu, capsys, code, message):
    script, _ = ncu(silent=True, code=code)
    assert cli.main(["profile", "--metrics", "lessons", "--kernel", "gemm", str(script)]) == 2
    assert message in capsys.readouterr().err


def test_without_a_gpu_or_ncu_it_says_so(monkeypatch, tmp_path):
    from hopperlab.runtime.gpu import driver
    monkeypatch.setattr(driver, "find_gpu", lambda: None)
    with pytest.raises(ProfileError, match="no NVIDIA GPU here"):
        profiler.find()
    monkeypatch.setattr(driver, "find_gpu", lambda: "a GPU")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfileError, match="ncu is not on the PATH"):
        profiler.find()


def test_one_step_of_the_ladder_is_a_target(monkeypatch, capsys):
    from hopperlab.measure.profile import step
    assert step.main(["fast"]) == 2 and "which step? naive" in capsys.readouterr().err
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    assert step.main(["naive", "32"]) == 0
    assert step.main(["naive", "x"]) == 2 and "naive: invalid literal" in capsys.readouterr().err
    assert step.main(["attention", "64", "half"]) == 2 and "full or causal, not half" in capsys.readouterr().err
