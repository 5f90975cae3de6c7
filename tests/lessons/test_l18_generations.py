# SPDX-License-Identifier: Apache-2.0
"""Lesson 18's table agrees with the assembler; what a tile costs to issue is the arithmetic of the shapes."""
import pytest

from hopperlab.lessons.l18_after_hopper import generations
from hopperlab.runtime.compile import nvrtc as compiling
from hopperlab.runtime.errors import ToolchainError


@pytest.mark.parametrize("part", range(4))
@pytest.mark.sampled(every=4)
def test_what_is_known_is_what_the_assembler_says(part):
    names = list(generations.INSTRUCTIONS)[part::4]
    assert generations.accepted(names) == {name: generations.INSTRUCTIONS[name].known for name in names}


def test_nonsense_is_taken_by_no_assembler():
    assert not any(generations.assembles("no.such.instruction;", architecture) for architecture in generations.ARCHITECTURES)


def test_without_a_compiler_the_known_table_is_shown(monkeypatch):
    def missing(*_, **__):
        raise ToolchainError("no NVRTC")
    monkeypatch.setattr(compiling, "compile_source", missing)
    assert generations.accepted(["wgmma"]) == {"wgmma": ("sm_90a",)}
    assert "–       yes         –" in generations.generations_table(generations.accepted(["wgmma"]))


def test_issued_counts_follow_from_the_shapes():
    counts = generations.issued((256, 256, 16))
    assert list(counts.values()) == [16 * 16 * 4, 16 * 32, 4 * 4, 2, 1]
    with pytest.raises(ValueError, match="no multiple"):
        generations.issued((128, 256, 16))
    assert "tensor memory" in generations.issued_chart().text
