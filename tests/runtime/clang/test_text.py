# SPDX-License-Identifier: Apache-2.0
"""What is done to clang's texts: statements found in C++, annotations and copies in LLVM IR, line tables and types in PTX."""
import pytest

from hopperlab.runtime.compile.clang import compiler, ir, lines, types
from hopperlab.runtime.compile.clang.statements import Statements

SOURCE = """#define LONG one \\
    two
void f() {
    // a comment; with a semicolon
    asm volatile("x %0, (%1);"
                 :: "r"(a), "r"(g(b)),
                    "r"(c) : "memory");
    asm volatile("bar; "
                 ::: "memory");
    int x = 3 +
            g(4);
    for (int i = 0; i < 3;
         i++)
        h(i,
          2);
    if (x)
        h("a;b", ';',
          x);
    else k(
        1);
    MEET
    out[0] =
        x;
}
MACRO_ONE(a, 1)
MACRO_TWO(b, 2)
"""


@pytest.mark.parametrize("line, column, named", [
    (5, 5, 7), (8, 5, 8), (10, 9, 10), (11, 13, 10), (12, 10, 12), (12, 21, 12), (13, 10, 13), (14, 9, 14), (15, 11, 14), (17, 9, 17), (18, 11, 17), (20, 9, 19),
    (23, 9, 22), (26, 1, 26), (25, 1, 25), (0, 5, 0), (99, 1, 99), (10, 0, 10)])
def test_a_position_is_brought_to_the_line_that_nvrtc_names(line, column, named):
    assert Statements(SOURCE).line_of(line, column) == named


def test_a_chain_of_calls_is_stated_as_ptx_states_it():
    ptx = ('\t.loc\t2 2 3                           // inc/b.cuh:2:3 @[ inc/c.cuh:5:1 @[ k.cu:1:1 ] ]\n\t.loc\t1 3 1                           // '
           'k.cu:3:1\n\t.file\t1 "/" "k.cu"\n\t.file\t2 "inc" "b.cuh"\n')
    functions = {"inc/b.cuh": [(1, "first"), (2, "second"), (9, "third")], "inc/c.cuh": [(4, "outer")]}
    stated = lines.LineTable(functions, lambda path: "").stated(ptx)
    assert ("\t.loc\t1 1 1\n\t.loc\t3 5 1, function_name $L__info_string0, inlined_at 1 1 1\n\t.loc\t2 2 3, function_name $L__info_string1, inlined_at 3 5 "
            "1\n\t.loc\t1 3 1\n") in stated
    assert '.file\t1 "k.cu"' in stated and '.file\t2 "inc/b.cuh"' in stated and '.file\t3 "inc/c.cuh"' in stated
    assert "$L__info_string1:\n.b8 " + ",".join(str(byte) for byte in b"second\0") in stated


def test_annotations_become_attributes_and_copies_one_access():
    text = """@.str = private unnamed_addr constant [18 x i8] c"hopperlab.cluster\\00", section "llvm.metadata"
@.file = private unnamed_addr constant [5 x i8] c"b.cu\\00", section "llvm.metadata"
@.args = private unnamed_addr constant { i32, i32 } { i32 3, i32 2 }, section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [{ ptr, ptr, ptr, i32, ptr } { ptr @k, ptr @.str, ptr @.file, i32 7, ptr @.args }], section "llvm.metadata"
define dso_local ptx_kernel void @k(ptr noundef %a) #0 !dbg !7 {
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %x, ptr align 1 %y, i64 16, i1 false), !dbg !9
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %x, ptr align 4 %y, i64 16, i1 false), !dbg !9
  store float %f, ptr %p, align 1, !dbg !9
  store i8 %b, ptr %p, align 1, !dbg !9
}
"""
    changed, lowered = ir.finished(text, ())
    assert '@k(ptr noundef %a) #0 "nvvm.cluster_dim"="3,2,1" !dbg !7 {' in changed and lowered == {}
    assert "load <4 x i32>, ptr %y, align 16, !dbg !9" in changed and ", ptr %x, align 16, !dbg !9" in changed
    assert changed.count("llvm.memcpy") == 1 and "store float %f, ptr %p, align 4" in changed and "store i8 %b, ptr %p, align 1" in changed


def test_accesses_are_typed_by_who_uses_the_register():
    body = """$L__func_begin0:
\tld.shared.v2.b32 \t{%r1, %r2}, [%r9];
\tadd.f32 \t%r3, %r1, %r2;
\tmov.b32 \t%r4, %r3;
\tst.global.b32 \t[%rd1], %r4;
\tst.global.b32 \t[%rd1], %r7;
\tcvt.rn.f32.s32 \t%r5, %r6;
\tst.shared.b32 \t[%r5], %r6;
\tld.b16 \t%rs1, [%rd1];
\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r10, %r11}, %rd7, %rd8, p, 1, 1;
\tst.b32 \t[%rd1], %r11;
\tst.v2.b32 \t[%rd1], {%r20, 0f3F800000};
\tst.v2.b32 \t[%rd1+8], {%r20, 1};
\tst.v2.b32 \t[%rd1], {%r11, 1};
$L__func_end0:
"""
    typed = types.named(body)
    assert [line.split()[0] for line in typed.splitlines() if line.lstrip().startswith(("ld", "st"))] == [
        "ld.shared.v2.f32", "st.global.f32", "st.global.u32", "st.shared.u32", "ld.u16", "st.f32", "st.v2.f32", "st.v2.u32", "st.v2.b32"]


def test_nvrtcs_options_in_clangs_words():
    assert compiler._clang_options(["--define-macro=X=1", "-lineinfo", "--std=c++20", "-DY", "--pre-include=a.h", "--ptxas-options=-v", "-maxrregcount=64"]) == [
        "-DX=1", "-std=c++20", "-DY", "-include", "a.h"]


@pytest.mark.parametrize("code, escaped", [('asm("mov.u32 %0, %laneid;" : "=r"(x));', 'asm("mov.u32 %0, %%laneid;" : "=r"(x));'),
                                           ('asm("%%clock64 %tid.x")', 'asm("%%clock64 %%tid.x")'),
                                           ("a %laneid", "a %laneid"), ('printf("%d %s")', 'printf("%d %s")')])
def test_special_registers_in_strings_are_escaped(code, escaped):
    assert compiler.escaped(code) == escaped
