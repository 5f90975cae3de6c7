# SPDX-License-Identifier: Apache-2.0
"""Machine code: read without a GPU, classified, mapped to CUDA lines, and counted inside natural loops."""
import subprocess

import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.runtime.compile import assemble
from hopperlab.runtime.sass import sass as room
from hopperlab.runtime.sass.loops import loops


@pytest.fixture(scope="module")
def specialized():
    return hl.sass("gemm/warp_specialized.cu", "gemm", ("-DSTAGES=4",))


def test_every_mnemonic_has_one_class():
    words = [word for part in room.KINDS.values() for word in part.split()]
    assert len(words) == len(set(words))
    assert set(room.HOPPER) <= set(room.KINDS)


@pytest.mark.parametrize("path, opcodes", [
    ("gemm/warp_specialized.cu", {"HGMMA", "UTMALDG", "SYNCS", "WARPGROUP", "USETMAXREG"}),
    ("gemm/mma_multistage.cu", {"LDGSTS", "LDGDEPBAR", "LDSM", "HMMA"}),
    ("gemm/final.cu", {"UTMASTG", "HGMMA", "STSM", "MEMBAR"}),
    ("copy/bulk_copy.cu", {"UBLKCP"})])
@pytest.mark.sampled(every=2)
def test_hoppers_instructions_are_found_and_highlighted(path, opcodes):
    code = hl.sass(path)
    marked = {i.opcode.split(".")[0] for i in code.instructions if i.highlighted}
    assert opcodes <= marked
    assert not {i.opcode for i in code.instructions if i.kind == "other"}, "a mnemonic that the table lacks"


def test_the_main_loop_holds_the_products_and_its_counts_are_of_the_loop_only(specialized):
    inside = [specialized.instructions[i] for i in specialized.main_loop]
    counts = specialized.counts()
    assert counts["tensor core"] == 4 and counts["wait for the tensor core"] >= 1 and counts["mbarrier"] >= 2
    assert sum(counts.values()) == len(inside) < len(specialized.instructions)
    assert "copy by TMA" not in counts, "the producer's loop is another one"
    assert specialized.counts(None)["copy by TMA"] == 2 and specialized.counts(0) == specialized.counts(specialized.loops.index(specialized.loops[0]))


def test_instructions_name_the_line_of_the_kernels_own_file(specialized):
    rows = hl.kernel_source("gemm/warp_specialized.cu").split("\n")
    products = [i for i in specialized.instructions if i.kind == "tensor core"]
    named = {rows[i.line - 1] for i in products}
    assert all(i.file == "warp_specialized.cu" for i in products) and any("wgmma_m64n128k16_bf16" in row for row in named)
    loads = [i for i in specialized.instructions if i.opcode.startswith("UTMALDG")]
    assert all("cp_async_bulk_tensor" in rows[i.line - 1] for i in loads) and specialized.of_line(loads[0].line)


def test_a_module_a_kernel_and_a_cubin_give_the_same(tmp_path, specialized):
    kernel = hl.load_kernel("gemm/warp_specialized.cu", "gemm", ("-DSTAGES=4",), backend="emulator")
    path = tmp_path / "kernel.cubin"
    path.write_bytes(kernel.module.cubin)
    assert str(hl.sass(kernel)) == str(hl.sass(kernel.module)) == str(hl.sass(path)) == str(specialized)


def test_several_kernels_ask_which_and_a_template_is_named_as_written():
    code = "template <int N> __global__ void k(int* a) { a[threadIdx.x] = N; }"
    module = hl.RawModule(code=code, backend="emulator", name_expressions=("k<1>", "k<2>"))
    with pytest.raises(hl.KernelNotFound, match="several kernels"):
        hl.sass(module)
    assert hl.sass(module, "k<2>").instructions
    with pytest.raises(hl.KernelNotFound):
        hl.sass(module, "k<3>")


def test_a_missing_disassembler_names_the_command(monkeypatch):
    monkeypatch.setattr(room.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(room.shutil, "which", lambda name: None)
    monkeypatch.setattr(room.Path, "is_file", lambda self: False)
    with pytest.raises(hl.ToolchainError, match="pip install -c constraints.txt nvidia-cuda-nvdisasm"):
        room.find_nvdisasm()


def test_ptx_alone_and_a_damaged_cubin_are_explained(tmp_path, monkeypatch):
    """PTX alone where there is no ptxas."""
    monkeypatch.setattr(assemble, "ptxas", lambda: None)
    ptx = hl.load_kernel("copy/bulk_copy.cu", "bulk_copy", backend="emulator").module.ptx
    with pytest.raises(hl.ToolchainError, match="no machine code"):
        hl.sass(hl.RawModule(ptx=ptx, backend="emulator"))
    broken = tmp_path / "broken.cubin"
    broken.write_bytes(b"not a cubin")
    with pytest.raises(hl.ToolchainError, match="nvdisasm refused"):
        hl.sass(broken)


def test_no_gpu_is_asked_for():
    import sys
    code = "import sys, hopperlab as hl; hl.sass('copy/bulk_copy.cu'); print('cupy' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120 * PATIENCE, check=True)
    assert done.stdout.strip() == "False False"


BRA, EXIT, ADD = ("", "BRA", "`(.L_x_0)"), ("", "EXIT", ""), ("", "IADD3", "R0, R1")


@pytest.mark.parametrize("code, labels, expected", [
    ([ADD, ADD, ("@P0", "BRA", "`(.L_x_0)"), EXIT], {".L_x_0": 1}, [(1, 2)]),
    ([ADD, ADD, EXIT], {".L_x_0": 1}, []),
    # The slow path of a wait, put behind the end: part of the loop that it returns to, and what lies between is not.
    ([ADD, ADD, ("@P0", "BRA", "`(.L_x_1)"), ("@P1", "BRA", "`(.L_x_0)"), EXIT, ADD, ADD, ("", "BRA", "`(.L_x_2)")],
     {".L_x_0": 1, ".L_x_1": 6, ".L_x_2": 3}, [(1, 2, 3, 6, 7)]),
    # nested: two headers
    ([ADD, ADD, ("@P0", "BRA", "`(.L_x_1)"), ("@P1", "BRA", "`(.L_x_0)"), EXIT], {".L_x_0": 0, ".L_x_1": 1}, [(0, 1, 2, 3), (1, 2)]),
    # a forward branch is no loop, nor is the endless loop of padding behind the end that nothing reaches
    ([("@P0", "BRA", "`(.L_x_0)"), ADD, EXIT, ("", "BRA", "`(.L_x_1)")], {".L_x_0": 2, ".L_x_1": 3}, []),
    # uniform branches state their condition among the operands
    ([ADD, ("", "BRA.U", "UP0, `(.L_x_0)"), EXIT], {".L_x_0": 0}, [(0, 1)]),
])
def test_natural_loops(code, labels, expected):
    assert list(loops(code, labels)) == expected
