# SPDX-License-Identifier: Apache-2.0
"""alloca, stacksave and stackrestore: local memory of a size that each thread decides."""
import numpy as np
import pytest
from hopperlab import emulator
from support.emulated import run_ptx

LOAD = "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;"
PARAMS = ".param .u64 out"


def test_each_thread_has_its_own_memory_of_its_own_size():
    body = f"""{LOAD} add.u32 %r2, %r1, 1; mul.wide.u32 %rd3, %r2, 4; alloca.u64 %rd4, %rd3, 8; mov.u32 %r3, 0; mov.u32 %r4, 0;
    fill: mad.wide.u32 %rd5, %r3, 4, %rd4; mul.lo.u32 %r5, %r3, %r1; st.local.u32 [%rd5], %r5; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r2; @%p1 bra fill;
    mov.u32 %r3, 0;
    add: mad.wide.u32 %rd5, %r3, 4, %rd4; cvta.local.u64 %rd5, %rd5; ld.u32 %r5, [%rd5]; add.u32 %r4, %r4, %r5; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r2; @%p1 bra add;
    st.global.u32 [%rd1], %r4;"""
    out = np.zeros(64, np.uint32)
    run_ptx(body, (out,), PARAMS, block=(64,))
    assert out.tolist() == [t * t * (t + 1) // 2 for t in range(64)]


def test_restored_memory_is_given_out_again_and_kept_memory_is_not():
    body = f"""{LOAD} alloca.u64 %rd3, 16; mov.u32 %r2, 7; st.local.u32 [%rd3], %r2; stacksave.u64 %rd9;
    alloca.u64 %rd4, 32, 16; alloca.u64 %rd5, 32; stackrestore.u64 %rd9; alloca.u64 %rd6, 32, 16;
    sub.u64 %rd7, %rd4, %rd6; sub.u64 %rd8, %rd5, %rd4; st.local.u32 [%rd6], %r1; ld.local.u32 %r3, [%rd3];
    cvt.u32.u64 %r4, %rd7; setp.ne.u64 %p1, %rd8, 0; selp.u32 %r5, 100, 0, %p1; and.b64 %rd4, %rd4, 15; cvt.u32.u64 %r6, %rd4;
    add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6; st.global.u32 [%rd1], %r3;"""
    out = np.zeros(32, np.uint32)
    run_ptx(body, (out,), PARAMS)
    assert out.tolist() == [107] * 32


def test_taking_too_much_is_a_fault():
    with pytest.raises(emulator.MemoryFault, match="alloca takes 8192 bytes"):
        run_ptx("alloca.u64 %rd3, 8192; st.local.u64 [%rd3], %rd3;", (), hazards="raise")


@pytest.mark.parametrize("text", ["alloca.u64 %rd3, 16, 3;", "alloca.b64 %rd3, 16;", "stacksave.s32 %r3;"])
def test_other_forms_do_not_exist(text):
    with pytest.raises(emulator.UnsupportedInstruction):
        run_ptx(text, ())
