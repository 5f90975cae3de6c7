# SPDX-License-Identifier: Apache-2.0
"""Rules about a program as it is written: what may need a loaded number, and which constant follows from which."""
import pytest

import hopperlab as hl
from hopperlab.checking import written

PROGRAM = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry kernel() {{
.reg .f32 %f<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
{}
ret;
}}"""
LOADED = "ld.global.f32 %f1, [%rd1];\n"
USES = {
    "stored to global memory": LOADED + "st.volatile.global.f32 [%rd2], %f1;",
    "stored to a local array": LOADED + "st.local.v2.f32 [%rd2], {%f1, %f1};",
    "computes": LOADED + "add.f32 %f2, %f1, %f3;", "asks": LOADED + "setp.gt.f32 %p1, %f1, 0f00000000;", "passes on": LOADED + "shfl.sync.idx.b32 %r1, %f1, 0, 31, -1;",
    "through a copy": LOADED + "mov.f32 %f2, %f1;\nneg.f32 %f3, %f2;", "of a vector": "ld.global.v2.f32 {%f1, %f2}, [%rd1];\nneg.f32 %f3, %f2;",
    "by the read-only path, in inline PTX": "{ .reg .pred p; @p ld.global.nc.f32 %f1, [%rd1]; }\nneg.f32 %f3, %f1;",
    "where it may have been loaded": "@%p1 ld.global.f32 %f1, [%rd1];\nneg.f32 %f3, %f1;",
    "in the next turn of a loop": "$L1:\nneg.f32 %f2, %f1;\nld.global.f32 %f1, [%rd1];\n@%p1 bra $L1;",
    "behind a jump": LOADED + "@%p1 bra $L1;\nmov.f32 %f1, 0f00000000;\n$L1:\nneg.f32 %f2, %f1;",
}
FREE = {
    "put down": LOADED + "st.shared.f32 [%rd2], %f1;", "put down as a vector": "ld.global.v2.f32 {%f1, %f2}, [%rd1];\nst.shared.v2.f32 [%rd2], {%f1, %f2};",
    "overwritten": LOADED + "st.shared.f32 [%rd2], %f1;\nmov.f32 %f1, 0f00000000;\nneg.f32 %f2, %f1;",
    "used before": "neg.f32 %f2, %f1;\n" + LOADED, "an address": "ld.global.b64 %rd3, [%rd1];\n" + "ld.shared.f32 %f2, [%rd3];\nneg.f32 %f3, %f2;",
    "put down by a generic address": LOADED + "st.f32 [%rd2], %f1;",
    "never reached": LOADED + "bra.uni $L1;\nneg.f32 %f2, %f1;\n$L1:",
}


@pytest.mark.parametrize("ptx", USES.values(), ids=USES)
def test_whoever_needs_a_loaded_number_is_named(ptx):
    assert "computes with a number that was loaded" in written.only_put_down("", PROGRAM.format(ptx))


@pytest.mark.parametrize("ptx", FREE.values(), ids=FREE)
def test_what_only_puts_it_down_is_taken(ptx):
    assert written.only_put_down("", PROGRAM.format(ptx)) == ""


@pytest.mark.parametrize("text, follows", [
    ("constexpr int TAKES = 240;", False), ("constexpr int TAKES = 200 + 40;      // GIVES", False), ("#define TAKES 240\n", False), ("enum { TAKES = 240 };", False),
    ("constexpr int TAKES = (504 - GIVES) / 2;", True), ("constexpr int POOL = 504 - GIVES, TAKES = POOL / 2;", True), ("#define TAKES ((504 - GIVES) / 2)\n", True),
    ("enum { TAKES = most(384, 2, GIVES) };", True), ("enum Of { A = 1, TAKES = eight((A + half(GIVES)) / 2), B };", True), ("int TAKES = f(2), B = f(GIVES);", False),
    ("constexpr int TAKES{half(504 - GIVES)};", True), ("constexpr int OTHER = 240;", True)])
def test_a_constant_follows_from_another(text, follows):
    assert (written.follows_from("TAKES", "GIVES")(text, "") == "") == follows


TAKES = """
constexpr int GIVES = 24;                   // GIVES = 24 as it stood
constexpr int TAKES = {};
extern "C" __global__ void __launch_bounds__(384, 1) kernel(float* out) {{
    if (threadIdx.x < 128) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(GIVES));
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(TAKES));
    out[threadIdx.x] = TAKES;
}}"""
RULE = written.changes_with("GIVES", {24: 240, 32: 232, 64: 216}, "setmaxnreg.inc", "the others take {} registers")


@pytest.mark.parametrize("takes, said", [
    ("(504 - GIVES) / 2 / 8 * 8", ""), ("240 + 0 * GIVES", "with GIVES = 32 the others take 240 registers, and each should take 232"),
    ("264 - GIVES", "with GIVES = 64 the others take 200 registers, and each should take 216"),
    ("GIVES == 24 ? 240 : 232", "with GIVES = 64 the others take 232 registers"),
    ("232", "with GIVES = 24 the others take 232 registers, and each should take 240"), ("11 * GIVES - 24", "with GIVES = 32 it does not compile any more")])
def test_an_operand_follows_when_the_program_is_compiled_with_another_constant(takes, said):
    text = TAKES.format(takes)
    found = RULE(text, hl.RawModule(code=text, backend="emulator").ptx)
    assert found.startswith(said) and bool(found) == bool(said)


def test_a_constant_that_is_no_longer_there_is_missed():
    assert "GIVES = 24 is not defined as it stood" in RULE("constexpr int GIVES = 12 + 12;   // GIVES = 24", "")
