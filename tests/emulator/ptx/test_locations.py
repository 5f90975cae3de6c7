# SPDX-License-Identifier: Apache-2.0
"""Source positions, inlining chains and readable C++ names."""

import pytest

from hopperlab.emulator.ptx.ir import Site
from hopperlab.emulator.ptx.names import readable_name

DEBUG = """
.file 1 "dir/k.cu"
.file 2 "in//clude.cuh", 1234, 99
.section .debug_str
{
$L__info_string0:
.b8 95,90,53,111,117,116,101,114,102,0
$L__info_string1:
.b8 95,90,78,52,104,112,112
.b8 114,53,105,110,110,101,114,69,118,0
}
"""


def sites(module, body):
    return [i.site for i in module(f".entry k() {{\n{body}\n}}\n{DEBUG}").functions["k"].body]


def test_file_table(module):
    assert module(DEBUG).files == {1: "dir/k.cu", 2: "in//clude.cuh"}


def test_no_location_without_loc(module):
    assert module(".entry k() { ret; }").functions["k"].body[0].site is None


def test_plain_location_holds_until_the_next(module):
    a, b, c = sites(module, ".loc 1 5 3\nbar.sync 0; bar.sync 1;\n.loc 2 7 0\nret;")
    assert a is b and a == Site("dir/k.cu", 5, 3, "k", None)
    assert c == Site("in//clude.cuh", 7, 0, "k", None)
    assert c.outermost is c and c.chain == (c,)


def test_inlining_chain_is_nested_from_single_levels(module):
    (site,) = sites(
        module,
        ".loc 1 30 3\n.loc 1 13 3, function_name $L__info_string0, inlined_at 1 30 3\n"
        ".loc 2 9 5, function_name $L__info_string1, inlined_at 1 13 3\nret;",
    )
    assert [(s.file, s.line, s.function) for s in site.chain] == [
        ("dir/k.cu", 30, "k"), ("dir/k.cu", 13, "outer"), ("in//clude.cuh", 9, "hppr::inner"),
    ]  # fmt: skip
    assert site.outermost.line == 30 and site.outermost.inlined_at is None


def test_the_latest_statement_of_a_call_site_counts(module):
    call = ".loc 1 {0} 3\n.loc 1 9 5, function_name $L__info_string0, inlined_at 1 {0} 3\n"
    inner = ".loc 2 4 1, function_name $L__info_string1, inlined_at 1 9 5\nbar.sync 0;\n"
    first, second = sites(module, call.format(20) + inner + call.format(21) + inner)
    assert (first.outermost.line, second.outermost.line) == (20, 21)


def test_call_site_that_was_never_stated(module):
    (site,) = sites(module, ".loc 2 9 5, function_name .debug_str+10, inlined_at 1 13 3\nret;")
    assert site.function == "hppr::inner"
    assert site.inlined_at == Site("dir/k.cu", 13, 3, None, None)


def test_a_file_that_nobody_declares_has_its_number(module):
    """ptxas takes it too, and warns."""
    assert sites(module, ".loc 9 5 1\nret;")[0] == Site("<file 9>", 5, 1, "k", None)


def test_call_sites_of_another_function_do_not_count(module):
    text = """.func f() { .loc 1 9 5, function_name $L__info_string0, inlined_at 1 30 3\nret; }
    .entry k() { .loc 2 4 1, function_name $L__info_string1, inlined_at 1 9 5\nret; }"""
    site = module(text + DEBUG).functions["k"].body[0].site
    assert site.inlined_at == Site("dir/k.cu", 9, 5, None, None)


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        ("gemm", "gemm"),
        ("_Z5mwaitjj", "mwait"),
        ("_ZL4wait", "wait"),
        ("_Z4foldILi3EfEvPT0_", "fold"),
        ("_ZNK9hopperlab3Foo3midEf", "hopperlab::Foo::mid"),
        ("_ZN9hopperlab5innerILi3EEEff", "hopperlab::inner"),
        ("_ZN34_INTERNAL_00000000_4_k_cu_f91a318e22__nv_cvt_double_to_fp8Ed", "__nv_cvt_double_to_fp8"),
        ("_ZN12_GLOBAL__N_14waitEv", "wait"),
        ("_ZN3FooC1Ef", "Foo::Foo"),
        ("_ZN3FooIiED2Ev", "Foo::~Foo"),
        ("_ZNK3FooclEii", "Foo::operator()"),
        ("_ZN2hl1fIA6_NS_1XENS_1YILNS_1eE2EEEEEvv", "hl::f"),
        ("_ZNSt3maxEv", "std::max"),
        ("_ZN2hl1gIXadL_Z3foovEEEEvv", "_ZN2hl1gIXadL_Z3foovEEEEvv"),
        ("_ZN3Foo", "_ZN3Foo"),
        ("_Z9short", "_Z9short"),
        ("_Z", "_Z"),
    ],
)
def test_readable_names(mangled, readable):
    assert readable_name(mangled) == readable
