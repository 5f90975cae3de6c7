# SPDX-License-Identifier: Apache-2.0
"""Variables, initialisers, parameters, function headers and aliases."""

import struct

import pytest

from hopperlab.emulator.ptx.ir import PtxSyntaxError, Relocation


def variable(module, text, name="v"):
    return module(text).variables[name]


def test_header_fields(module):
    parsed = module(".entry k() { ret; }")
    assert (parsed.version, parsed.target, parsed.address_size) == ((9, 0), "sm_90a", 64)


def test_plain_variables(module):
    v = variable(module, ".global .align 16 .b8 v[300];")
    assert (v.space, v.type, v.count, v.align, v.size, v.init) == ("global", "b8", 300, 16, 300, None)
    v = variable(module, ".visible .const .f64 v;")
    assert (v.space, v.count, v.align, v.size, v.linkage, v.is_array) == ("const", 1, 8, 8, "visible", False)
    v = variable(module, ".shared .v4 .f32 v[2][3];")
    assert (v.count, v.vector, v.align, v.size) == (6, 4, 16, 96)


def test_unsized_extern_shared(module):
    v = variable(module, ".extern .shared .align 1024 .b8 v[];")
    assert (v.linkage, v.count, v.align, v.size, v.is_array) == ("extern", None, 1024, 0, True)


def test_several_names_and_attributes(module):
    parsed = module(".global .attribute(.managed) .u32 x = 7, v[2] = {1}, z;")
    assert parsed.variables["x"].init == struct.pack("<I", 7)
    assert parsed.variables["v"].init == struct.pack("<2I", 1, 0)
    assert parsed.variables["z"].init is None


@pytest.mark.parametrize(
    ("declaration", "data"),
    [
        (".b8 v[6] = {1, 2, 255, -1}", bytes([1, 2, 255, 255, 0, 0])),
        (".u8 v[] = {72, 105, 0}", b"Hi\0"),
        (".u16 v[2] = {0x1234, 5}", struct.pack("<2H", 0x1234, 5)),
        (".s32 v = -2", struct.pack("<i", -2)),
        (".f32 v[2] = {0f3F800000, 2.5}", struct.pack("<2f", 1.0, 2.5)),
        (".f64 v = 0d4000000000000000", struct.pack("<d", 2.0)),
        (".f32 v[2][3] = {{1.0, 2.0}, {3.0}}", struct.pack("<6f", 1, 2, 0, 3, 0, 0)),
        (".v2 .u32 v[2] = {{1, 2}, {3, 4}}", struct.pack("<4I", 1, 2, 3, 4)),
        (".u32 v[2][2][2] = {{{1}, {2, 3}}, {{4}}}", struct.pack("<8I", 1, 0, 2, 3, 4, 0, 0, 0)),
        ('.b8 v[4] = "ab"', b"ab\0\0"),
        (".b64 v = 1 << 40", struct.pack("<Q", 1 << 40)),
    ],
)
def test_initialisers(module, declaration, data):
    v = variable(module, f".global {declaration};")
    assert v.init == data
    assert v.size == len(data)


def test_initialisers_with_addresses(module):
    parsed = module(
        ".global .b8 a[8]; .func f() { ret; }\n"
        ".global .u64 v[4] = {7, generic(a)+8, f, a-4};\n.global .u8 m[4] = {0xFF00(a), 1};"
    )
    assert parsed.variables["v"].init == [
        struct.pack("<Q", 7), Relocation("a", 8, 8, True), Relocation("f"), Relocation("a", -4),
    ]  # fmt: skip
    assert parsed.variables["m"].init == [Relocation("a", 0, 1, False, 0xFF00), b"\1\0\0"]


def test_too_many_values(module):
    with pytest.raises(PtxSyntaxError, match="3 initial values for 2 elements"):
        module(".global .u32 v[2] = {1, 2, 3};")


def test_parameters(module):
    text = """.visible .entry k(
    .param .align 64 .b8 map[128],
    .param .u64 .ptr .global .align 16 p,
    .param .f32 x
) { ret; }"""
    function = module(text).functions["k"]
    tensor_map, pointer, scalar = function.params
    assert (tensor_map.size, tensor_map.align, tensor_map.is_array) == (128, 64, True)
    assert (pointer.is_pointer, pointer.pointer_space, pointer.pointer_align, pointer.size) == (True, "global", 16, 8)
    assert (scalar.type, scalar.size, scalar.is_pointer) == ("f32", 4, False)
    assert function.is_entry and function.linkage == "visible" and function.defined


def test_functions_declared_then_defined(module):
    parsed = module(
        ".func (.param .b32 r) f (.param .b32 x) ;\n.extern .func g (.param .b64 y) .noreturn;\n"
        ".weak .func (.param .b32 r) f (.param .b32 x) { .reg .b32 t; ld.param.b32 t, [x]; st.param.b32 [r], t; ret; }"
    )
    f, g = parsed.functions["f"], parsed.functions["g"]
    assert f.defined and not f.is_entry and len(f.body) == 3 and f.linkage == "weak" and f.ret[0].name == "r"
    assert not g.defined and g.directives == {"noreturn": True}
    assert parsed.kernels == {}


def test_register_parameters(module):
    function = module(".func (.reg .b32 r) f (.reg .b32 x) { add.s32 r, x, 1; ret; }").functions["f"]
    assert function.registers == {"r": "b32", "x": "b32"}


def test_alias(module):
    parsed = module(".func f() { ret; } .visible .func g(); .alias g, f; .entry k() { call g; ret; }")
    assert parsed.functions["g"] is parsed.functions["f"]
    assert parsed.functions["k"].body[0].operands[0].name == "f"


def test_demoted_and_nested_variables(module):
    function = module(
        ".entry k() { .shared .align 8 .b64 bar; .local .align 16 .b8 buffer[64]; .reg .b64 %rd<2>;\n"
        "mov.u64 %rd0, bar; { .shared .b32 bar; st.shared.b32 [bar], 1; } ret; }"
    ).functions["k"]
    assert [(v.name, v.space, v.size) for v in function.variables] == [
        ("bar", "shared", 8), ("buffer", "local", 64), ("bar.1", "shared", 4),
    ]  # fmt: skip
    assert function.body[0].operands[1].name == "bar"
    assert function.body[1].operands[0].base.name == "bar.1"


def test_sections_and_targets_are_skipped(module):
    parsed = module('.section .debug_info { .b8 1,2 \n .b32 x }\n.target sm_90a, debug\n.pragma "a;b"; .entry k() { ret; }')
    assert parsed.target == "sm_90a" and "k" in parsed.functions
