# SPDX-License-Identifier: Apache-2.0
"""What # and ## build is seen before an answer is taken, in whatever way its macros are defined; and macros of honest answers are taken."""
import time

import pytest

from hopperlab.checking import check, cuda_text, macros
from hopperlab.checking.cuda_text import NotTaken
from hopperlab.lessons import catalogue

PASTE = "#define J2(a, b) a##b\n#define J(a, b) J2(a, b)\n#define S2(x) #x\n#define S(x) S2(x)\n"
BAD = {
    "pasted _Pragma": ('#define P(x) _Prag##x("nv_diag_suppress 1")\nP(ma)', "_Pragma"),
    "pasted by the course's manner": (PASTE + 'J(_Pra, gma)("nv_exec_check_disable")', "_Pragma"),
    "_Pragma in a macro": ('#define P _Pragma("nv_x")\nP', "_Pragma"),
    "pasted and made a string": (PASTE + "void f() { asm(S(.J(inc, lude) \"x\")); }", "include"),
    "pasted where it is made": ("#define A(x, y) S(.x##y)\n" + PASTE + "void f() { asm(A(inc, lude)); }", "include"),
    "strings that macros bring": ('#define A ".inc"\n#define B "lude"\nvoid f() { asm(A B " x"); }', "include"),
    "two strings side by side": ("#define S(x) #x\nvoid f() { asm(S(.pra) S(gma)); }", "pragma"),
    "a dot and a word": ('#define DOT "."\nvoid f() { asm(DOT "section" " .x"); }', "section"),
    "of any number of arguments": ("#define V(a, ...) #a #__VA_ARGS__\nvoid f() { asm(V(.fi, le)); }", "file"),
    "a name that looks for files": (PASTE + "#if J(__has_, include)(<stdio.h>)\n#endif", "__has_include"),
    "a name that differs from run to run": (PASTE + "const char* x = J(__TI, ME__);", "__TIME__"),
    "in a branch that is not taken here": ("#if 0\n#define P inc\n#else\n#define P q\n#endif\n" + PASTE + "void f() { asm(S(.J(P, lude))); }", "include"),
    "in the other branch": ("#if 0\n#define P q\n#else\n#define P inc\n#endif\n" + PASTE + "void f() { asm(S(.J(P, lude))); }", "include"),
    "spliced lines": (PASTE.replace("J2(a, b) a", "J2(a, \\\nb) a") + "void f() { asm(S(.J(in\\\nc, lude))); }", "include"),
    "the compiler's own mark": ('#define M " inline asm"\nvoid f() { asm("// end" M); }', "inline asm"),
}


@pytest.mark.parametrize("text, says", BAD.values(), ids=BAD)
def test_what_macros_build_is_seen(text, says):
    with pytest.raises(NotTaken, match=says):
        cuda_text.check(text)


@pytest.mark.parametrize("text", [
    PASTE + "void f() { int J(x, 1) = 0; }", '#define REG(t) ".reg ." #t " r;"\nvoid f() { asm(REG(u32)); }',
    "#define LOAD(n, ...) load_##n(__VA_ARGS__)\nvoid g() { LOAD(2d, 1, 2); }",
    '#define UNROLL _Pragma("unroll")\nvoid f() { UNROLL for (;;); }', "#define U(n) _Pragma(#n)\nU(unroll 4)",
    '#define LOG(f, ...) printf(f, ##__VA_ARGS__)\nvoid f() { LOG("x"); LOG("y", 1); }',
    '#define MMA(x) asm volatile("wgmma.mma_async.sync.aligned." x ".f32 %0;")\nvoid f() { MMA("m64n8k16"); }', "#define SELF SELF + 1\nint x = SELF;",
    "#define F(x) x\nint y = F;",
    "#ifdef A\n#define N 1\n#else\n#define N 2\n#endif\nint x = N;", "struct T { int file; };\nint f(T t) { return t.file; }",
    "#define F(file) t.file\nint f(T t) { return F(file); }"])
def test_macros_of_honest_answers_are_taken(text):
    cuda_text.check(text)


@pytest.mark.parametrize("text", [
    "#define A0(x) x x\n" + "".join(f"#define A{i + 1}(x) A{i}(x x)\n" for i in range(40)) + "A40(q)", "#define f(x) x\n" + "f(" * 15_000,
    "#define f(x) x\n" + "f(" * 9_000 + ")" * 9_000,
    "".join(f"#if {i}\n#define M{i} a\n#else\n#define M{i} b\n#endif\n" for i in range(12)), "#define B(x) x B(x x)\n" + "B(q) " * 4000])
def test_macros_without_end_are_bounded(text):
    began = time.process_time()
    try:
        cuda_text.check(text)
    except NotTaken as refused:
        assert "macros" in str(refused)
    assert time.process_time() - began < 30


@pytest.mark.parametrize("text, words", [
    ("#define f(x, y) x + y\nf(1, (2, 3))", "1 + ( 2 , 3 )"), ("#define a b\n#define b a\na b", "a b"),
    ("#define x 1\n#define c(p, q) p ## q\nc(x, 2) c(,3) c(4,)", "x2 3 4"),
    ("#define s(x) #x\ns( a   b ) s(\"q\\n\")", '"a b" "\\"q\\\\n\\""'), ("#define v(...) <__VA_ARGS__>\nv(1, 2) v()", "< 1 , 2 > < >"),
    ("#define o {\n#define e }\no 1 e", "{ 1 }")])
def test_expansion_is_that_of_the_standard(text, words):
    assert list(macros.expanded(text)) == [words.split(" ") if '"' not in words else ['"a b"', '"\\"q\\\\n\\""']]


def test_inline_ptx_is_looked_at_again_as_it_was_compiled(monkeypatch):
    """Should the text deceive the reader, what the compiler made of it does not."""
    asm = 'extern "C" __global__ void fold(float* x, float* y, int n) { asm volatile("INCLUDE \\"/etc/passwd\\"\\n"); }'
    monkeypatch.setattr(cuda_text, "check", lambda text: None)
    monkeypatch.setattr("hopperlab.RawModule", _compiled_as('// begin inline asm\n\t.include "x"\n\t// end inline asm'))
    found = check.judge(catalogue.find("04.2"), f"%%cuda ring\n{asm}")
    assert [finding.step for finding in found.findings] == ["form"] and "PTX directive .include" in str(found)
    for ptx in ('.include "x"', "// begin inline asm\n mov.u32 a, b; .pragma \"x\";\n// end inline asm"):
        with pytest.raises(NotTaken):
            cuda_text.check_ptx(ptx)
    cuda_text.check_ptx('.file 1 "ring.cu"\n.loc 1 2\n.pragma "nounroll";\n// begin inline asm\nld.file_like.x;\n// end inline asm\n.section .debug')


def _compiled_as(ptx):
    class Module:
        def __init__(self, **how):
            self.ptx = ptx
    return Module
