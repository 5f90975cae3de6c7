# SPDX-License-Identifier: Apache-2.0
"""The whole program of lesson 05: its kernel in the emulator, right and clean; the file itself through nvcc, linked, and started where no GPU is."""
import re
import shutil
import subprocess

import numpy as np
import pytest
from support import nvcc
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.lessons.l05_tma_tiles import whole_program
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.host_code import without_host_code
from hopperlab.runtime.gpu.driver import find_gpu

PATH = whole_program.PATH
FILE = toolchain.KERNELS / PATH
WAIT = "    while (!mbarrier_try_wait_parity(&full, 0)) {}"


def run(x, schedule="lazy", hazards="raise", kernel=None):
    """(sums, session) of one launch in the emulator; the sums start as NaN."""
    sums = np.full_like(x, np.nan)
    with hl.emulate(schedule=schedule, seed=3, hazards=hazards) as session:
        whole_program.launch_program(x, sums, kernel or hl.load_kernel(PATH, "three_rows", backend="emulator"))
    return sums, session


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("rows, columns", [(32, 64), (1, 4), (33, 68), (75, 136)])
def test_sums_are_right_and_nothing_is_reported(rows, columns, schedule):
    x = np.random.default_rng(rows).integers(-9, 10, (rows, columns)).astype(np.float32)
    sums, session = run(x, schedule)
    assert (sums == whole_program.three_rows(x)).all() and not session.warnings


def test_its_loads_are_whole_boxes():
    _, session = run(np.ones((75, 136), np.float32))
    assert session.counters["tma_load_bytes"] == 3 * 3 * 34 * 64 * 4


def test_without_the_wait_it_reads_too_early():
    text = hl.kernel_source(PATH)
    assert text.count(WAIT) == 1
    module = hl.RawModule(code=text.replace(WAIT, ""), backend="emulator")
    _, session = run(np.ones((75, 136), np.float32), hazards="collect", kernel=module.get_function("three_rows"))
    assert {hazard.kind for hazard in session.hazards} >= {"read-before-arrival"}


def test_a_learners_copy_loads_as_a_file(tmp_path):
    """RawModule(path=…) leaves the host's part out."""
    shutil.copy(FILE, tmp_path)
    x = np.arange(40 * 72, dtype=np.float32).reshape(40, 72)
    sums, _ = run(x, kernel=hl.RawModule(path=tmp_path / FILE.name, backend="emulator").get_function("three_rows"))
    assert (sums == whole_program.three_rows(x)).all()
    assert "main" not in without_host_code(FILE.read_text())


def test_it_needs_nothing_of_the_course():
    text = hl.kernel_source(PATH)
    assert not [name for name in re.findall(r'#include [<"](.+?)[>"]', text) if "hopperlab" in name]
    assert "cudaGetDriverEntryPoint" in text and '"cuTensorMapEncodeTiled"' in text


def test_nvcc_compiles_and_links_it(tmp_path):
    """By the command of its header, and it names what is missing where there is no Hopper GPU; with one, tests/gpu runs it."""
    command = f"nvcc -arch=sm_90a -o {FILE.stem} {FILE.name}"
    assert command in hl.kernel_source(PATH)
    program = tmp_path / FILE.stem
    nvcc.build(FILE, program)
    if find_gpu() is None:
        done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
        assert done.returncode == 2 and done.stderr.startswith("three_rows: cudaMalloc: "), (done.returncode, done.stdout, done.stderr)


def test_a_call_that_needs_the_drivers_library_would_not_link(tmp_path):
    """What the entry point is for: the same call by name finds no symbol."""
    text = hl.kernel_source(PATH)
    asked = 'reinterpret_cast<Encode>(driver_function("cuTensorMapEncodeTiled"))'
    assert text.count(asked) == 1
    source = tmp_path / "by_name.cu"
    source.write_text(text.replace(asked, "static_cast<Encode>(cuTensorMapEncodeTiled)").replace("static void* driver_function",
            "[[maybe_unused]] static void* driver_function"))
    with pytest.raises(AssertionError, match="undefined reference to `cuTensorMapEncodeTiled'"):
        nvcc.build(source, tmp_path / "by_name")
