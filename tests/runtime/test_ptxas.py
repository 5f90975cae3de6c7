# SPDX-License-Identifier: Apache-2.0
"""Reading ptxas's lines."""
import pytest

from hopperlab.runtime.compile import ptxas

LOG = """\
k.cu(4): warning #177-D: variable "i" was declared but never referenced
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'gemm'
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7519) warpgroup.arrive is injected in around line 8 by compiler to allow use of registers in GMMA in function 'gemm'
ptxas info    : 5914 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
ptxas         .     16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 16 bytes cumulative stack size, 1040 bytes smem, 400 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function 'copy' for 'sm_90a'
ptxas info    : Function properties for helper
ptxas         .     96 bytes stack frame, 96 bytes spill stores, 96 bytes spill loads
ptxas info    : Function properties for copy
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


def test_numbers_belong_to_their_kernel():
    info = ptxas.parse(LOG)
    assert list(info) == ["gemm", "copy"]
    use = info["gemm"]
    assert (use.registers, use.stack, use.spill_stores, use.spill_loads) == (168, 16, 12, 8)
    assert (use.static_shared, use.constant, use.barriers) == (1040, 408, 3)
    assert (info["copy"].registers, info["copy"].stack) == (10, 0), "a called function's stack is not the kernel's"


def test_notes_name_the_kernel_and_say_whether_they_are_serious():
    info = ptxas.parse(LOG)
    assert [(n.code, n.kernel, n.serious) for n in info.notes] == [
        ("C7510", "gemm", True), ("C7508", None, True), ("C7519", "gemm", False)]
    assert [n.code for n in info["gemm"].notes] == ["C7510", "C7519"]
    assert "__launch_bounds__" in str(info.notes[1])


def test_a_note_without_a_name_belongs_to_the_only_kernel():
    log = "\n".join(line for line in LOG.splitlines() if "C75" in line or "gemm" in line)
    assert {n.kernel for n in ptxas.parse(log).notes} == {"gemm"}


def test_a_serialised_wgmma_is_serious_under_any_code():
    log = "ptxas info : (C7599) Potential Performance Loss: wgmma.mma_async instructions are serialized due to rain in the function 'f'"
    note, = ptxas.parse(log).notes
    assert note.serious and "waits for the one before" in str(note)


@pytest.mark.parametrize("code, why, advice", [
    ("C7511", "insufficient register resources for the wgmma pipeline", "for want of registers"),
    ("C7512", "insufficient register resources for the function", "for want of registers"),
    ("C7513", "non wgmma instructions defining input registers of a wgmma", "which wait (wgmma.wait_group) covers which fragments of A"),
    ("C7514", "non wgmma instructions reading accumulator registers of a wgmma", "which wait (wgmma.wait_group) covers which accumulators"),
    ("C7518", "program dependence on compiler-inserted WG.DP in divergent path", "where the whole warpgroup comes by"),
    ("C7599", "rain", "take out of the pipeline what the note names")])
def test_a_serialised_wgmma_comes_with_advice_for_its_cause(code, why, advice):
    note, = ptxas.parse(f"ptxas info : ({code}) Potential Performance Loss: wgmma.mma_async instructions are serialized due to {why} in the function 'f'").notes
    assert note.serious and advice in str(note)


def test_the_table_has_one_line_a_kernel_and_aligned_columns():
    lines = str(ptxas.parse(LOG)).splitlines()
    assert lines[0].split() == ["kernel", "registers", "spills", "(bytes)", "static", "shared", "barriers"]
    assert lines[1].split() == ["gemm", "168", "20", "1040", "3"]
    assert len({len(line) for line in lines[:3]}) == 1


def test_the_compilers_own_lines_are_what_remains():
    assert ptxas.without_ptxas(LOG) == 'k.cu(4): warning #177-D: variable "i" was declared but never referenced'
