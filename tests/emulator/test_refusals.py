# SPDX-License-Identifier: Apache-2.0
"""What sm_90a does not have is refused with the name of the architecture that has it; nothing passes silently."""
import pytest
from hopperlab import emulator
from support.emulated import run_ptx

TENSOR = "cp.async.bulk.tensor.2d.shared::cluster.global"
REFUSED = [
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", "sm_100a"), ("tcgen05.wait::ld.sync.aligned;", "sm_100a"),
    ("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];", "sm_100"),
    (f"{TENSOR}.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, {{%r2, %r2, %r2, %r2, %r2}}], [%r3];", "sm_100"),
    ("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {%r2, %r2, %r2, %r2, %r2}], [%r1];", "sm_100"),
    ("cp.async.bulk.tensor.4d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r2, %r2, %r2}], [%r3], {%h1, %h2};", "sm_100"),
    (f"{TENSOR}.mbarrier::complete_tx::bytes.cta_group::2 [%r1], [%rd1, {{%r2, %r2}}], [%r3];", "sm_100a"),
    ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r1], 16, %h1;", "sm_100"),
    ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3];", "sm_100a"), ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r3], {%r1};", "sm_100a"),
    ("redux.sync.min.f32 %f1, %f2, 0xffffffff;", "sm_100a"), ("add.rn.f32x2 %rd1, %rd2, %rd3;", "sm_100"), ("fma.rn.f32x2 %rd1, %rd2, %rd3, %rd1;", "sm_100"),
    ("ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];", "sm_100"), ("ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%rd1];", "sm_100"),
    ("st.global.v4.b64 [%rd1], {%rd1, %rd2, %rd3, %rd4};", "sm_100"), ("st.bulk.shared::cta [%rd1], 16, 0;", "sm_100"),
    ("multimem.ld_reduce.global.add.u32 %r1, [%rd1];", "several GPUs"), ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];", "texture"),
    ("cvt.rn.satfinite.e2m1x2.f32 %h1, %f1, %f2;", "sm_100"), ("add.f32.f16 %f1, %h1, %f2;", "sm_100"), ("min.f32 %f1, %f2, %f3, %f4;", "sm_100"),
    ("tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%rd1], 0;", "sm_100a"),
]


@pytest.mark.parametrize("instruction, where", REFUSED, ids=[r[0].split(" ")[0] for r in REFUSED])
def test_newer_instructions_are_refused_by_name(instruction, where):
    with pytest.raises(emulator.UnsupportedInstruction, match=where):
        run_ptx(instruction, (), version="8.8")


@pytest.mark.parametrize("instruction", ["frobnicate.b32 %r1, %r2;", "ld.global.purple.b32 %r1, [%rd1];", "bar.warp.dance %r1;",
                                         "cp.async.bulk.global.global [%rd1], [%rd2], 16;",
                                         "cp.async.bulk.weird.global.shared::cta.bulk_group [%rd1], [%r1], 16;", "fence.proxy.unknown;",
                                         "red.async.relaxed.cluster.global.add.u32 [%r1], %r2, [%r3];", "st.async.mmio.release.sys.global.b32 [%rd1], %r1;",
                                         "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 64;", "fence.proxy.tensormap::generic.release.moon;",
                                         "atom.global.add.blue.u32 %r1, [%rd1], %r2;"])
def test_unknown_words_are_never_ignored(instruction):
    with pytest.raises(emulator.EmulatorError):
        run_ptx(instruction, (), version="8.8")


@pytest.mark.parametrize("instruction", ["cvt.s64.s32 %q2, %r1", "cvt.s32.s64 %r1, %q2", "cvt.rzi.s64.f64 %q2, %g1", "cvt.u8.u32 %q2, %r1"])
def test_conversions_of_128_bits_that_ptxas_takes_are_refused_by_name(instruction):
    ptx = f""".version 8.7\n.target sm_90a\n.address_size 64
        .visible .entry k() {{ .reg .b128 %q<3>; .reg .b32 %r<3>; .reg .f64 %g<3>;\n{instruction};\nret; }}"""
    with pytest.raises(emulator.UnsupportedInstruction, match="%q2 has 128 bits"):
        emulator.Program(ptx).translation("k")
