# SPDX-License-Identifier: Apache-2.0
"""Forms of the matrix instructions, for forms.py: mma, mma.sp, wmma, wgmma, ldmatrix, stmatrix, tcgen05 and the video instructions."""

from itertools import product

FLOATS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16")}


def group(letter: str, count: int, first: int) -> str:
    """{%x8, %x9}, and {%x8..%x11} for more than two: kernel.py writes them all."""
    if count > 2:
        return f"{{%{letter}{first}..%{letter}{first + count - 1}}}"
    return "{" + ", ".join(f"%{letter}{first + k}" for k in range(count)) + "}"


def mma(shape, d, a, b, words="", after="", layout="row.col", c="", name="mma.sync.aligned", more="", halves=1):
    """One mma: registers are counted from the shape."""
    m, n, k = (int(x) for x in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    c = c or d
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "b1": 1}.get(a, int(a[1]) if a[1:] in ("8", "4") else 8)
    ab = "d" if a == "f64" else "r"
    width = 64 if a == "f64" else 32
    na, nb = max(1, m * k * bits // width // 32 // halves), max(1, n * k * bits // width // 32)
    sizes = {"f16": m * n // 64, "f32": m * n // 32, "s32": m * n // 32, "f64": m * n // 32}
    if (m, n, k) == (8, 8, 4) and a == "f16":
        na, nb, sizes = 2, 2, {"f16": 4, "f32": 8}
    letter = "d" if d == "f64" else "r"
    return (f"{name}.{shape}.{layout}{words}.{d}.{a}.{b}.{c}{after} {group(letter, sizes[d], 0)}, {group(ab, na, 16)}, {group(ab, nb, 24)}, "
            f"{group(letter, sizes[c], 8)}{more};")


def dense():
    """mma.sync."""
    for d, c, first, second in product(("f16", "f32"), ("f16", "f32"), ("row", "col"), ("row", "col")):
        yield mma("m8n8k4", d, "f16", "f16", layout=f"{first}.{second}", c=c)
    for a, ds in FLOATS.items():
        for d, k in product(ds, (4, 8, 16, 32)):
            yield mma(f"m16n8k{k}", d, a, a)
    yield mma("m16n8k16", "f16", "f16", "f16", c="f32")
    yield mma("m16n8k16", "f32", "f16", "f16", c="f16")
    yield from (mma("m16n8k32", "f32", "e4m3", "e5m2"), mma("m16n8k16", "f16", "e5m2", "e4m3"))
    for width, ks in (("8", (16, 32)), ("4", (32, 64))):
        for a, b, k, m, words in product("us", "us", ks, (8, 16), ("", ".satfinite")):
            if m == 16 or k == ks[0]:
                yield mma(f"m{m}n8k{k}", "s32", a + width, b + width, words)
    for op, shape in product((".xor.popc", ".and.popc"), ("m8n8k128", "m16n8k128", "m16n8k256")):
        yield mma(shape, "s32", "b1", "b1", after=op)
    for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"):
        yield mma(shape, "f64", "f64", "f64")
        for mode in (".rn", ".rz", ".rm", ".rp"):
            yield mma(shape, "f64", "f64", "f64", mode)
            yield mma(shape, "f64", "f64", "f64", after=mode)
    for kind in ("e3m2", "e2m3", "e2m1"):
        yield (f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{kind}.{kind}.f32 {{%r0, %r1, %r2, %r3}}, {{%r16, %r17, %r18, %r19}}, {{%r24, %r25}}, "
               f"{{%r8, %r9, %r10, %r11}};")


def sparse():
    """mma.sp."""
    shapes = {"f16": (16, 32), "bf16": (16, 32), "tf32": (8, 16), "e4m3": (64, 32), "e5m2": (64,)}
    for name, (a, ks) in product(("mma.sp.sync.aligned", "mma.sp::ordered_metadata.sync.aligned"), shapes.items()):
        for d, k in product(FLOATS[a], ks):
            lanes = k // (8 if a == "tf32" else 16)
            for selector in range(max(1, 4 // max(lanes, 1))):
                yield mma(f"m16n8k{k}", d, a, a, name=name, more=f", %meta, {selector}", halves=2)
        for width, ks8 in (("8", (32, 64)), ("4", (64, 128))):
            for x, y, k, words in product("us", "us", ks8, ("", ".satfinite")):
                for selector in (0, 1) if k == ks8[0] else (0,):
                    yield mma(f"m16n8k{k}", "s32", x + width, y + width, words, name=name, more=f", %meta, {selector}", halves=2)


def fragments():
    """ldmatrix, stmatrix, movmatrix, wmma."""
    for count, trans, space in product((1, 2, 4), ("", ".trans"), ("", ".shared", ".shared::cta")):
        at = "%mag" if not space else "%ma"
        yield f"ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {group('r', count, 0)}, [{at}];"
        yield f"stmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 [{at}], {group('r', count, 8)};"
    for count in (1, 2, 4):
        yield f"ldmatrix.sync.aligned.x{count}.m8n8.shared.b16 {group('r', count, 0)}, [%ma];"
        yield f"stmatrix.sync.aligned.x{count}.m8n8.shared.b16 [%ma], {group('r', count, 8)};"
        yield f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%ma], {group('r', count, 8)};"
    yield from ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%ma];",
                "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32 {%r0, %r1, %r2, %r3}, [%ma];",
                "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r0}, [%ma];", "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r8;")
    for case in WMMA:
        yield from wmma(*case)


WIDE = ("m16n16k16", "m32n8k16", "m8n32k16")
WMMA = [
    (WIDE, "f16", ("f16", "f32"), {"a": (8, 8, 8), "b": (8, 8, 8), "f16": 4, "f32": 8}, ("row", "col")),
    (WIDE, "bf16", ("f32",), {"a": (4, 8, 2), "b": (4, 2, 8), "f32": 8}, ("row", "col")),
    (("m16n16k8",), "tf32", ("f32",), {"a": (4,), "b": (4,), "f32": 8}, ("row", "col")),
    (WIDE, "u8", ("s32",), {"a": (2, 4, 1), "b": (2, 1, 4), "s32": 8}, ("row", "col")),
    (WIDE, "s8", ("s32",), {"a": (2, 4, 1), "b": (2, 1, 4), "s32": 8}, ("row", "col")),
    (("m8n8k32",), "s4", ("s32",), {"a": (1,), "b": (1,), "s32": 2}, ("row", "col")),
    (("m8n8k32",), "u4", ("s32",), {"a": (1,), "b": (1,), "s32": 2}, ("row", "col")),
    (("m8n8k128",), "b1", ("s32",), {"a": (1,), "b": (1,), "s32": 2}, ("row", "col")),
    (("m8n8k4",), "f64", ("f64",), {"a": (1,), "b": (1,), "f64": 2}, ("row", "col")),
]


def wmma(shapes, kind, accumulators, sizes, layouts):
    """wmma.load of A, B and C, wmma.store of D, wmma.mma, of one element type."""
    letter = "d" if kind == "f64" else "r"
    for place, shape in enumerate(shapes):
        na, nb = sizes["a"][place], sizes["b"][place]
        for operand, count, layout in (("a", na, "row"), ("b", nb, "col"), ("a", na, "col"), ("b", nb, "row")):
            yield f"wmma.load.{operand}.sync.aligned.{layout}.{shape}.shared.{kind} {group(letter, count, 0)}, [%ma], 128;"
            yield f"wmma.load.{operand}.sync.aligned.{layout}.{shape}.{kind} {group(letter, count, 0)}, [%gm];"
        for d, layout in product(accumulators, layouts):
            yield f"wmma.load.c.sync.aligned.{layout}.{shape}.global.{d} {group(letter, sizes[d], 0)}, [%gm], %r13;"
            yield f"wmma.store.d.sync.aligned.{layout}.{shape}.shared.{d} [%ma], {group(letter, sizes[d], 8)}, 64;"
        for first, second, d, c in product(layouts, layouts, accumulators, accumulators):
            types = f"{d}.{c}" if kind == "f16" else f"{d}.{kind}.{kind}.{c}"
            start = f"wmma.mma{'.xor.popc' if kind == 'b1' else ''}.sync.aligned.{first}.{second}.{shape}"
            operands = f"{group(letter, sizes[d], 0)}, {group(letter, na, 16)}, {group(letter, nb, 24)}, {group(letter, sizes[c], 8)};"
            for words in ("", ".satfinite") if kind in ("f16", "u8", "s8", "s4", "u4") else (".rn", ".rz", "") if kind == "f64" else ("",):
                yield f"{start}{words if kind == 'f64' else ''}.{types}{words if kind != 'f64' else ''} {operands}"
            if kind == "b1":
                yield f"{start.replace('xor', 'and')}.{types} {operands}"


def warpgroups():
    """wgmma: every type, every N once, SS and RS, signs and majors; the sparse ones."""
    yield from ("wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 1;")
    for n in range(8, 257, 8):
        yield wgmma("", n, 16, "f32", "bf16", "bf16")
        yield wgmma("", n, 32, "s32", "s8", "s8")
    k_of = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}
    for sp, (a, ds) in product(("", ".sp"), FLOATS.items()):
        others = ("e4m3", "e5m2") if a[0] == "e" else (a,)
        for d, b, rs in product(ds, others, (False, True)):
            for tail in (", 1, 1, 0, 0", ", -1, 1, 1, 1", ", 1, -1, 0, 1") if a in ("f16", "bf16") else (", 1, 1", ", -1, -1"):
                if rs and a in ("f16", "bf16"):
                    tail = tail[:-3]
                yield wgmma(sp, 16, k_of[a] * (2 if sp else 1), d, a, b, rs, tail)
    for sp, a, b, rs, words in product(("", ".sp"), ("s8", "u8"), ("s8", "u8"), (False, True), ("", ".satfinite")):
        yield wgmma(sp, 16, 64 if sp else 32, "s32", a, b, rs, "", words)
    for rs in (False, True):
        yield wgmma("", 16, 256, "s32", "b1", "b1", rs, "", ".and.popc")
        yield wgmma("", 16, 256, "s32", "b1", "b1", rs, "", ".xor.popc")


def wgmma(sp, n, k, d, a, b, rs=False, tail=None, words=""):
    """One wgmma.mma_async with its fence, commit and wait."""
    registers = n // 4 if d == "f16" else n // 2
    left = group("r", 4, 140) if rs else "%desc"
    tail = tail if tail is not None else (", 1, 1, 0, 0" if a in ("f16", "bf16") else ", 1, 1" if d != "s32" else "")
    metadata = ", %meta, 0" if sp else ""
    return (f"wgmma.fence.sync.aligned; wgmma.mma_async{sp}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{words} {group('r', registers, 0)}, {left}, %desc{metadata}, %p8{tail}; "
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")


def video():
    """Scalar and SIMD video instructions."""
    kinds = ("u32", "s32")
    for op, d, a, b in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), kinds, kinds, kinds):
        yield f"{op}.{d}.{a}.{b} %r0, %r8, %r9;"
        yield f"{op}.{d}.{a}.{b}.sat %r0, %r8, %r9;"
        for second in ("add", "min", "max"):
            yield f"{op}.{d}.{a}.{b}.sat.{second} %r0, %r8, %r9, %r10;"
        for x, y in (("b0", "h1"), ("b3", "b1"), ("h0", "b2")):
            yield f"{op}.{d}.{a}.{b}.add %r0, %r8.{x}, %r9.{y}, %r10;"
            yield f"{op}.{d}.{a}.{b}.sat %r0.{x}, %r8.{y}, %r9.{x}, %r10;"
    for op, d, a, mode in product(("vshl", "vshr"), kinds, kinds, ("clamp", "wrap")):
        yield f"{op}.{d}.{a}.u32.{mode} %r0, %r8, %r9;"
        yield f"{op}.{d}.{a}.u32.sat.{mode}.add %r0, %r8.b1, %r9.b0, %r10;"
        yield f"{op}.{d}.{a}.u32.sat.{mode} %r0.h1, %r8.h0, %r9.b2, %r10;"
    for d, a, b, scale in product(kinds, kinds, kinds, ("", ".shr7", ".shr15")):
        yield f"vmad.{d}.{a}.{b}{scale} %r0, %r8.b0, %r9.h1, %r10;"
        yield f"vmad.{d}.{a}.{b}.sat{scale} %r0, %r8, %r9, %r10;"
        yield f"vmad.{d}.{a}.{b}.sat{scale} %r0, -%r8, %r9, %r10;"
        yield f"vmad.{d}.{a}.{b}{scale} %r0, %r8, %r9, -%r10;"
        yield f"vmad.{d}.{a}.{b}.po{scale} %r0, %r8.h0, %r9.h1, %r10;"
    for a, b, compare in product(kinds, kinds, ("eq", "ne", "lt", "le", "gt", "ge")):
        yield f"vset.{a}.{b}.{compare} %r0, %r8, %r9.b1;"
        yield f"vset.{a}.{b}.{compare}.add %r0, %r8.h1, %r9.h0, %r10;"
        yield f"vset.{a}.{b}.{compare} %r0.b2, %r8, %r9, %r10;"
    for count, masks in (("2", ("h10", "h0", "h1", "h1")), ("4", ("b3210", "b0", "b31", "b20"))):
        lane = masks[0][0]
        selector = f".{lane}{'13' if count == '2' else '4053'}"
        for op, d, a, b in product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), kinds, kinds, kinds):
            for words in ("", ".sat", ".add"):
                yield f"{op}{count}.{d}.{a}.{b}{words} %r0, %r8, %r9, %r10;"
            yield f"{op}{count}.{d}.{a}.{b} %r0.{masks[1]}, %r8{selector}, %r9, %r10;"
            yield f"{op}{count}.{d}.{a}.{b}.add %r0.{masks[2]}, %r8, %r9{selector}, %r10;"
            yield f"{op}{count}.{d}.{a}.{b}.sat %r0.{masks[3]}, %r8, %r9, %r10;"
        for a, b, compare, words in product(kinds, kinds, ("eq", "ne", "lt", "le", "gt", "ge"), ("", ".add")):
            yield f"vset{count}.{a}.{b}.{compare}{words} %r0, %r8, %r9, %r10;"
            yield f"vset{count}.{a}.{b}.{compare}{words} %r0.{masks[2]}, %r8{selector}, %r9, %r10;"


def newer():
    """What came after sm_90a: packed f32, small floats, tensor memory, cluster launch control."""
    for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
        yield f"{op}.rn.f32x2 %d0, {', '.join(f'%d{8 + k}' for k in range(count))};"
        yield f"{op}.rz.ftz.f32x2 %d0, {', '.join(f'%d{8 + k}' for k in range(count))};"
    for op, kind in product(("add", "sub"), ("f16", "bf16")):
        yield f"{op}.f32.{kind} %r0, %h8, %r8;"
    yield from ("fma.rn.f32.f16 %r0, %h8, %h9, %r8;", "min.f32 %r0, %r8, %r9, %r10;", "max.NaN.f32 %r0, %r8, %r9, %r10;", "min.s32.relu %r0, %r8, %r9, %r10;",
                "cvt.rn.satfinite.e2m1x2.f32 %b0, %r8, %r9;", "cvt.rn.satfinite.e2m3x2.f32 %h0, %r8, %r9;", "cvt.rn.satfinite.e3m2x2.f32 %h0, %r8, %r9;",
                "cvt.rz.ue8m0x2.f32 %h0, %r8, %r9;",
                "cvt.rn.bf16x2.ue8m0x2 %r0, %h8;", "cvt.rn.f16x2.e3m2x2 %r0, %h8;", "cvt.rn.f16x2.e2m3x2 %r0, %h8;", "cvt.rn.f16x2.e2m1x2 %r0, %b8;",
                "cvt.rs.satfinite.e4m3x4.f32 %r0, {%r8, %r9, %r10, %r11}, %r12;",
                "cvt.rs.f16x2.f32 %r0, %r8, %r9, %r10;", "cvt.rs.bf16x2.f32 %r0, %r8, %r9, %r10;", "cvt.rn.satfinite.tf32.f32 %r0, %r8;",
                "cvt.rn.satfinite.relu.tf32.f32 %r0, %r8;", "cvt.rz.satfinite.tf32.f32 %r0, %r8;",
                "cvt.rna.satfinite.tf32.f32 %r0, %r8;", "cvt.satfinite.e4m3x2.bf16x2 %h0, %r8;", "cvt.rn.satfinite.e4m3x2.bf16x2 %h0, %r8;", "add.u8x4 %r0, %r8, %r9;",
                "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%ma], [%mb];",
                "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q2;")
    yield from ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%ma], 32;", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
                "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 32;",
                "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%r8];", "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r9};", "tcgen05.wait::ld.sync.aligned;",
                "tcgen05.wait::st.sync.aligned;", "tcgen05.fence::before_thread_sync;",
                "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%mb];", "tcgen05.mma.cta_group::1.kind::f16 [%r8], %d8, %d9, %r9, %p8;",
                "tcgen05.cp.cta_group::1.128x256b [%r8], %d8;", "tcgen05.shift.cta_group::1.down [%r8];")
    yield from ("tex.1d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%d8, {%r8}];", "tld4.r.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%d8, {%r8, %r9}];",
                "txq.width.b32 %r0, [%d8];", "suld.b.1d.b32.trap {%r0}, [%d8, {%r8}];",
                "sust.b.1d.b32.trap [%d8, {%r8}], {%r9};", "sured.b.add.1d.u32.trap [%d8, {%r8}], %r9;", "suq.width.b32 %r0, [%d8];", "istypep.texref %p1, %d8;")
    yield from ("multimem.ld_reduce.global.add.u32 %r0, [%ga];", "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%r0, %r1, %r2, %r3}, [%ga];",
                "multimem.ld_reduce.weak.global.min.s64 %d0, [%ga];",
                "multimem.ld_reduce.relaxed.gpu.global.add.acc::f32.v4.bf16x2 {%r0, %r1, %r2, %r3}, [%ga];", "multimem.st.global.u32 [%ga], %r8;",
                "multimem.st.relaxed.sys.global.v4.f32 [%ga], {%r8, %r9, %r10, %r11};",
                "multimem.red.global.add.u32 [%ga], %r8;", "multimem.red.release.sys.global.add.v2.f16x2 [%ga], {%r8, %r9};",
                "multimem.cp.async.bulk.global.shared::cta.bulk_group [%gm], [%ma], 16;")


FAMILIES = (dense, sparse, fragments, warpgroups, video, newer)
