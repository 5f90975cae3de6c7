# SPDX-License-Identifier: Apache-2.0
"""Statements and operands: every way of writing PTX that compilers and people use."""

import math
import random

import pytest

from hopperlab.emulator.ptx.ir import (
    Addr,
    Imm,
    Label,
    Not,
    PredPair,
    PtxSyntaxError,
    Reg,
    Sink,
    Special,
    Sym,
    TensorAddr,
    Vec,
)  # fmt: skip
from hopperlab.emulator.ptx.parser import parse

WAIT = """
    // begin inline asm
    {
.reg .pred P;
W:
mbarrier.try_wait.parity.shared::cta.b64 P,[%r1],%r2;
@P bra D;
bra W;
D:
}

    // end inline asm
"""


def r(n):
    return Reg(f"%r{n}", "b32")


def test_plain_instruction(one):
    instr = one("  add.s32 \t%r1, %r2 ,-7;")
    assert (instr.op, instr.mods, instr.opcode) == ("add", ("s32",), "add.s32")
    assert instr.operands == (r(1), r(2), Imm(-7, "int", 2**64 - 7))
    assert instr.guard is None and instr.site is None and instr.index == 0


def test_guards(one):
    assert one("@p mov.u32 %r1, 1;").guard == (Reg("p", "pred"), False)
    assert one("@!%p1 bra.uni L; L:").guard == (Reg("%p1", "pred"), True)
    assert one("@ ! p ret;").guard == (Reg("p", "pred"), True)


def test_line_numbers_survive_comments_and_several_statements_a_line(module):
    text = (
        ".entry k() { .reg .b32 a; /* three\nlines\nhere; } */ mov.u32 a, 1; mov.u32 a, 2; // x; }\n"
        "\n\nL: mov.u32 a,\n 3; ret; }"
    )
    body = module(text).functions["k"].body
    assert [i.ptx_line for i in body] == [6, 6, 9, 10]
    assert [i.index for i in body] == [0, 1, 2, 3]


def test_repeated_asm_blocks_get_their_own_labels_and_registers(kernel):
    function = kernel(WAIT * 3)
    waits = [i for i in function.body if i.op == "mbarrier"]
    assert len({i.operands[0].name for i in waits}) == 3
    assert all(i.operands[0].type == "pred" for i in waits)
    assert len(function.labels) == 6
    for at in range(0, 9, 3):
        wait, leave, back = function.body[at : at + 3]
        assert leave.guard[0] == wait.operands[0]
        assert function.labels[back.operands[0].name] == wait.index
        assert function.labels[leave.operands[0].name] == back.index + 1


def test_inner_names_hide_outer_ones_and_end_with_their_block(kernel):
    function = kernel(
        ".reg .b32 x; mov.b32 x, 1; { .reg .b64 x; mov.b64 x, 2; { mov.b64 x, 3; } } mov.b32 x, 4; { mov.b32 x, 5; }"
    )
    registers = [i.operands[0] for i in function.body[:5]]
    assert [g.type for g in registers] == ["b32", "b64", "b64", "b32", "b32"]
    assert registers[0] == registers[3] == registers[4] and registers[1] == registers[2] != registers[0]
    assert function.registers[registers[1].name] == "b64"


def test_a_name_used_before_it_is_hidden_in_the_same_block(kernel):
    function = kernel(".reg .b32 x; { mov.b32 x, 1; .reg .b64 x; mov.b64 x, 2; }")
    assert [i.operands[0].type for i in function.body[:2]] == ["b32", "b64"]


def test_branch_from_a_block_to_an_outer_label_before_and_behind(kernel):
    function = kernel("TOP: { @p bra TOP; { bra END; } } END: ret;")
    assert function.labels[function.body[0].operands[0].name] == 0
    assert function.labels[function.body[1].operands[0].name] == 2


def test_labels_share_a_line_with_instructions_and_each_other(kernel):
    function = kernel("A: B : mov.u32 %r1, 1; $L__BB0_1:mov.u32 %r1, 2; bra A; C: bra B; bra C;")
    assert function.labels == {"A": 0, "B": 0, "$L__BB0_1": 1, "C": 3}


def test_label_at_the_very_end(module):
    function = module(".entry k() { .reg .pred p; @p bra E; ret; E: }").functions["k"]
    assert function.labels["E"] == len(function.body) == 2


@pytest.mark.parametrize(
    ("text", "value", "bits"),
    [
        ("0x1F", 31, 31),
        ("0x80000000U", 2**31, 2**31),
        ("017", 15, 15),
        ("0b101", 5, 5),
        ("0", 0, 0),
        ("-1", -1, 2**64 - 1),
        ("18446744073709551615U", 2**64 - 1, 2**64 - 1),
        ("-(2+3)*4", -20, 2**64 - 20),
        ("1<<4|3", 19, 19),
        ("~0", -1, 2**64 - 1),
        ("-7/2", -3, 2**64 - 3),
        ("-7%4", -3, 2**64 - 3),
        ("7 > 3 ? 10 : 20", 10, 10),
        ("!5", 0, 0),
        ("(.s64) 0xFFFFFFFFFFFFFFFF", -1, 2**64 - 1),
        ("WARP_SZ", 32, 32),
        ("1 + /* two */ 2", 3, 3),
    ],
)
def test_integer_constants(one, text, value, bits):
    assert one(f"mov.b64 %rd1, {text};").operands[1] == Imm(value, "int", bits)


def test_float_constants_keep_their_bits(one):
    assert one("mov.f32 %f1, 0f3F800000;").operands[1] == Imm(1.0, "f32", 0x3F800000)
    assert one("mov.f64 %rd1, 0dC000000000000000;").operands[1] == Imm(-2.0, "f64", 0xC000000000000000)
    nan = one("mov.f32 %f1, 0F7FC00001;").operands[1]
    assert math.isnan(nan.value) and nan.bits == 0x7FC00001
    for text, value in (("1.5", 1.5), (".5", 0.5), ("2.", 2.0), ("1e3", 1000.0), ("-2.5e-1", -0.25)):
        assert one(f"mov.f32 %f1, {text};").operands[1].value == value


def test_addresses(one):
    base = Reg("%rd1", "b64")
    for text, offset in (("[%rd1]", 0), ("[%rd1+512]", 512), ("[ %rd1 + 8 ]", 8), ("[%rd1+-4]", -4), ("[%rd1+2*4]", 8)):
        assert one(f"ld.global.u32 %r1, {text};").operands[1] == Addr(base, offset)
    assert one("ld.param.u64 %rd1, [a+8];").operands[1] == Addr(Sym("a"), 8)
    assert one("ld.local.u32 %r1, [16];").operands[1] == Addr(Imm(16, "int", 16), 0)


def test_symbols_with_offset_and_subscript(one):
    top = ".shared .align 8 .b64 bars[4];"
    assert one("mov.u64 %rd1, bars;", top=top).operands[1] == Sym("bars")
    assert one("mov.u64 %rd1, bars+16;", top=top).operands[1] == Addr(Sym("bars"), 16)
    assert one("mov.u64 %rd1, bars[2];", top=top).operands[1] == Addr(Sym("bars"), 16)


def test_tensor_address_with_offsets_mask_and_policy(one):
    instr = one(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%r1],[%rd7,{%r2,%r3, -1}],[%r4+8],{%rs1},%rs2,%rd2;"
    )
    assert instr.mods[:4] == ("async", "bulk", "tensor", "3d") and "mbarrier::complete_tx::bytes" in instr.mods
    minus = Imm(-1, "int", 2**64 - 1)
    assert instr.operands[0] == Addr(r(1))
    assert instr.operands[1] == TensorAddr(Reg("%rd7", "b64"), 0, (r(2), r(3), minus))
    assert instr.operands[3] == Vec((Reg("%rs1", "b16"),))


def test_vectors_sinks_pairs_and_negation(one):
    assert one("ld.global.v2.b32 {%r1,_}, [%rd1];").operands[0] == Vec((r(1), Sink()))
    assert one("elect.sync _|p, %r1;").operands[0] == PredPair(Sink(), Reg("p", "pred"))
    assert one("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;").operands[0] == PredPair(r(1), Reg("%p1", "pred"))
    assert one("setp.lt.and.s32 p | q, %r1, %r2, !%p1;").operands[0] == PredPair(Reg("p", "pred"), Reg("q", "pred"))
    assert one("selp.b32 %r1, 1, 0, !p;").operands[3] == Not(Reg("p", "pred"))
    assert one("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;").operands[0] == Sink()


def test_special_registers(one):
    for name in ("%tid.x", "%ntid.z", "%cluster_ctarank", "%cluster_ctaid.y", "%clock64", "%globaltimer", "%laneid",
                 "%lanemask_lt", "%is_explicit_cluster", "%dynamic_smem_size", "%smid"):  # fmt: skip
        assert one(f"mov.u32 %r1, {name};").operands[1] == Special(name)


def test_vector_registers(kernel):
    function = kernel(".reg .v4 .f32 acc; ld.global.v4.f32 acc, [%rd1]; add.f32 %f1, acc.x, acc.w;")
    lanes = function.body[0].operands[0].items
    assert [lane.name for lane in lanes] == ["acc.x", "acc.y", "acc.z", "acc.w"]
    assert function.body[1].srcs() == (lanes[0], lanes[3])


def test_registers_without_percent_and_ranges(kernel):
    function = kernel(".reg .b32 rx, n<3>; mov.u32 rx, n2; .reg .pred %px<2>; @%px1 mov.u32 n0, rx;")
    assert function.body[0].operands == (Reg("rx", "b32"), Reg("n2", "b32"))
    assert {"n0", "n1", "n2", "%px0", "%px1"} <= function.registers.keys() and "n3" not in function.registers


def test_asm_with_everything_on_one_line(kernel):
    function = kernel(
        "{ .reg .pred %px; .reg .b32 %rx; elect.sync %rx|%px, %r1; @%px mov.s32 %r2, 1; mov.s32 %r3, %rx; }\n"
        "{  cvt.rn.bf16.f32 %rs1, %f1;}\n"
    )
    assert [i.op for i in function.body] == ["elect", "mov", "mov", "cvt", "ret"]


def test_calls(kernel):
    top = ".extern .func (.param .b32 r) f (.param .b64 x, .param .b32 y); .extern .func g;"
    function = kernel(
        "{ // callseq 0, 0\n.reg .b32 temp_param_reg;\n.param .b64 param0; st.param.b64 [param0+0], %rd1;\n"
        ".param .b32 param1; .param .b32 retval0;\ncall.uni (retval0), \nf, \n(\nparam0, \nparam1\n);\n"
        "ld.param.b32 %r1, [retval0+0]; } // callseq 0\n{ .param .b32 retval0; call g; }\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);\n"
        "call (%r1), %rd2, (%rd3, 5), proto;",
        top=top,
    )
    calls = [i for i in function.body if i.op == "call"]
    assert calls[0].operands == (Vec((Sym("retval0.1"),)), Sym("f"), Vec((Sym("param0.1"), Sym("param1.1"))))
    assert calls[1].operands == (Sym("g"),)
    assert calls[2].operands[3] == Label("proto") and calls[2].dsts() == (r(1),)
    assert [v.size for v in function.prototypes["proto"].params] == [8, 4] and "proto" not in function.labels
    assert [v.name for v in function.variables] == ["param0.1", "param1.1", "retval0.1", "retval0.2"]


def test_branch_tables(module):
    text = """.entry k() { .reg .b32 i;
    ts: .branchtargets A, B, A;
    brx.idx.uni i, ts;
    A: ret;
    { B: brx.idx i, tt; tt: .branchtargets B, C; }
    C: ret; }"""
    parsed = module(text.replace("{ B:", "B: {"))
    function = parsed.functions["k"]
    assert function.branch_targets == {"ts": ("A", "B", "A"), "tt.1": ("B", "C")}
    assert function.body[2].operands[1] == Label("tt.1")
    assert parsed.branch_targets["k", "ts"] == ("A", "B", "A")
    assert "ts" not in function.labels


def test_pragmas_and_directives(kernel):
    directives = ".maxntid 384, 1, 1 .minnctapersm 1\n.explicitcluster .reqnctapercluster 2, 1, 1\n.maxnreg 168\n"
    directives += '.pragma "x";'
    function = kernel('L: .pragma "nounroll"; bra L;', directives=directives)
    assert function.directives == {
        "maxntid": (384, 1, 1), "minnctapersm": 1, "explicitcluster": True, "reqnctapercluster": (2, 1, 1), "maxnreg": 168,
    }  # fmt: skip
    assert function.pragmas == ["x", "nounroll"]
    assert kernel("", directives=".reqntid 64 .maxclusterrank 8").directives == {"reqntid": (64, 1, 1), "maxclusterrank": 8}


@pytest.mark.parametrize(
    ("body", "offending", "message"),
    [
        ("mov.u32 %r99, 1;", "%r99", "not declared"),
        ("bra NOWHERE;", "NOWHERE", "label not defined"),
        ("{ HIDDEN: } bra HIDDEN;", "HIDDEN", "label not defined"),
        ("@missing ret;", "missing", "not a declared register"),
        ("L: L: bra L;", "L", "defined twice"),
        (".reg .b32 %r1;", "%r1", "declared twice"),
        ("mov.u32 %r1 %r2;", "%r1 %r2", "malformed operand"),
        ("mov.u32 %r1, %r2,;", "", "malformed operand"),
        ("mov.u32 %r1, {%r2;", "%r1, {%r2", "bracket"),
        ("mov.u32 %r1, 08;", "08", "malformed operand"),
        ("ld.global.u32 %r1, [%rd1+%r2];", "[%rd1+%r2]", "malformed operand"),
        ("ld.global.u32 %r1, [%rd1;", "[%rd1", "malformed"),
        ("mov.u32 %r1, %tid.q;", "%tid.q", "not declared"),
        ("mov.u32 %r1, %%tid.x;", "%%tid.x", "write one '%'"),
        ("mov.u32 %r1, %r2\nmov.u32 %r3, 1;", "%r2 mov.u32 %r3", "';' missing"),
        ("MOV.u32 %r1, 1;", "MOV.u32 %r1, 1", "not a PTX statement"),
        ("mov..u32 %r1, 1;", "mov..u32", "malformed opcode"),
        (".bogus 3;", ".bogus", "unknown directive"),
        (".branchtargets A;", ".branchtargets", "a label must stand before"),
        ("L: brx.idx %r1, L;", "brx.idx", "no .branchtargets table"),
        ("t: .branchtargets t; bra t;", "bra", "no label to branch to"),
        ("setp.eq.s32 p|5, %r1, %r2;", "p|5", "both sides"),
    ],
)
def test_errors_name_line_and_text(kernel, body, offending, message):
    with pytest.raises(PtxSyntaxError) as caught:
        kernel("\n" + body)
    assert caught.value.offending == offending
    assert message in str(caught.value)
    assert caught.value.line == 10


def test_errors_at_module_level(module):
    for text, message in (
        ("nonsense", "unknown module-level"),
        (".entry k() { ret;", "'}' is missing"),
        (".global .u32 x = {1;", "malformed"),
        (".global .q32 x;", "unknown word"),
        (".entry k() .fast 3 { ret; }", "unknown function directive"),
    ):
        with pytest.raises(PtxSyntaxError, match=message) as caught:
            module(text)
        assert caught.value.line >= 4
    with pytest.raises(PtxSyntaxError, match="no PTX"):
        parse("")


def test_damaged_text_gives_syntax_errors_only(kernel):
    body = (
        WAIT + "setp.lt.and.s32 p|q, %r1, %r2, !%p1; L: @!p bra L; mov.f32 %f1, 0f3F800000; mov.b64 %rd1, {%r1, 4*(2+1)};\n"
        "ld.global.v2.b32 {%r1,_}, [t+8]; tt: .branchtargets L, L; brx.idx %r1, tt; { .param .b64 x[2]; call f, (x, x); }\n"
    )
    top = ".global .align 8 .u64 t[3] = {1, generic(f)+4, 0xFF(f)}; .func f(.param .b64 a, .param .b64 b) .noreturn;\n"
    top += '.file 1 "a"'
    text = (
        f".version 9.0\n.target sm_90a\n{top}\n.entry k() .maxntid 1, 2, 3 {{ .reg .pred %p<3>, p, q; .reg .b32 %r<4>;"
        f".reg .f32 %f<2>; .reg .b64 %rd<3>;\n.loc 1 2 3, function_name a+1, inlined_at 1 2 3\n{body} ret; }}"
    )
    parse(text)
    rng = random.Random(16)
    outcomes = set()
    for _ in range(3000):
        at = rng.randrange(len(text))
        new = rng.choice("{}[]();,:.@!%_\"|+-<>=/*07aA \n") * rng.randrange(2)
        damaged = text[:at] + new + text[at + rng.randrange(4) :]
        try:
            parse(damaged)
            outcomes.add("parsed")
        except PtxSyntaxError as error:
            outcomes.add("refused")
            assert 1 <= error.line <= damaged.count("\n") + 2
    assert outcomes == {"parsed", "refused"}
