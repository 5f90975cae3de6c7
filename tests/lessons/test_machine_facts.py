# SPDX-License-Identifier: Apache-2.0
"""What ptxas says of kernels in lessons: kept as it is, shown where there is none, and unknown where it is not kept either."""
import pytest

import hopperlab as hl
from hopperlab.authoring.shipping import machine_code
from hopperlab.lessons import l08_wgmma, l10_warp_specialization, l11_setmaxnreg, l12_clusters, machine_facts
from hopperlab.lessons.l08_wgmma.one_tile import EARLY
from hopperlab.lessons.l12_clusters.hand_back import ARRIVE
from hopperlab.measure.launches.roles import Roles
from hopperlab.runtime.compile import assemble, toolchain
from hopperlab.runtime.compile.clang import compiler

clang = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")


@pytest.fixture
def no_ptxas(monkeypatch):
    """As on a Mac."""
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")
    monkeypatch.setattr(assemble, "ptxas", lambda: None)


@pytest.mark.thorough
def test_what_is_kept_is_what_ptxas_says():
    said_by = machine_facts.kept()["said_by"]
    if not toolchain.has_nvrtc() or ".".join(map(str, toolchain.nvrtc_version())) != said_by:
        pytest.skip(f"the machine code that is kept is of CUDA {said_by}, which is not installed here")
    assert {key: ask() for key, ask in machine_code.asked().items()} == machine_facts.kept()["facts"], "python -m hopperlab.authoring.shipping.machine_code"


@clang
def test_lessons_show_it_without_an_assembler_and_say_so(no_ptxas):
    kept = "kept from ptxas 13.0: there is none here"
    assert l11_setmaxnreg.role_build(Roles(blocks=3, bn=128, producer=0, consumer=0)).endswith(f"802 spill instructions, notes C7511 ({kept})")
    assert l11_setmaxnreg.budget_changes(Roles()) == 2
    assert l12_clusters.fences_table().split("\n")[1:] == ["release.cta      0 fences: ", f"({kept})"]
    assert l10_warp_specialization.elected_table().endswith(f"({kept})")
    assert [l08_wgmma.multiply_tile(64, blocks=blocks, in_flight=1, options=EARLY).notes for blocks in (1, 4)] == [("C7514",), ()]


@clang
def test_what_is_not_kept_is_unknown_without_an_assembler(no_ptxas):
    assert "the rest is not known here" in l11_setmaxnreg.role_build(Roles(stages=3))
    assert l08_wgmma.multiply_tile(32, blocks=1).notes == ("unknown (there is no ptxas here)",)
    with pytest.raises(hl.ToolchainError):
        l11_setmaxnreg.budget_changes(Roles(stages=3))
    with pytest.raises(hl.ToolchainError):
        l12_clusters.fences_table(ARRIVE.replace("hand_back(", "hand_back(  "))
