# SPDX-License-Identifier: Apache-2.0
"""Programs as PTX, and their runs in the emulator. Each step has its own source line, so that a hazard's two ends name two steps."""
from __future__ import annotations

import hopperlab as hl
import numpy as np

from .programs import (ELECTED, REST, TILE, Arrive, Barrier, BulkCommit, BulkCopy, BulkLoad, BulkStore, BulkWait, ClusterArrive, ClusterWait, CpArrive, CpAsync,
                       CpCommit, CpWait, Init, Load, Poll, Program, ProxyFence, Raise, SourceStore, Step, Store, SyncWarp, Wait)

FILE = "program"
SCHEDULES = ("lazy", "eager", "random")
HEAD = """.version 8.6
.target sm_90a
.address_size 64
.file 1 "{file}"
.visible .entry k(.param .u64 src, .param .u64 dst, .param .u64 flags)
{cluster}{{
.reg .pred %p<8>;
.reg .b32 %r<32>;
.reg .b16 %h<2>;
.reg .b64 %rd<8>;
.shared .align 128 .b8 TILES[{tiles}];
.shared .align 8 .b8 BARS[{bars}];
ld.param.u64 %rd0, [src];
ld.param.u64 %rd1, [dst];
ld.param.u64 %rd2, [flags];
mov.u32 %r0, %tid.x;
and.b32 %r1, %r0, 31;
shr.u32 %r2, %r0, 5;
mov.u32 %r3, %cluster_ctarank;
mad.lo.u32 %r2, %r3, {warps}, %r2;
setp.eq.u32 %p0, %r1, 0;
setp.eq.u32 %p1, %r1, 1;
mov.u32 %r4, TILES;
mov.u32 %r5, BARS;
"""


def text(program: Program) -> str:
    """The program as PTX."""
    ctas, width = len(program.warps), len(program.warps[0])
    cluster = ".explicitcluster\n.reqnctapercluster 2, 1, 1\n" if ctas == 2 else ""
    bars = max(program.number(Init, "bar"), 1)
    out = [HEAD.format(file=FILE, cluster=cluster, tiles=program.tiles * TILE, bars=bars * 8, warps=width)]
    script, stores = None, 0
    for line, cta, warp, _, step in program.steps():
        if (cta, warp) != script:
            if script:
                out.append("bra END;")
            script = cta, warp
            out.append(f"W{cta}_{warp}:")
        stores += isinstance(step.op, BulkStore)
        out.append(f".loc 1 {line} 0\n" + _step(program, line, step, ctas, stores))
    out.append("END: ret;\n}")
    jumps = [f"setp.eq.u32 %p2, %r2, {cta * width + warp};\n@%p2 bra W{cta}_{warp};"
             for cta, warps in enumerate(program.warps) for warp, script in enumerate(warps) if script]
    return "\n".join([out[0], *jumps, "bra END;", *out[1:]])


def _step(program: Program, line: int, step: Step, ctas: int, stores: int) -> str:
    body = _body(line, step.op, ctas, stores)
    if step.lane is None:
        return body
    predicate, others = ("!%p0", "%p0") if step.lane == REST else (f"%p{ELECTED.index(step.lane)}", f"!%p{ELECTED.index(step.lane)}")
    if program.branches or isinstance(step.op, (Wait, Poll)):
        return f"@{others} bra S{line};\n{body}\nS{line}:"
    guarded = [row if row.startswith(("mov", "add", "and", "shl", "mapa")) else f"@{predicate} {row}" for row in body.splitlines()]
    return "\n".join(guarded)


def _chunk(op) -> str:
    """%r8: where the lane's chunk lies in the own or another CTA's shared memory."""
    rows = f"add.u32 %r8, %r1, {op.shift % 32};\nand.b32 %r8, %r8, 31;\nshl.b32 %r8, %r8, 4;\nadd.u32 %r8, %r8, %r4;\nadd.u32 %r8, %r8, {op.tile * TILE};\n"
    cta = getattr(op, "cta", None)
    return rows if cta is None else rows + f"mapa.shared::cluster.u32 %r8, %r8, {cta};\n"


def _source(op) -> str:
    """%rd3: where the lane's chunk lies in the source in global memory."""
    return (f"add.u32 %r12, %r1, {op.shift % 32};\nand.b32 %r12, %r12, 31;\nshl.b32 %r12, %r12, 4;\nadd.u32 %r12, %r12, {op.source * TILE};\n"
            "mov.b64 %rd3, {%r12, 0};\nadd.u64 %rd3, %rd3, %rd0;\n")


def _body(line: int, op, ctas: int, stores: int) -> str:
    wide = "cluster" if ctas == 2 else "cta"
    if isinstance(op, (Store, Load)):
        space = "shared" if op.cta is None else "shared::cluster"
        return _chunk(op) + (f"st.{space}.v4.b32 [%r8], {{%r1, %r1, %r1, %r1}};" if isinstance(op, Store) else f"ld.{space}.v4.b32 {{%r16, %r17, %r18, %r19}}, [%r8];")
    if isinstance(op, CpAsync):
        return _chunk(op) + _source(op) + "cp.async.cg.shared.global [%r8], [%rd3], 16;"
    if isinstance(op, SourceStore):
        return _source(op) + "st.global.v4.b32 [%rd3], {%r1, %r1, %r1, %r1};"
    if isinstance(op, Arrive):
        word = f".expect_tx.release.{wide}" if op.expect else f".release.{wide}"
        amount = f", {op.expect}" if op.expect else ""
        if op.cta is None:
            return f"mbarrier.arrive{word}.shared::cta.b64 _, [%r5+{op.bar * 8}]{amount};"
        return f"add.u32 %r9, %r5, {op.bar * 8};\nmapa.shared::cluster.u32 %r9, %r9, {op.cta};\nmbarrier.arrive{word}.shared::cluster.b64 _, [%r9]{amount};"
    if isinstance(op, Wait):
        return f"L{line}:\nmbarrier.try_wait.parity.acquire.{wide}.shared::cta.b64 %p3, [%r5+{op.bar * 8}], {op.phase & 1};\n@!%p3 bra L{line};"
    if isinstance(op, Poll):
        return f"L{line}:\nld.acquire.{op.scope}.global.u32 %r10, [%rd2+{op.flag * 4}];\nsetp.lt.u32 %p3, %r10, {op.value};\n@%p3 bra L{line};"
    if isinstance(op, Raise):
        return f"mov.u32 %r10, {op.value};\nst.{'release' if op.release else 'relaxed'}.{op.scope}.global.u32 [%rd2+{op.flag * 4}], %r10;"
    if isinstance(op, BulkLoad):
        return _bulk_load(op)
    if isinstance(op, BulkStore):
        return f"cp.async.bulk.global.shared::cta.bulk_group [%rd1+{(stores - 1) * 4 * TILE}], [%r4+{op.tile * TILE}], {op.tiles * TILE};"
    if isinstance(op, BulkCopy):
        return (f"add.u32 %r9, %r4, {op.to * TILE};\nmapa.shared::cluster.u32 %r9, %r9, {op.cta};\nadd.u32 %r11, %r5, {op.bar * 8};\n"
                f"mapa.shared::cluster.u32 %r11, %r11, {op.cta};\n"
                f"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%r4+{op.tile * TILE}], {TILE}, [%r11];")
    return _plain(op)


def _bulk_load(op: BulkLoad) -> str:
    cast = ".multicast::cluster" if op.ctas is not None else ""
    mask = f"mov.b16 %h0, {sum(1 << c for c in op.ctas)};\n" if op.ctas is not None else ""
    return (f"{mask}cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{cast} [%r4+{op.tile * TILE}], [%rd0+{op.source * TILE}], {op.tiles * TILE}, "
            f"[%r5+{op.bar * 8}]{', %h0' if mask else ''};")


def _plain(op) -> str:
    """Operations of one instruction."""
    if isinstance(op, Barrier):
        return f"bar.{'arrive' if op.arrive else 'sync'} {op.id}, {op.warps * 32};"
    return {
        CpCommit: lambda: "cp.async.commit_group;", CpWait: lambda: f"cp.async.wait_group {op.pending};",
        CpArrive: lambda: f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5+{op.bar * 8}];",
        BulkCommit: lambda: "cp.async.bulk.commit_group;",
        BulkWait: lambda: f"cp.async.bulk.wait_group{'.read' if op.read else ''} {op.pending};",
        ProxyFence: lambda: "fence.proxy.async;",
        Init: lambda: f"mbarrier.init.shared::cta.b64 [%r5+{op.bar * 8}], {op.count};",
        SyncWarp: lambda: "bar.warp.sync 0xffffffff;",
        ClusterArrive: lambda: "barrier.cluster.arrive.release.aligned;", ClusterWait: lambda: "barrier.cluster.wait.acquire.aligned;",
    }[type(op)]()


def run(program: Program, schedule: str = "lazy", seed: int = 0, strict_reads: bool = False):
    """One launch in the emulator; returns its session. strict_reads: unfenced-overwrite is an error."""
    stores = sum(isinstance(s.op, BulkStore) for *_, s in program.steps())
    kernel = hl.RawModule(ptx=text(program), backend="emulator").get_function("k")
    source, target, flags = np.arange(4 * TILE // 4, dtype=np.uint32), np.zeros(max(stores, 1) * TILE, np.uint32), np.zeros(16, np.uint32)
    levels = {"unfenced-overwrite": "error" if strict_reads else "off"}
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect", trace=False, levels=levels) as session:
        kernel((len(program.warps),), (32 * len(program.warps[0]),), (source, target, flags))
    return session
