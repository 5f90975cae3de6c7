# SPDX-License-Identifier: Apache-2.0
"""Which operands an instruction takes: wrong counts, kinds, classes, widths and constants are refused with a line and a reason, whatever the instruction."""
import pytest
from emulator.coverage import run as coverage
from emulator.coverage.kernel import text
from hopperlab import emulator
from hopperlab.emulator.ptx.instructions import INSTRUCTIONS, KINDS, REFUSED
from hopperlab.emulator.ptx.parser import parse

WRONG = [
    ("add.s32 5, %r2, %r3;", "an integer constant"), ("add.s32 %r1;", "its operands are a register"), ("add.s32;", "not none"),
    ("add.s32 %r1, %r2, %r3, %r4;", "its operands are"),
    ("mov.u32 %tid.x, %r1;", "a special register"), ("mov.u32 %tid.x;", "its operands are"), ("mov.u32 %r1;", "its operands are"),
    ("mov.u32 %r1, %clock64;", "is no .u32"),
    ("cp.async.wait_group %r1;", "an integer constant"), ("cp.async.bulk.wait_group %r1;", "an integer constant"),
    ("wgmma.wait_group.sync.aligned %r1;", "an integer constant"),
    ("cp.async.wait_group -1;", "not negative"), ("cp.async.ca.shared.global [%r1], [%d8], 5;", "4, 8 or 16 bytes"),
    ("cp.async.cg.shared.global [%r1], [%d8], 8;", "16 bytes"),
    ("lop3.b32 %r1, %r2, %r3, %r4, 999;", "0 to 255"), ("lop3.b32 %r1, %r2, %r3, %r4, %r5;", "an integer constant"), ("setp.eq.u32 %r1, %r2, %r3;", "a predicate"),
    ("selp.b32 %r1, %r2, %r3, %r4;", "a predicate"), ("add.u32 %p1, %r2, %r3;", "a register"), ("add.u32 %d1, %r2, %r3;", "32 bits are needed"),
    ("add.u64 %d1, %r2, %d3;", "64 bits are needed"),
    ("add.f32 %r1, %r2, 1;", "1 is no float"), ("add.u32 %r1, %r2, 0f3F800000;", "is no integer"), ("ld.global.u32 %r1, %d8;", "an address"),
    ("ld.global.u32 %r1, [%r1], %d8;", "an address"),
    ("ld.global.v2.u32 %r1, [%ga];", "1 registers for 2 elements"), ("ld.global.v4.u32 {%r1, %r2}, [%ga];", "2 registers for 4"),
    ("st.global.u32 [%ga];", "its operands are"),
    ("ld.global.u32 %r1, [%p8];", "holds no address"), ("bar.sync 0f3F800000;", "a floating-point constant"), ("bar.sync;", "its operands are"),
    ("bar.purple 0;", "purple"),
    ("shfl.sync.b32 %r1, %r2, 1, 31, -1;", "the form is"), ("shfl.sync.bfly.b32 %r1|%r2, %r3, 1, 31, -1;", "a predicate is needed"),
    ("vote.sync.all.b32 %p1, %p8, -1;", "gives a"),
    ("mbarrier.init.shared.b64 [%mb];", "its operands are"), ("mbarrier.b64 [%mb];", "no such form"), ("bra %r1;", "label"), ("bra;", "no label"),
    ("call %r1x;", "declared"), ("cvta.to;", "its operands"),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%ma];", "2 registers for 4"), ("mov.b64 {%r1, %r2, %r3}, %d8;", "a vector of 3"),
    ("mad.lo.s32 %r1, %r2, {%r3, %r4}, %r5;", "a vector"),
    ("mov.u64 %d1, 18446744073709551616;", "malformed operand"), ("mov.u64 %d1, 99999999999999999999;", "malformed operand"),
    ("mov.f64 %d1, 1e400;", "malformed operand"),
    (".reg .b32 %z<1000000000>;", "more than"), (".shared .align 3 .b8 z[4];", "power of two"), (".shared .align 0 .b8 z[4];", "power of two"),
    (".shared .pred z;", "registers only"),
    (".shared .b8 z[99999999999999];", "bytes"), (".reg .texref z;", "do not have this type"), ("@%r1 add.s32 %r1, %r2, %r3;", "a predicate is needed"),
    ("frobnicate %r1;", "not implemented"),
    ("mov.u32 %r1, " + "(" * 5000 + "1" + ")" * 5000 + ";", "malformed"), ("mov.u32 %r1, ~1e30;", "malformed operand"), ("alloca.u64 %d1, 8, 3;", "power of two"),
    ("bar.sync 17;", "barriers 0 to 15, not 17"), ("bar.sync -1;", "barriers 0 to 15"), ("barrier.cta.sync.aligned 16, 64;", "barriers 0 to 15"),
    ("bar.arrive 99, 64;", "barriers 0 to 15"),
    ("bar.red.popc.u32 %r1, 16, %p8;", "barriers 0 to 15"), ("barrier.cta.red.and.pred %p1, -2, 64, %p8;", "barriers 0 to 15"),
]


@pytest.mark.parametrize("line, reason", WRONG, ids=[line[:50] for line, _ in WRONG])
def test_wrong_operands_are_refused_with_the_reason(line, reason):
    with pytest.raises(emulator.EmulatorError, match=reason) as caught:
        emulator.Program(text({"k": [line]}, bare=True)[0]).translation("k")
    assert "PTX line" in str(caught.value)


@pytest.mark.parametrize("line", ["bar.sync 15;", "bar.warp.sync -1;", "bar.warp.sync 0xffff0000;", "bar.arrive 0, 64;", "bar.red.popc.u32 %r1, 15, 64, %p8;",
                                  "barrier.cta.sync %r1;"])
def test_barriers_that_there_are(line):
    emulator.Program(text({"k": [line]}, bare=True)[0]).translation("k")


@pytest.mark.parametrize("directive", [".reqnctapercluster 0", ".maxntid 0, 1", ".reqntid 128, 0, 1", ".reqnctapercluster 99999999999999999999", ".maxntid -1",
                                       ".reqntid 0", ".reqntid 8, -4", ".maxntid", ".maxnreg 0", ".minnctapersm -1",
                                       ".maxnreg " + "9" * 5000])
def test_sizes_of_a_kernel_are_at_least_one(directive):
    with pytest.raises(emulator.EmulatorError, match="PTX line 4: .*at least 1"):
        parse(f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {directive} {{ ret; }}")


def test_rows_can_be_read_and_every_form_of_one_can_be_reached():
    for name, row in INSTRUCTIONS.items():
        for n, (words, operands) in enumerate(row.forms):
            assert all(letter[0] in KINDS and letter[1:] in ("", "?") for letter in operands.split()), (name, operands)
            assert not [before for before, _ in row.forms[:n] if before <= words], f"{name}: an earlier form hides {set(words)}"
            assert row.words is None or words <= row.words, f"{name}: {set(words - row.words)} would be refused"
        assert all(row.words is None or row.words.issuperset(words.split()) for words, *_ in row.ranges), name


def families() -> dict[str, str]:
    """One accepted form of each shape of words, by instruction."""
    found = {}
    for where, form in coverage.table():
        if where == "sm_90a" and form.count(";") == 1 and not form.startswith("@"):
            found.setdefault((form.split(" ")[0].split(".")[0].rstrip(";"), form.count(".")), form)
    return {f"{name} {dots}": form for (name, dots), form in found.items()}


@pytest.mark.thorough
def test_every_instruction_has_a_row_and_no_word_is_ignored():
    """An unknown word at any place of the opcode is an error; so is an operand too many, and one too few where none may be missing."""
    forms, taken = families(), []
    for form in forms.values():
        opcode, _, rest = form.rstrip(";").partition(" ")
        words = opcode.split(".")
        assert words[0] in INSTRUCTIONS.keys() | REFUSED.keys(), form
        changed = [".".join([*words[:k], "purple", *words[k:]]) + f" {rest};" for k in range(1, len(words) + 1)]
        changed.append(f"{opcode} {rest}{', ' if rest else ''}%r1, %r1, %r1, %r1, %r1, %r1, %r1;")
        for line in changed:
            try:
                emulator.Program(text({"k": [line]}, bare=True)[0]).translation("k")
            except emulator.EmulatorError:
                continue
            taken.append(line)
    assert len(forms) > 200 and not taken, taken
