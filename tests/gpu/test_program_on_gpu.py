# SPDX-License-Identifier: Apache-2.0
"""The whole program of lesson 05, compiled by nvcc, on the GPU: it checks its own result."""
import subprocess

from support import nvcc

from hopperlab.lessons.l05_tma_tiles import whole_program
from hopperlab.runtime.compile import toolchain


def test_every_sum_is_right(tmp_path):
    program = tmp_path / "three_rows"
    nvcc.build(toolchain.KERNELS / whole_program.PATH, program)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0 of 520000 sums are wrong\n"), done.stdout + done.stderr
