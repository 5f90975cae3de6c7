# SPDX-License-Identifier: Apache-2.0
"""Registers of foreign PTX: from ptxas where there is one, else from launch bounds, which give the same; and the register budget that follows."""
import warnings

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime.compile import assemble

TEXT = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) BOUNDS
{
.reg .b64 %rd<2>;
.reg .b32 %r<4>;
.reg .pred %p<2>;
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 128;
@%p1 bra GIVE;
setmaxnreg.inc.sync.aligned.u32 TAKEN;
bra END;
GIVE:
setmaxnreg.dec.sync.aligned.u32 GIVEN;
END:
ret;
}
"""


def module(bounds, taken=240, given=24):
    return hl.RawModule(ptx=TEXT.replace("BOUNDS", bounds).replace("TAKEN", str(taken)).replace("GIVEN", str(given)), backend="emulator", name="theirs.ptx")


def kinds(made, block):
    with hl.emulate(hazards="collect") as run:
        made.get_function("k")((1,), (block,), (np.zeros(1, np.int32),))
    return {hazard.kind for hazard in run.hazards}


@pytest.fixture(params=["ptxas", "launch bounds"])
def source(request, monkeypatch):
    if request.param == "launch bounds":
        monkeypatch.setattr(assemble, "ptxas", lambda: None)
    elif assemble.ptxas() is None:
        pytest.skip("this machine has no ptxas; launch bounds say the same")
    return request.param


def test_a_budget_that_cannot_be_met_is_named(source):
    bounds = ".maxntid 384, 1, 1 .minnctapersm 1"
    assert module(bounds).get_function("k").num_regs == 168
    assert kinds(module(bounds), 384) == set()
    assert "register-budget" in kinds(module(bounds, given=32), 384)
    assert module(bounds, taken=160).get_function("k").num_regs == 160 and kinds(module(bounds, taken=160), 384) == set(), "ptxas gives no more than is asked for"
    assert "register-budget" in kinds(module(".maxntid 384, 1, 1 .minnctapersm 1", given=240), 384), "the wrong way"


def test_setmaxnreg_that_ptxas_ignores_is_named(source):
    for bounds in ("", ".maxntid 384", ".reqntid 384, 1, 1", ".maxntid 1024 .minnctapersm 3"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hl.PtxasWarning)
            assert kinds(module(bounds), 384) == {"register-budget"}, bounds


def both(bounds, taken=256, given=24):
    made = module(bounds, taken, given)
    real, mine = made.ptxas_info["k"], assemble.from_bounds(made.signatures["k"], made.ptx)
    return ([n.code for n in real.notes], [n.code for n in mine.notes], real.registers, mine.registers)


@pytest.mark.thorough
@pytest.mark.skipif(assemble.ptxas() is None, reason="this machine has no ptxas")
def test_launch_bounds_say_what_ptxas_says():
    for threads in (32, 96, 128, 192, 256, 288, 384, 416, 512, 640, 672, 768, 800, 1024):
        for bounds in (f".maxntid {threads}", *(f".maxntid {threads} .minnctapersm {blocks}" for blocks in range(1, 5)),
                       f".reqntid {threads // 2}, 2, 1 .minnctapersm 1"):
            notes, own, real, mine = both(bounds)
            assert notes == own and (notes or real == mine), (bounds, real, mine)
    for bounds in (".maxntid 384 .minnctapersm 1", ".maxntid 512 .minnctapersm 1", ".maxntid 256 .minnctapersm 1", ".maxnreg 168"):
        for taken in (40, 104, 160, 240):
            assert both(bounds, taken)[2] == both(bounds, taken)[3], (bounds, taken)
    for registers in (24, 100, 168, 255):
        assert both(f".maxnreg {registers}")[2:] == (registers, registers) == both(f".maxntid 384 .maxnreg {registers}")[2:]


@pytest.mark.skipif(assemble.ptxas() is None, reason="this machine has no ptxas")
def test_ptx_that_ptxas_refuses_is_said_so_once_and_still_runs():
    made = hl.RawModule(ptx=TEXT.replace("BOUNDS", ".maxntid 128 .minnctapersm 1").replace("TAKEN", "256").replace("GIVEN", "24").replace(".version 8.6",
            ".version 99.0"), backend="emulator", name="new.ptx")
    with pytest.warns(hl.PtxasWarning, match="new.ptx: ptxas does not take this PTX, so its registers are not known here and no GPU runs it: .*99.0"):
        kernel = made.get_function("k")
    assert kernel.num_regs == 255


def test_only_kernels_whose_registers_decide_wait_for_ptxas(monkeypatch):
    monkeypatch.setattr(assemble, "assemble", lambda *given: pytest.fail("assembled"))
    made = hl.RawModule(ptx=".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n", backend="emulator")
    made.get_function("k")((1,), (32,))


def test_sass_of_foreign_ptx():
    if assemble.ptxas() is None:
        pytest.skip("this machine has no ptxas")
    listing = hl.sass(module(".maxntid 384 .minnctapersm 1"))
    assert "USETMAXREG" in str(listing)
