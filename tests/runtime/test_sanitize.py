# SPDX-License-Identifier: Apache-2.0
"""`hopperlab sanitize`: findings once each, exit codes, arguments, JSON, foreign PTX."""
import json
import subprocess
import sys

import pytest
from support.patience import PATIENCE

from hopperlab import cli
from hopperlab.runtime import sanitize

HEAD = """
import sys
import numpy as np
import hopperlab as hl
x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
"""
COPY = HEAD + '''
SOURCE = r"""
#include <hopperlab/cp_async.cuh>
extern "C" __global__ void copy(const float4* in, float4* out) {
    __shared__ float4 tile[64];
    cp_async_cg_16(&tile[threadIdx.x], &in[threadIdx.x]);
    cp_async_commit_group();
    WAIT
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}"""
kernel = hl.RawModule(code=SOURCE.replace("WAIT", WAIT), name="copy.cu").get_function("copy")
for _ in range(3):
    kernel((1,), (64,), (x, y))
print("done", *sys.argv[1:])
'''
GOOD = COPY.replace("SOURCE =", 'WAIT = "cp_async_wait_group<0>();"\nSOURCE =', 1)
BAD = COPY.replace("SOURCE =", 'WAIT = ""\nSOURCE =', 1)
PTX = HEAD + '''
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
.shared .align 4 .b8 s[256];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, s;
add.u32 %r4, %r3, %r2;
st.shared.u32 [%r4], %r1;
xor.b32 %r4, %r4, 128;
ld.shared.u32 %r5, [%r4];
cvt.u64.u32 %rd2, %r2;
add.u64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r5;
ret;
}"""
hl.RawModule(ptx=TEXT, name="theirs.ptx").get_function("k")((1,), (64,), (y,))
'''


def write(folder, text, name="script.py"):
    path = folder / name
    path.write_text(text)
    return str(path)


def command(*words):
    return subprocess.run([sys.executable, "-m", "hopperlab", "sanitize", *words], capture_output=True, text=True, timeout=120 * PATIENCE)


def test_a_clean_script_is_0_and_its_output_shows_once(tmp_path):
    done = command(write(tmp_path, GOOD), "one", "--two", "--seeds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("done one --two") == 1
    assert done.stdout.endswith("hopperlab sanitize: clean in 3 launches under lazy, eager, random(0)\n")


def test_a_finding_is_1_told_once_with_its_schedules(tmp_path):
    report = tmp_path / "found.json"
    done = command("--schedules", "lazy,random", "--seeds=2", write(tmp_path, BAD), "--json", str(report))
    assert done.returncode == 1
    assert done.stdout.count("read-before-arrival: ") == 1 and "schedules: lazy, random(0), random(1)" in done.stdout
    data = json.loads(report.read_text())
    assert data["exit_code"] == 1 and [f["kind"] for f in data["findings"]] == ["read-before-arrival"]
    assert data["findings"][0]["where"] == "copy.cu:9" and data["findings"][0]["other"] == "copy.cu:5"
    assert [r["launches"] for r in data["runs"]] == [3, 3, 3]


def test_foreign_ptx_works(tmp_path):
    report = sanitize.sanitize([write(tmp_path, PTX)], ["lazy"])
    assert report.exit_code == 1 and {f.kind for f in report.findings} == {"race"}
    assert "PTX line 15" in str(report)


@pytest.mark.parametrize("text, why", [("raise RuntimeError('mine')", "RuntimeError: mine"), ("import sys; sys.exit(3)", "SystemExit: 3"),
                                       ("x = 1", "no kernel was launched"), ("import os; os._exit(9)", "ended with code 9")])
@pytest.mark.sampled(every=3)
def test_a_script_that_fails_is_2_and_says_why(tmp_path, text, why):
    report = sanitize.sanitize([write(tmp_path, text)], ["lazy"])
    assert report.exit_code == 2 and why in str(report)
    assert "runpy" not in str(report)


def test_findings_win_over_a_failure_of_the_script(tmp_path):
    report = sanitize.sanitize([write(tmp_path, BAD + "\nassert (x == y).all()\n")], ["lazy"])
    assert report.exit_code == 1 and "AssertionError" in str(report)


def test_sessions_of_the_script_run_under_the_asked_schedule_and_never_raise(tmp_path):
    text = BAD.replace("for _ in range(3):\n    kernel", "with hl.emulate(schedule='eager', hazards='raise') as run:\n    kernel")
    text += "\nprint(run.schedule, len(run.hazards))\n"
    done = command(write(tmp_path, text), "--schedules", "lazy")
    assert done.returncode == 1 and "lazy 1" in done.stdout


def test_launches_of_other_threads_and_of_run_isolated_are_watched(tmp_path):
    started = "import threading\nt = threading.Thread(target=lambda: kernel((1,), (64,), (x, y)))\nt.start()\nt.join()\n"
    for launch in (started, "hl.run_isolated(kernel, (1,), (64,), (x, y))\n"):
        text = BAD.replace("for _ in range(3):\n    kernel((1,), (64,), (x, y))\n", launch)
        report = sanitize.sanitize([write(tmp_path, text)], ["lazy"])
        assert report.exit_code == 1 and report.runs[0].launches == 1, str(report)


def test_modules_run_too(tmp_path, monkeypatch):
    write(tmp_path, GOOD, "of_mine.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = sanitize.sanitize(["of_mine", "x"], ["lazy"], module=True)
    assert report.exit_code == 0, str(report)


def test_help_and_wrong_lines(tmp_path, capsys):
    text = command("--help").stdout
    for word in ("--schedules", "--seeds", "--json", "Exit code 0: clean; 1: findings; 2"):
        assert word in " ".join(text.split())
    with pytest.raises(SystemExit) as end:
        cli.main(["sanitize", str(tmp_path / "absent.py")])
    assert end.value.code == 2 and "there is no script" in capsys.readouterr().err
    assert cli.main(["sanitize", write(tmp_path, GOOD), "--schedules", "late"]) == 2
    assert "choose from lazy, eager" in capsys.readouterr().err


def test_the_plan_names_each_run_once():
    assert sanitize.plan(["lazy", "random", "lazy"], 2) == [("lazy", 0), ("random", 0), ("random", 1)]
    assert sanitize.plan(sanitize.SCHEDULES, 1)[-1] == ("random", 0)


def test_warnings_are_told_and_are_no_findings(tmp_path):
    text = HEAD + '''
code = 'extern "C" __global__ void k(int* y) { y[threadIdx.x / 2] = threadIdx.x; }'
hl.RawModule(code=code).get_function("k")((1,), (32,), (np.zeros(32, np.int32),))
'''
    script = tmp_path / "script.py"
    script.write_text(text)
    report = sanitize.sanitize([str(script)], ["lazy"])
    assert report.exit_code == 0 and [f.severity for f in report.findings] == ["warning"]
    assert "clean, 1 warning in 1 launch" in str(report) and "race (warning)" in str(report)


SEVERAL = HEAD + '''
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("how", choices=["meet", "stick"])
given = parser.parse_args()
CODE = r"""
extern "C" __global__ void first(float* y) { y[threadIdx.x] = 1.0f; }
extern "C" __global__ void second(float* y, int stick) {
    asm volatile("bar.sync 1, %0;" :: "r"(stick ? 2 * blockDim.x : blockDim.x) : "memory");
    y[threadIdx.x] += 1.0f;
}"""
module = hl.RawModule(code=CODE, name="two.cu")
module.get_function("first")((1,), (given.threads,), (y,))
try:
    module.get_function("second")((1,), (given.threads,), (y, np.int32(given.how == "stick")))
finally:
    print("done")
'''


def test_arguments_several_kernels_and_a_deadlock(tmp_path):
    script = tmp_path / "several.py"
    script.write_text(SEVERAL)
    clean = sanitize.sanitize([str(script), "--threads", "64", "meet"], ["lazy"])
    assert clean.exit_code == 0 and clean.runs[0].launches == 2 and not clean.findings
    stuck = sanitize.sanitize([str(script), "--threads=64", "stick"], ["lazy", "eager"])
    assert stuck.exit_code == 1 and [f.kind for f in stuck.findings] == ["deadlock"]
    assert stuck.findings[0].where == "two.cu:4" and stuck.findings[0].schedules == ["lazy", "eager"]
    wrong = sanitize.sanitize([str(script), "--threads", "64"], ["lazy"])
    assert wrong.exit_code == 2 and "SystemExit: 2" in str(wrong)


RING = '''
import numpy as np, hopperlab as hl
kernel = hl.RawModule(code=r"""
#include <hopperlab/tma.cuh>
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ __align__(16) float slot[32];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncwarp();
    for (int i = 0; i < 3; i++) {
        if (threadIdx.x == 0) { mbarrier_arrive_expect_tx(&full, 128); cp_async_bulk_load(slot, x + 32 * i, 128, &full); }
        mbarrier_wait_parity(&full, i & 1);
        y[32 * i + threadIdx.x] = slot[threadIdx.x];
        __syncwarp();
    }
}""", backend="emulator").get_function("k")
kernel((1,), (32,), (np.ones(96, np.float32), np.zeros(96, np.float32)))
'''


@pytest.mark.parametrize("level, code, severity", [("error", 1, ["error"]), ("warning", 0, ["warning"]), ("off", 0, [])])
@pytest.mark.sampled(every=2)
def test_a_kind_that_can_be_switched(tmp_path, level, code, severity):
    report = sanitize.sanitize([write(tmp_path, RING)], ["lazy"], levels=f"unfenced-overwrite={level}")
    assert report.exit_code == code and [f.severity for f in report.findings] == severity
    assert all(f.kind == "unfenced-overwrite" for f in report.findings)


def test_levels_that_do_not_exist(tmp_path):
    for levels in ("race=off", "unfenced-overwrite=loud", "unfenced-overwrite"):
        with pytest.raises(ValueError, match="hazard level"):
            sanitize.sanitize([write(tmp_path, RING)], ["lazy"], levels=levels)
