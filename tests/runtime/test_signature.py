# SPDX-License-Identifier: Apache-2.0
"""Reading kernel signatures out of PTX text."""
import hopperlab as hl
import pytest

from hopperlab.runtime.compile.signature import read_signatures

PTX = """
.version 9.0
.target sm_90a
// .entry commented(.param .u32 x)
.extern .shared .align 16 .b8 sm[];
.visible .entry gemm(
	.param .align 64 .b8 gemm_param_0[128],
	.param .u64 .ptr .global .align 16 gemm_param_1,
	.param .u32 gemm_param_2,
	.param .f32 gemm_param_3,
	.param .align 2 .b8 gemm_param_4[2],
	.param .u8 gemm_param_5
)
.explicitcluster
.reqnctapercluster 2, 1, 1
.maxntid 384, 1, 1
.minnctapersm 1
{
	ret;
}
.weak .entry _Z4taddIfEvPT_()
.reqntid 128
{ ret; }
.func helper(.param .b32 p) { ret; }
"""


def test_sizes_alignment_and_types():
    gemm = read_signatures(PTX)["gemm"]
    assert [(p.size, p.align, p.type) for p in gemm.parameters] == [
        (128, 64, "b8"), (8, 8, "u64"), (4, 4, "u32"), (4, 4, "f32"), (2, 2, "b8"), (1, 1, "u8")]


def test_launch_bounds_and_clusters():
    found = read_signatures(PTX)
    assert list(found) == ["gemm", "_Z4taddIfEvPT_"], "only kernels, and no comments"
    assert (found["gemm"].max_threads, found["gemm"].cluster) == (384, (2, 1, 1))
    assert found["_Z4taddIfEvPT_"].required_block == (128, 1, 1)
    assert found["_Z4taddIfEvPT_"].parameters == ()


def test_an_unknown_parameter_form_is_an_error_that_shows_it():
    with pytest.raises(ValueError, match="texref strange"):
        read_signatures(".entry f(.param .texref strange) { ret; }")


@pytest.mark.parametrize("directive", [".reqntid 0", ".maxntid -1", ".reqnctapercluster 0", ".maxntid 0, 1", ".maxnreg 0", ".minnctapersm -1"])
def test_impossible_bounds_are_left_to_the_parser(directive):
    """It refuses them with their line; no launch is judged by them before."""
    found = read_signatures(f".entry k() {directive} {{ ret; }}")["k"]
    assert (found.max_threads, found.required_block, found.cluster) == (None, None, None)
    module = hl.RawModule(ptx=f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {directive} {{ ret; }}", backend="emulator")
    with pytest.raises(hl.EmulatorError, match="PTX line 4"):
        module.get_function("k")((1,), (32,))
