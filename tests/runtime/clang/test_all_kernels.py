# SPDX-License-Identifier: Apache-2.0
"""Every kernel file of the course under clang, for the same launches and with what is asynchronous or synchronises at the lines that NVRTC names. What
lessons and exercises edit is compared in tests/notebooks/test_clang.py.
"""
import pytest
from kernels.test_kernels_compile import BUDGETS
from support.two_compilers import differing

from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.clang import compiler
from hopperlab.runtime.compile.nvrtc import Source

pytestmark = pytest.mark.skipif(compiler.program() is None or not toolchain.has_nvrtc(), reason="clang or NVRTC is not installed: pip install -e .[test]")
FIRST = {path: (options, kernels) for path, options, kernels in reversed(BUDGETS)}          # of each file the first set of macros


@pytest.mark.thorough
@pytest.mark.parametrize("path", sorted(FIRST))
def test_a_kernel_compiles_and_its_instructions_stand_where_nvrtc_says(path):
    options, kernels = FIRST[path]
    source = Source(toolchain.read_source(toolchain.KERNELS / path), path, tuple(options), tuple(name for name in kernels if "<" in name))
    assert not differing([source])


def test_no_kernel_is_left_out():
    assert set(FIRST) == {path.relative_to(toolchain.KERNELS).as_posix() for path in toolchain.KERNELS.rglob("*.cu")}
