# SPDX-License-Identifier: Apache-2.0
"""The course's kernels by file and name."""
import pytest

import hopperlab as hl
from hopperlab.runtime.compile.headers import included_files
from hopperlab.runtime.compile.toolchain import KERNELS, read_source


def test_source_text():
    assert "setmaxnreg" in hl.kernel_source("gemm/warp_specialized.cu")
    assert "asm" in hl.kernel_source("include/hopperlab/tma.cuh")


def test_the_licence_line_is_neither_shown_nor_hashed(tmp_path):
    (tmp_path / "own.cuh").write_text("int x;\n")
    before = included_files('#include "own.cuh"', [str(tmp_path)])
    (tmp_path / "own.cuh").write_text("int x;\n// SPDX-License-Identifier: Apache-2.0\n")
    assert read_source(tmp_path / "own.cuh") == "int x;\n"
    assert included_files('#include "own.cuh"', [str(tmp_path)]) == before
    assert not any("SPDX" in hl.kernel_source(path.relative_to(KERNELS).as_posix()) for path in KERNELS.rglob("*.cu*"))


@pytest.mark.parametrize("path", ["gemm/no_such.cu", "../cli.py", "gemm", "/etc/hostname"])
def test_a_file_that_is_not_there(path):
    with pytest.raises(FileNotFoundError, match="there are: .*gemm/warp_specialized.cu"):
        hl.kernel_source(path)


def test_a_kernel_by_name():
    kernel = hl.load_kernel("gemm/warp_specialized.cu", "gemm", backend="emulator")
    assert kernel.name == "gemm" and kernel.num_regs == 168 and kernel.module.name == "gemm/warp_specialized.cu"
    assert not any(note.serious for note in kernel.module.ptxas_info.notes)


def test_the_ptx_is_free_of_this_machines_paths():
    ptx = hl.load_kernel("gemm/warp_specialized.cu", "gemm", backend="emulator").module.ptx
    assert '.file\t1 "gemm/warp_specialized.cu"' in ptx and '"hopperlab/tma.cuh"' in ptx


def test_options():
    four = hl.load_kernel("gemm/warp_specialized.cu", "gemm", ("-DSTAGES=2",), backend="emulator")
    assert four.module.ptx != hl.load_kernel("gemm/warp_specialized.cu", "gemm", backend="emulator").module.ptx
