# SPDX-License-Identifier: Apache-2.0
"""Registers of any 32-bit type hold any 32-bit value: accumulators in .b32, integers in .f32, and copies between them."""
import numpy as np
import pytest
import hopperlab as hl
from support.emulated import run_ptx, told

PARAMS = ".param .u64 out"
ADDRESS = "ld.param.u64 %rd1, [out]; mov.u32 %r60, %tid.x; mul.wide.u32 %rd2, %r60, 4; add.u64 %rd1, %rd1, %rd2;"
FILL = "mov.u32 %r50, tile; mad.lo.u32 %r51, %r60, 16, %r50; mov.b32 %r52, {word}; st.shared.v4.b32 [%r51], {{%r52, %r52, %r52, %r52}};"
TILES = ".shared .align 1024 .b8 tile[2048];"
WGMMA = """fence.proxy.async; bar.sync 0; shr.u32 %r53, %r50, 4; and.b32 %r53, %r53, 0x3fff; cvt.u64.u32 %rd3, %r53; or.b64 %rd3, %rd3, 0x1000080000;
wgmma.fence.sync.aligned; setp.eq.u32 %p1, 0, 0;
wgmma.mma_async.sync.aligned.{shape} {{{d}}}, %rd3, %rd3, %p1{tail};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""


@pytest.mark.parametrize("kind", ["r", "f"])
def test_accumulators_of_f32(kind):
    d = ", ".join(f"%{kind}{k}" for k in range(4))
    start = "".join(f"mov.b32 %{kind}{k}, 0x40000000;" for k in range(4))
    body = TILES + ADDRESS + FILL.format(word="0x3f803f80") + start + WGMMA.format(shape="m64n8k16.f32.bf16.bf16", d=d, tail=", 1, 1, 0, 0") + f"""
    mov.b32 %f10, %{kind}1; mov.b32 %r10, %{kind}2; add.f32 %f11, %f10, 0f3F800000; add.f32 %r11, %{kind}3, %r10; mov.b32 %r12, %f11;
    st.global.b32 [%rd1], %r12; st.global.f32 [%rd1+512], %r11; st.global.b32 [%rd1+1024], %{kind}0;"""
    out = np.zeros((3, 128), np.float32)
    session = run_ptx(body, (out,), PARAMS, block=(128,))
    assert not session.hazards, told(session)
    assert (out == np.array([[19], [36], [18]], np.float32)).all()


def test_accumulators_of_integers():
    body = TILES + ADDRESS + FILL.format(word="0x01010101") + "".join(f"mov.b32 %r{k}, 5;" for k in range(4)) + WGMMA.format(
        shape="m64n8k32.s32.s8.s8", d="%r0, %r1, %r2, %r3", tail="") + "mov.b32 %f1, %r2; mov.b32 %r1, %f1; add.s32 %r1, %r1, %r0; st.global.b32 [%rd1], %r1;"
    out = np.zeros(128, np.int32)
    session = run_ptx(body, (out,), PARAMS, block=(128,))
    assert not session.hazards, told(session)
    assert (out == 74).all()


@pytest.mark.parametrize(("shape", "registers"), [("m64n8k32.s32.s8.s8", "%f0, %f1, %f2, %f3"), ("m64n8k16.f16.f16.f16", "%f0, %f1")])
def test_accumulators_in_registers_of_another_type(shape, registers):
    """As ptxas has it: 'Arguments mismatch'."""
    tail = "" if "s32" in shape else ", 1, 1, 0, 0"
    with pytest.raises(hl.UnsupportedInstruction, match="an accumulator of .* lies in registers of .b32 or .*, not of .f32"):
        run_ptx(TILES + ADDRESS + WGMMA.format(shape=shape, d=registers, tail=tail), (np.zeros(1, np.int32),), PARAMS, block=(128,))


@pytest.mark.parametrize("shape", ["m16n8k16.row.col.s32.s8.s8.s32", "m16n8k16.row.col.f16.f16.f16.f16"])
def test_accumulators_of_mma_in_registers_of_another_type(shape):
    d, a = ("{%f0, %f1, %f2, %f3}", "{%r1, %r1}, {%r1}") if "s8" in shape else ("{%f0, %f1}", "{%r1, %r1, %r1, %r1}, {%r1, %r1}")
    with pytest.raises(hl.UnsupportedInstruction, match="not of .f32"):
        run_ptx(f"mov.b32 %r1, 0; mma.sync.aligned.{shape} {d}, {a}, {d};", (np.zeros(1, np.int32),), PARAMS)


@pytest.mark.emulator_only                      # 2^-18 beside 32: an H200 drops what its fp8 sums have no bits for, the emulator adds in fp32
def test_one_register_for_floats_and_integers_by_turns():
    body = TILES + ADDRESS + FILL.format(word="0x01010101") + "".join(f"mov.b32 %r{k}, 0;" for k in range(4)) + WGMMA.format(
        shape="m64n8k32.s32.s8.s8", d="%r0, %r1, %r2, %r3", tail="") + "".join(f"cvt.rn.f32.s32 %r{k}, %r{k};" for k in range(4)) + WGMMA.format(
        shape="m64n8k32.f32.e4m3.e4m3", d="%r0, %r1, %r2, %r3", tail=", 1, 1") + "st.global.b32 [%rd1], %r3;"
    out = np.zeros(128, np.float32)
    run_ptx(body, (out,), PARAMS, block=(128,))
    assert (out == 32 + 32 * 2.0**-18).all()


@pytest.mark.parametrize("kind", ["r", "f"])
def test_mma_with_accumulators_of_any_type(kind):
    body = ADDRESS + f"""mov.b32 %r1, 0x3f803f80; mov.b32 %{kind}20, 0x40400000;
    mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {{%{kind}10, %{kind}11, %{kind}12, %{kind}13}}, {{%r1, %r1}}, {{%r1}}, {{%{kind}20, %{kind}20, %{kind}20, %{kind}20}};
    st.global.b32 [%rd1], %{kind}13;"""
    out = np.zeros(32, np.float32)
    run_ptx(body, (out,), PARAMS)
    assert (out == 11).all()
