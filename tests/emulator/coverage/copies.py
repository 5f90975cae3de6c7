# SPDX-License-Identifier: Apache-2.0
"""Forms of the copy engine's instructions, for forms.py: bulk and tensor copies, reductions, prefetches, tensor maps."""

from itertools import product

COORDINATES = "%c0 %c0 %c0 %c0 %c0".split()
OFFSETS = "%h8 %h9 %h10".split()


def bulk():
    """cp.async.bulk and cp.reduce.async.bulk without a tensor map."""
    done = "mbarrier::complete_tx::bytes"
    for space in ("shared::cta", "shared::cluster"):
        start = f"cp.async.bulk.{space}.global.{done}"
        yield f"{start} [%ma], [%gm], 64, [%mb];"
        yield f"{start} [%ma], [%gm], %r15, [%mb];"
        yield f"{start}.L2::cache_hint [%ma], [%gm], 64, [%mb], %d10;"
        yield f"{start}.multicast::cluster [%ma], [%gm], 64, [%mb], %one;"
        yield f"{start}.multicast::cluster.L2::cache_hint [%ma], [%gm], 64, [%mb], %one, %d10;"
    yield f"cp.async.bulk.shared::cta.global.{done}.ignore_oob [%ma], [%gm], 64, 0, 0, [%mb];"
    yield f"cp.async.bulk.shared::cluster.shared::cta.{done} [%ma], [%ma+4096], 64, [%mb];"
    yield f"cp.async.bulk.shared::cluster.shared::cta.{done}.L2::cache_hint [%ma], [%ma+4096], 64, [%mb], %d10;"
    yield from ("cp.async.bulk.global.shared::cta.bulk_group [%gm], [%ma], 64;", "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%gm], [%ma], 64, %d10;",
                "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%gm], [%ma], 64, %h8;", "cp.async.bulk.prefetch.L2.global [%gm], 64;",
                "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%gm], %r15, %d10;",
                "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 1;", "cp.async.bulk.wait_group.read 0;")
    kinds = ("b32", "b64", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "f16x2")
    for op, kind in product(("add", "min", "max", "inc", "dec", "and", "or", "xor"), kinds):
        yield f"cp.reduce.async.bulk.shared::cluster.shared::cta.{done}.{op}.{kind} [%ma], [%ma+4096], 64, [%mb];"
        yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{kind} [%gm], [%ma], 64;"
        if kind in ("f16", "bf16") and op == "add":
            yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.noftz.{kind} [%gm], [%ma], 64;"
            yield f"cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.{op}.noftz.{kind} [%gm], [%ma], 64, %d10;"
    yield "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.u32 [%gm], [%ma], 64, %d10;"


def tensor():
    """cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and prefetches; %tN is a map of rank N in tile, %iN in im2col mode."""
    done = "mbarrier::complete_tx::bytes"
    for rank in range(1, 6):
        at, into = f"[%t{rank}, {{{', '.join(COORDINATES[:rank])}}}]", f"[%i{rank}, {{{', '.join(COORDINATES[:rank])}}}]"
        for space, mode in product(("shared::cta", "shared::cluster"), ("", ".tile")):
            start = f"cp.async.bulk.tensor.{rank}d.{space}.global{mode}.{done}"
            yield f"{start} [%ma], {at}, [%mb];"
            yield f"{start}.L2::cache_hint [%ma], {at}, [%mb], %d10;"
            yield f"{start}.multicast::cluster [%ma], {at}, [%mb], %one;"
            yield f"{start}.multicast::cluster.L2::cache_hint [%ma], {at}, [%mb], %one, %d10;"
            yield f"{start}.cta_group::1 [%ma], {at}, [%mb];"
            yield f"{start}.cta_group::2 [%ma], {at}, [%mb];"
        for mode in ("", ".tile"):
            yield f"cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group {at}, [%ma];"
            yield f"cp.async.bulk.tensor.{rank}d.global.shared::cta{mode}.bulk_group.L2::cache_hint {at}, [%ma], %d10;"
            yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global{mode} {at};"
            yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global{mode}.L2::cache_hint {at}, %d10;"
            for op in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
                yield f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}{mode}.bulk_group {at}, [%ma];"
        yield f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.tile.bulk_group.L2::cache_hint {at}, [%ma], %d10;"
        if rank < 3:
            continue
        offsets = "{" + ", ".join(OFFSETS[:rank - 2]) + "}"
        for space in ("shared::cta", "shared::cluster"):
            for mode, tail in (("im2col", f", {offsets}"), ("im2col::w", ", {%h8, %h9}"), ("im2col::w::128", ", {%h8, %h9}")):
                start = f"cp.async.bulk.tensor.{rank}d.{space}.global.{mode}.{done}"
                yield f"{start} [%ma], {into}, [%mb]{tail};"
                yield f"{start}.L2::cache_hint [%ma], {into}, [%mb]{tail}, %d10;"
                yield f"{start}.multicast::cluster [%ma], {into}, [%mb]{tail}, %one;"
        yield f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.im2col {into}, {offsets};"
        yield f"cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group {into}, [%ma];"
        yield f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.im2col_no_offs.bulk_group {into}, [%ma];"
    five = "{%r8, %r9, %r10, %r11, %r12}"
    yield from (f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{done} [%ma], [%t2, {five}], [%mb];",
                f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.{done} [%ma], [%t2, {five}], [%mb];",
                f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%t2, {five}], [%ma];",
                f"cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%t2, {five}];")


def maps():
    """tensormap.replace and tensormap.cp_fenceproxy."""
    plain = {"global_address": ("b64", "%d13"), "rank": ("b32", "1"), "elemtype": ("b32", "7"), "interleave_layout": ("b32", "0"), "swizzle_mode": ("b32", "0"),
             "fill_mode": ("b32", "0"), "swizzle_atomicity": ("b32", "0")}
    indexed = {"box_dim": ("b32", "%r10"), "global_dim": ("b32", "%r10"), "global_stride": ("b64", "%d11"), "element_stride": ("b32", "%r14")}
    for space, at in ((".global", "%wm"), (".shared::cta", "%ma"), ("", "%wm")):
        for field, (kind, value) in plain.items():
            yield f"tensormap.replace.tile.{field}{space}.b1024.{kind} [{at}], {value};"
        for field, (kind, value) in indexed.items():
            yield f"tensormap.replace.tile.{field}{space}.b1024.{kind} [{at}], 0, {value};"
            yield f"tensormap.replace.tile.{field}{space}.b1024.{kind} [{at}], 1, {value};"
    for field, codes in (("elemtype", (0, 12, 13, 15, 16)), ("swizzle_mode", (3, 4, 5)), ("interleave_layout", (0, 3)), ("fill_mode", (1, 2))):
        for code in codes:
            yield f"tensormap.replace.tile.{field}.global.b1024.b32 [%wm], {code};"
    for field, (kind, value) in indexed.items():
        yield f"tensormap.replace.tile.{field}.global.b1024.{kind} [%wm], 5, {value};"
    for scope in ("cta", "cluster", "gpu", "sys"):
        yield f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned [%wm], [%ma], 128;"


FAMILIES = (bulk, tensor, maps)
