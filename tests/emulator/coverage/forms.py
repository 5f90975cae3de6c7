# SPDX-License-Identifier: Apache-2.0
"""Every instruction form that the coverage table is about, written out as PTX with operands of the right kinds.

`forms()` yields instructions; record.py asks ptxas which of them sm_90a has. Registers: %h b16, %r b32, %d b64, %q b128, %p
predicates; %ga, %sa, %sg, %la, %ca address a place of the thread in global, shared (32 bits), shared (generic), local and
constant memory; %mb is a barrier, %tm a tensor map, %ma one place in shared memory for all threads (record.py has them all).
"""

import re
from itertools import product

from emulator.coverage import copies, matrices
from emulator.isa import h200_cases  # the arithmetic that was compared with an H200

SIZE = {"b8": "h", "u8": "h", "s8": "h", "b16": "h", "u16": "h", "s16": "h", "f16": "h", "bf16": "h", "b32": "r", "u32": "r", "s32": "r", "f32": "r",
        "f16x2": "r", "bf16x2": "r", "b64": "d", "u64": "d", "s64": "d", "f64": "d", "b128": "q"}
SPACES = {"": "%ga", ".global": "%ga", ".shared": "%sa", ".shared::cta": "%sa", ".shared::cluster": "%sa", ".local": "%la"}
SCOPES = (".cta", ".cluster", ".gpu", ".sys")
EVICTIONS = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")


def registers(kind: str, count: int, first: int = 0) -> str:
    """`count` registers that hold `kind`, in braces when there are several."""
    names = [f"%{SIZE[kind]}{first + k}" for k in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}" if count == 2 else f"{{{names[0]}..{names[-1]}}}"


def sources(kind: str, count: int = 1, first: int = 8) -> str:
    """The same from register 8 on, which the test sets."""
    return registers(kind, count, min(first, 2 if SIZE[kind] == "q" else first))


def arithmetic():
    """The cases of h200_cases.py."""
    for opcode, results, operands in h200_cases.all_cases():
        if "+" in opcode:
            continue
        outs, ins = spelled(results, 0, " | "), spelled(operands, 8, ", ")
        yield f"{opcode} {outs}, {ins};"


def plain():
    """Arithmetic with defaults, constants, special operands and spellings that h200_cases.py does not have."""
    for kind in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"):
        yield f"selp.{kind} {registers(kind, 1)}, {sources(kind)}, {sources(kind, 1, 9)}, %p8;"
        yield f"slct.{kind}.s32 {registers(kind, 1)}, {sources(kind)}, {sources(kind, 1, 9)}, %r8;"
        yield f"slct.{kind}.f32 {registers(kind, 1)}, {sources(kind)}, {sources(kind, 1, 9)}, %r8;"
        for op in ("eq", "ne"):
            yield f"setp.{op}.{kind} %p1, {sources(kind)}, {sources(kind, 1, 9)};"
            yield f"setp.{op}.or.{kind} %p1|%p2, {sources(kind)}, {sources(kind, 1, 9)}, !%p8;"
            for target in ("u32", "s32", "f32"):
                yield f"set.{op}.{target}.{kind} %r0, {sources(kind)}, {sources(kind, 1, 9)};"
                yield f"set.{op}.and.{target}.{kind} %r0, {sources(kind)}, {sources(kind, 1, 9)}, !%p8;"
    for op, kind, words in product(("add", "sub", "mul"), ("f32", "f64"), ("", ".ftz", ".sat", ".ftz.sat")):
        yield f"{op}{words}.{kind} {registers(kind, 1)}, {sources(kind)}, {sources(kind, 1, 9)};"
    for kind, words in product(("f32", "f64"), ("", ".rn", ".rz", ".rm", ".rp", ".ftz", ".rn.ftz", ".rn.sat", ".ftz.sat")):
        yield f"mad{words}.{kind} {registers(kind, 1)}, {sources(kind)}, {sources(kind, 1, 9)}, {sources(kind, 1, 10)};"
        yield f"fma{words}.{kind} {registers(kind, 1)}, {sources(kind)}, {sources(kind, 1, 9)}, {sources(kind, 1, 10)};"
    for op, kind in product(("div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"), ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")):
        for words in ("", ".approx", ".approx.ftz", ".full", ".ftz", ".rn"):
            yield f"{op}{words}.{kind} {registers(kind, 1)}, {sources(kind)}{', ' + sources(kind, 1, 9) if op == 'div' else ''};"
    yield from ("add.s32 %r0, %r8, -5;", "add.u64 %d0, %d8, 0xffffffffffffffff;", "and.b32 %r0, %r8, 0xf0f0;", "mul.wide.u16 %r0, %h8, 3;",
                "add.f32 %r0, %r8, 0f3F800000;", "fma.rn.f64 %d0, %d8, 0d4000000000000000, %d9;",
                "add.f16 %h0, %h8, %h9;", "add.f16x2 %r0, %r8, %r9;", "add.bf16 %h0, %h8, %h9;", "mul.bf16x2 %r0, %r8, %r9;", "neg.f16x2 %r0, %r8;",
                "abs.bf16x2 %r0, %r8;", "shl.b32 %r0, %r8, %r9;", "shf.l.clamp.b32 %r0, %r8, %r9, 3;",
                "mov.u32 %r0, WARP_SZ;", "mov.b32 %r0, -1;", "setp.gt.s32 %p1, %r8, -1;", "setp.ne.and.b32 %p1|%p2, %r8, 0, %p8;",
                "setp.lt.f32 _|%p1, %r8, %r9;", "lop3.or.b32 %r0|%p1, %r8, %r9, %r10, 0x80, %p8;", "lop3.b32 %r0, %r8, %r9, %r10, 0xe8;",
                "lop3.and.b32 _|%p1, %r8, %r9, %r10, 0x96, !%p8;", "prmt.b32 %r0, %r8, %r9, 0x5410;", "not.pred %p1, %p8;", "xor.pred %p1, %p8, !%p9;",
                "cvt.u32.u16 %r0, %h8;", "cvt.s64.s32 %d0, %r8;", "cvt.rn.f16.f32 %h0, %r8;",
                "@%p8 add.u32 %r0, %r8, %r9;", "@!%p8 mul.f32 %r0, %r8, %r9;", "@%p8 ld.global.v2.b32 {%r0, %r1}, [%ga];", "@!%p8 st.shared.b64 [%sa], %d8;",
                "@%p8 atom.global.add.u32 %r0, [%ga], 1;", "@%p8 vadd.u32.u32.u32 %r0, %r8, %r9;")


LETTERS = {"h": "h", "r": "r", "d": "d", "f": "r", "F": "d", "p": "p"}


def spelled(spec: str, first: int, between: str) -> str:
    """Operands of a case of h200_cases.py: 'r(rr)#3' becomes '%r8, {%r9, %r10}, 3'."""
    pieces, at = [], first
    for group in h200_cases.GROUP.findall(spec):
        if group[0] == "#":
            pieces.append(group[1:])
            continue
        names = [f"%{LETTERS[letter]}{at + k}" for k, letter in enumerate(h200_cases.letters(group))]
        at += len(names)
        plain = "-" * (group[0] == "-") + names[0] + "".join(re.findall(r"\.[bh]\d+", group))
        vector = f"{names[0]}..{names[-1]}" if len(names) > 2 else ", ".join(names)
        pieces.append("{" + vector + "}" if group[0] == "(" else plain)
    return between.join(pieces)


def moves():
    """mov, cvta, isspacep, mapa, getctarank, special registers."""
    for kind in ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64", "b128"):
        yield f"mov.{kind} {registers(kind, 1)}, {sources(kind)};"
    for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "cluster_nctaid"):
        yield from (f"mov.v4.u32 {{%r0..%r3}}, %{name};", f"mov.v4.u16 {{%h0..%h3}}, %{name};", f"mov.u32 %r0, %{name};", f"mov.u16 %h0, %{name}.y;",
                    f"cvt.u64.u32 %d0, %{name}.x;")
    yield from ("cvt.u16.u32 %h0, %laneid;", "cvt.u32.u64 %r0, %clock64;", "cvt.rn.f32.u32 %r0, %smid;", "add.u32 %r0, %tid.x, 1;", "setp.eq.u32 %p1, %laneid, 0;")
    yield from ("mov.pred %p1, %p8;", "mov.b128 %q0, {%d8, %d9};", "mov.b128 {%d0, %d1}, %q2;", "mov.b32 {%h0, _}, %r8;", "mov.b64 {_, %r1}, %d8;")
    yield from ("mov.u64 %d0, variable;", "mov.u32 %r0, variable_in_shared;", "mov.u64 %d0, variable+8;", "mov.f32 %r0, 0f3F800000;", "mov.f64 %d0, 0d3FF0000000000000;")
    for space, to, kind in product(("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry"), ("", ".to"), ("u32", "u64")):
        yield f"cvta{to}.{space}.{kind} {registers(kind, 1)}, {sources(kind)};"
    for space in ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry"):
        yield f"isspacep.{space} %p1, %d8;"
    for kind, address in (("u32", "%sa"), ("u64", "%sd")):
        yield f"mapa.shared::cluster.{kind} {registers(kind, 1)}, {address}, 0;"
        yield f"getctarank.shared::cluster.{kind} %r0, {address};"
    yield from ("mapa.u64 %d0, %sg, %c0;", "mapa.u32 %r0, %sa, 0;", "getctarank.u64 %r0, %sg;", "mapa.shared::cluster.u32 %r0, variable_in_shared, 0;")
    special = """tid.x tid.y tid.z ntid.x ntid.y ntid.z laneid warpid nwarpid ctaid.x ctaid.y ctaid.z nctaid.x nctaid.y nctaid.z smid nsmid is_explicit_cluster
        clusterid.x clusterid.y clusterid.z nclusterid.x nclusterid.y nclusterid.z cluster_ctaid.x cluster_ctaid.y cluster_ctaid.z cluster_nctaid.x
        cluster_nctaid.y cluster_nctaid.z cluster_ctarank cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi
        pm0 pm1 pm7 reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap reserved_smem_offset_0 reserved_smem_offset_1 total_smem_size
        aggr_smem_size dynamic_smem_size envreg0 envreg31 globaltimer_lo globaltimer_hi gridid"""
    for name in special.split():
        yield "mov.pred %p1, %is_explicit_cluster;" if name == "is_explicit_cluster" else f"mov.u32 %r0, %{name};"
    for name in ("clock64", "globaltimer", "gridid", "pm0_64", "pm7_64", "current_graph_exec"):
        yield f"mov.u64 %d0, %{name};"


def qualified_accesses():
    """ld and st: spaces, types, vectors, caches, orders, scopes, hints."""
    kinds = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "b128")
    for (space, address), kind, count in product(SPACES.items(), kinds, (1, 2, 4)):
        vector = f".v{count}" if count > 1 else ""
        yield f"ld{space}{vector}.{kind} {registers(kind, count)}, [{address}];" if count < 4 or kind != "b128" else "ldu.global.b32 %r0, [%ga];"
        yield f"st{space}{vector}.{kind} [{address}], {sources(kind, count) if kind != 'b128' or count == 1 else '{%q2, %q3}'};"
    for kind in kinds:
        one = registers(kind, 1)
        yield from (f"ld.const.{kind} {one}, [%ca];", f"ld.param.{kind} {one}, [out];", f"ld.global.nc.{kind} {one}, [%ga];", f"ldu.global.{kind} {one}, [%ga];")
    yield from ("ld.param.v2.b32 {%r0, %r1}, [out];", "ld.param::entry.u64 %d0, [out];", "ld.const.v4.u32 {%r0, %r1, %r2, %r3}, [%ca];",
                "ld.global.u32 %r0, [variable+4];",
                "ld.shared.u32 %r0, [variable_in_shared];", "ld.global.v4.b32 {_, %r1, _, _}, [%ga];", "ld.global.v2.u8 {%h0, %h1}, [%ga];")
    for (space, address), op in product(SPACES.items(), ("ld", "st")):
        for cache in ("ca", "cg", "cs", "lu", "cv") if op == "ld" else ("wb", "cg", "cs", "wt"):
            yield access(op, f"{space}.{cache}", address)
        yield access(op, f".weak{space}", address)
        yield access(op, f".volatile{space}", address)
        yield access(op, f".volatile{space}", address, "b64", 2)
        for order, scope in product((".relaxed", ".acquire" if op == "ld" else ".release"), SCOPES):
            yield access(op, order + scope + space, address)
            yield access(op, order + scope + space, address, "b64")
        yield access(op, f".mmio.relaxed.sys{space}", address)
        for first, second, size in product(("", *(f".L1::{e}" for e in EVICTIONS)), ("", ".L2::evict_last", ".L2::evict_first", ".L2::evict_normal"),
                                           ("", ".L2::64B", ".L2::128B", ".L2::256B")):
            if space in ("", ".global") and (first or second or size):
                yield access(op, f"{space}{first}{second}{size}", address)
        yield access(op, f"{space}.L2::cache_hint", address, policy=True)
        yield access(op, f"{space}.L1::evict_last.L2::cache_hint.L2::128B", address, policy=True)
        yield access(op, f"{space}.L1::no_allocate.L2::cache_hint", address, "b32", 4, policy=True)
    for cache, hint in product(("", ".ca", ".cg", ".cs"), ("", ".L1::no_allocate", ".L1::evict_last", ".L2::128B", ".L1::no_allocate.L2::256B")):
        yield f"ld.global{cache}.nc{hint}.v4.f32 {{%r0, %r1, %r2, %r3}}, [%ga];"
    yield "ld.global.nc.L1::no_allocate.L2::cache_hint.v2.b64 {%d0, %d1}, [%ga], %d10;"
    yield from ("ld.relaxed.gpu.global.b128 %q0, [%ga];", "st.release.sys.global.b128 [%ga], %q2;", "ld.acquire.gpu.global.v2.b64 {%d0, %d1}, [%ga];",
                "ld.relaxed.cluster.shared::cluster.v4.b32 {%r0, %r1, %r2, %r3}, [%sa];")
    for kind, count in (("b32", 8), ("f32", 8), ("b64", 4), ("f64", 4)):
        yield access("ld", ".global", "%ga", kind, count)
        yield access("st", ".global", "%ga", kind, count)
        yield access("ld", ".global.L2::evict_last", "%ga", kind, count)


def access(op: str, words: str, address: str, kind: str = "b32", count: int = 1, policy: bool = False) -> str:
    """One ld or st."""
    vector, hint = f".v{count}" if count > 1 else "", ", %d10" if policy else ""
    if op == "ld":
        return f"ld{words}{vector}.{kind} {registers(kind, count)}, [{address}]{hint};"
    return f"st{words}{vector}.{kind} [{address}], {sources(kind, count)}{hint};"


def atomics():
    """atom and red in all operations, types, spaces, orders and scopes."""
    plain = {"exch": ("b32", "b64", "b128", "b16"), "cas": ("b16", "b32", "b64", "b128"), "add": ("u32", "s32", "u64", "s64", "f32", "f64"),
             "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"), "inc": ("u32",), "dec": ("u32",),
             "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64")}
    for (op, kinds), space in product(plain.items(), (".global", ".shared", ".shared::cta", ".shared::cluster", "")):
        for kind in kinds:
            yield from both(op, kind, "", space)
    for op, kind, order, scope, space in product(("add", "exch", "cas"), ("u32", "b32"), ("relaxed", "acquire", "release", "acq_rel"), SCOPES,
                                                 (".global", ".shared", "")):
        if (op == "add") == (kind == "u32"):
            yield from both(op, kind, f".{order}{scope}", space)
    for scope in SCOPES:
        yield from both("add", "u32", scope, ".global")
    for kind, space in product(("f16", "f16x2", "bf16", "bf16x2"), (".global", ".shared", "")):
        yield from both("add.noftz", kind, "", space)
    for kind, count, op in product(("f16", "bf16", "f16x2", "bf16x2", "f32"), (2, 4, 8), ("add", "min", "max")):
        yield from both(op + (".noftz" if kind != "f32" else ""), kind, "", ".global", count)
        yield from both(op, kind, "", ".global", count)
    yield from both("add", "f32", ".relaxed.gpu", ".global", 4)
    yield from both("add.noftz", "bf16x2", ".release.sys", ".global", 2)
    for op, kind in (("add", "u32"), ("cas", "b64"), ("exch", "b128"), ("and", "b32")):
        yield from both(op, kind, "", ".global", policy=True)
    yield from ("atom.global.add.u32 _, [%ga], %r8;", "atom.global.add.f64.L2::cache_hint %d0, [%ga], %d8;", "atom.global.cas.b32 %r0, [%ga+4], 0, 1;")
    for op, kind in (("inc", "u32"), ("dec", "u32"), ("min", "u32"), ("min", "s32"), ("max", "u32"), ("max", "s32"), ("add", "u32"), ("add", "s32"), ("add", "u64"),
                     ("and", "b32"), ("or", "b32"), ("xor", "b32"), ("add", "s64"), ("add", "f32"), ("min", "u64"), ("and", "b64")):
        yield f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}.{kind} [%sa], {sources(kind)}, [%mb];"
    yield "red.async.mmio.release.sys.global.add.u32 [%ga], %r8;"
    for kind, count in product(("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64", "b128"), (1, 2, 4)):
        vector = f".v{count}" if count > 1 else ""
        if kind != "b128" or count == 1:
            yield f"st.async.shared::cluster.mbarrier::complete_tx::bytes{vector}.{kind} [%sa], {sources(kind, count)}, [%mb];"
            yield f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.{kind} [%sa], {sources(kind, count)}, [%mb];"
    yield from ("st.async.mmio.release.sys.global.b32 [%ga], %r8;", "st.bulk.shared::cta [%sa], 16, 0;", "st.bulk.weak.shared::cta [%sa], 16, 0;")


def both(op: str, kind: str, words: str, space: str, count: int = 1, policy: bool = False):
    """atom and red of one operation."""
    address, values = SPACES[space], sources(kind, count)
    if op == "cas":
        values += ", " + ("%q3" if kind == "b128" else sources(kind, count, 9))
    vector, hint = f".v{count}" if count > 1 else "", (".L2::cache_hint", ", %d10") if policy else ("", "")
    yield f"atom{words}{space}.{op}{hint[0]}{vector}.{kind} {registers(kind, count)}, [{address}], {values}{hint[1]};"
    if op not in ("exch", "cas"):
        yield f"red{words}{space}.{op}{hint[0]}{vector}.{kind} [{address}], {values}{hint[1]};"


def warps():
    """Between the lanes of a warp, and the barriers of a CTA and a cluster."""
    for mode in ("up", "down", "bfly", "idx"):
        yield f"shfl.sync.{mode}.b32 %r0, %r8, 1, 31, 0xffffffff;"
        yield f"shfl.sync.{mode}.b32 %r0|%p1, %r8, %r9, %r10, 0xffffffff;"
    for mode in ("all", "any", "uni"):
        yield f"vote.sync.{mode}.pred %p1, %p8, 0xffffffff;"
        yield f"vote.sync.{mode}.pred %p1, !%p8, 0xffffffff;"
    yield from ("vote.sync.ballot.b32 %r0, %p8, 0xffffffff;", "vote.all.pred %p1, %p8;", "shfl.up.b32 %r0, %r8, 1, 0;", "activemask.b32 %r0;",
                "bar.warp.sync 0xffffffff;", "bar.warp.sync %full;")
    for kind in ("b32", "b64"):
        yield f"match.any.sync.{kind} %r0, {sources(kind)}, 0xffffffff;"
        yield f"match.all.sync.{kind} %r0|%p1, {sources(kind)}, 0xffffffff;"
        yield f"match.all.sync.{kind} %r0, {sources(kind)}, 0xffffffff;"
    for op, kind in product(("add", "min", "max", "and", "or", "xor"), ("u32", "s32", "b32", "f32")):
        yield f"redux.sync.{op}.{kind} %r0, %r8, 0xffffffff;"
    for suffix in (".abs", ".NaN", ".abs.NaN"):
        yield f"redux.sync.min{suffix}.f32 %r0, %r8, 0xffffffff;"
    yield from ("elect.sync %r0|%p1, 0xffffffff;", "elect.sync _|%p1, %full;", "nanosleep.u32 10;", "nanosleep.u32 %r10;")
    for name in ("bar", "bar.cta", "barrier", "barrier.cta"):
        for aligned in ("",) if name.startswith("bar.") or name == "bar" else ("", ".aligned"):
            yield from (f"{name}.sync{aligned} 0;", f"{name}.sync{aligned} 1, 128;", f"{name}.arrive{aligned} 2, 256;", f"{name}.sync{aligned} %r11;",
                        f"{name}.red.popc{aligned}.u32 %r0, 0, %p8;", f"{name}.red.and{aligned}.pred %p1, 0, 128, %p8;", f"{name}.red.or{aligned}.pred %p1, 1, !%p8;")
    for aligned in ("", ".aligned"):
        yield from (f"barrier.cluster.arrive{aligned}; barrier.cluster.wait{aligned};",
                    f"barrier.cluster.arrive.release{aligned}; barrier.cluster.wait.acquire{aligned};",
                    f"barrier.cluster.arrive.relaxed{aligned}; barrier.cluster.wait{aligned};")


def fences():
    """fence, membar, griddepcontrol, cache management, control."""
    for order, scope in product(("sc", "acq_rel", "acquire", "release"), SCOPES):
        yield f"fence.{order}{scope};"
    yield from ("fence.cta;", "fence.gpu;", "membar.cta;", "membar.gl;", "membar.sys;", "membar.gpu;", "membar.proxy.alias;", "membar.proxy.async;",
                "membar.proxy.async.global;")
    for proxy in ("alias", "async", "async.global", "async.shared::cta", "async.shared::cluster"):
        yield f"fence.proxy.{proxy};"
    for scope in SCOPES:
        yield f"fence.proxy.tensormap::generic.release{scope};"
        yield f"fence.proxy.tensormap::generic.acquire{scope} [%tm], 128;"
        yield f"membar.proxy.tensormap::generic.release{scope};"
        yield f"membar.proxy.tensormap::generic.acquire{scope} [%tm], 128;"
    yield from ("fence.mbarrier_init.release.cluster;", "fence.acquire.sync_restrict::shared::cluster.cluster;", "fence.release.sync_restrict::shared::cta.cluster;",
                "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;", "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;")
    yield from ("griddepcontrol.wait;", "griddepcontrol.launch_dependents;", "pmevent 3;", "pmevent.mask 7;", "exit;", "ret;", "ret.uni;", "trap;", "brkpt;",
                "@%p8 exit;")
    for level, space in product(("L1", "L2", "L2::evict_last", "L2::evict_normal"), ("", ".global", ".local", ".const")):
        yield f"prefetch{space}.{level} [{'%la' if space == '.local' else '%ga'}];"
    yield from ("prefetchu.L1 [%ga];", "prefetch.tensormap [%tm];", "prefetch.param.tensormap [%tm];", "prefetch.const.tensormap [%tm];")
    yield from ("applypriority.global.L2::evict_normal [%ga], 128;", "applypriority.L2::evict_normal [%ga], 128;", "discard.global.L2 [%ga], 128;",
                "discard.L2 [%ga], 128;")
    for first, second in product(("evict_last", "evict_normal", "evict_first", "evict_unchanged"), ("", "evict_first", "evict_unchanged")):
        both_of = f".L2::{first}" + (f".L2::{second}" if second else "")
        yield f"createpolicy.fractional{both_of}.b64 %d0;"
        yield f"createpolicy.fractional{both_of}.b64 %d0, 0.5;"
        yield f"createpolicy.fractional{both_of}.b64 %d0, %half;"
        yield f"createpolicy.range{both_of}.b64 %d0, [%ga], 128, 256;"
        yield f"createpolicy.range.global{both_of}.b64 %d0, [%ga], %r10, %r15;"
    yield from ("createpolicy.cvt.L2.b64 %d0, %d8;", "setmaxnreg.dec.sync.aligned.u32 24;", "setmaxnreg.inc.sync.aligned.u32 240;",
                "setmaxnreg.inc.sync.aligned.u32 241;")
    for kind in ("u32", "u64"):
        size, stack = ("%d11", "d") if kind == "u64" else ("%r15", "r")
        yield f"stacksave.{kind} %{stack}0; alloca.{kind} %{stack}1, {size}; alloca.{kind} %{stack}2, {size}, 16; stackrestore.{kind} %{stack}0;"
    yield from ("@%p8 bra.uni next; next:", "{ .reg .u32 i; mov.u32 i, 0; table: .branchtargets a, b; brx.idx i, table; a: b: }",
                "add.cc.u32 %r0, %r8, %r9; addc.cc.u32 %r1, %r8, %r9; addc.u32 %r2, %r8, %r9;",
                "sub.cc.u32 %r0, %r8, %r9; subc.cc.u32 %r1, %r8, %r9; subc.u32 %r2, %r8, %r9;", "sub.cc.u64 %d0, %d8, %d9; subc.u64 %d1, %d8, %d9;",
                "mad.lo.cc.u32 %r0, %r8, %r9, %r10; madc.hi.cc.u32 %r1, %r8, %r9, %r10; madc.lo.u32 %r2, %r8, %r9, %r10;",
                "mad.hi.cc.u64 %d0, %d8, %d9, %d10; madc.hi.s64 %d1, %d8, %d9, %d10;", "sub.cc.s32 %r0, %r8, %r9; addc.cc.s32 %r1, %r8, %r9; addc.s32 %r2, 0, 0;")


def barriers():
    """mbarrier in all forms, and cp.async."""
    places = ((".shared", "%mb"), (".shared::cta", "%mb"), ("", "%mg"), (".shared::cluster", "%mb"))
    for space, at in places:
        yield from (f"mbarrier.init{space}.b64 [{at}+64], 4;", f"mbarrier.init{space}.b64 [{at}+64], %r10; mbarrier.inval{space}.b64 [{at}+64];")
        result = "_" if space == ".shared::cluster" else "%d0"
        for words, op in product(("", ".release.cta", ".release.cluster", ".relaxed.cta", ".relaxed.cluster"), ("arrive", "arrive_drop")):
            yield f"mbarrier.{op}{words}{space}.b64 {result}, [{at}];"
            yield f"mbarrier.{op}{words}{space}.b64 {result}, [{at}], 2;"
            yield f"mbarrier.{op}.expect_tx{words}{space}.b64 {result}, [{at}], 16;"
            yield f"mbarrier.{op}.noComplete{words}{space}.b64 %d0, [{at}], 1;"
        yield f"mbarrier.arrive{space}.b64 _, [{at}];"
        for op in ("expect_tx", "complete_tx"):
            for words in ("", ".relaxed.cta", ".relaxed.cluster"):
                yield f"mbarrier.{op}{words}{space}.b64 [{at}], 16;"
        for op, words in product(("test_wait", "try_wait"), ("", ".acquire.cta", ".acquire.cluster", ".relaxed.cta", ".relaxed.cluster")):
            yield f"mbarrier.{op}{words}{space}.b64 %p1, [{at}], %d12;"
            yield f"mbarrier.{op}.parity{words}{space}.b64 %p1, [{at}], 1;"
            if op == "try_wait":
                yield f"mbarrier.{op}{words}{space}.b64 %p1, [{at}], %d12, 100;"
                yield f"mbarrier.{op}.parity{words}{space}.b64 %p1, [{at}], 1, %r10;"
        for noinc in ("", ".noinc"):
            yield f"cp.async.mbarrier.arrive{noinc}{space}.b64 [{at}];"
    yield "mbarrier.arrive.noComplete.b64 %d0, [%mg], 1; mbarrier.pending_count.b64 %r0, %d0;"
    for space, (cache, size) in product((".shared", ".shared::cta"), ((".ca", 4), (".ca", 8), (".ca", 16), (".cg", 16))):
        for hint in ("", ".L2::64B", ".L2::128B", ".L2::256B"):
            yield f"cp.async{cache}{space}.global{hint} [%sa], [%ga], {size};"
            yield f"cp.async{cache}{space}.global{hint} [%sa], [%ga], {size}, {size};"
            yield f"cp.async{cache}{space}.global{hint} [%sa], [%ga], {size}, %r10;"
            yield f"cp.async{cache}{space}.global{hint} [%sa], [%ga], {size}, %p8;"
            yield f"cp.async{cache}{space}.global.L2::cache_hint{hint} [%sa], [%ga], {size}, %d10;"
            yield f"cp.async{cache}{space}.global.L2::cache_hint{hint} [%sa], [%ga], {size}, %r10, %d10;"
    yield from ("cp.async.commit_group;", "cp.async.wait_group 1;", "cp.async.wait_all;", "cp.async.ca.shared.global [%sa], [%ga], 4, 0;")


def forms():
    """Every form once, in a fixed order."""
    families = (arithmetic, plain, moves, qualified_accesses, atomics, warps, fences, barriers, *matrices.FAMILIES, *copies.FAMILIES)
    return list(dict.fromkeys(form for family in families for form in family()))
