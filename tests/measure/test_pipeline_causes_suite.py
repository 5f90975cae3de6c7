# SPDX-License-Identifier: Apache-2.0
"""The suite `pipelines` without a GPU: its products run in the emulator at a small shape, on arrays that stand in for CuPy's, and times are made up."""
import sys
import types
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from hopperlab.measure.launches.launch import Launch
from hopperlab.measure.launches.operands import bf16_bits, bf16_values
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import pipeline_causes as pipelines


@pytest.fixture
def stand_in(monkeypatch):
    """NumPy under CuPy's name, launches that run in the emulator, and times by place: the first of a round takes 1 us, each further one 1 us more."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__spec__ = ModuleSpec("cupy", None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(Launch, "bound", lambda self: self)

    def product(a, b, c):
        def run():
            c[...] = bf16_bits(bf16_values(a) @ bf16_values(b).T)
        return run
    monkeypatch.setattr(pipelines.peers, "cublas", product)
    monkeypatch.setattr(pipelines, "interleaved", lambda runs, rounds: {name: Sample((0.001 * (1 + place),) * rounds) for place, name in enumerate(runs)})
    monkeypatch.setattr(pipelines, "SHAPE", (128, 128, 320))
    monkeypatch.setattr(pipelines, "compile_ahead", lambda wanted: [])


def some(*kept):
    """Only these of the choices, by their place, so that few are compiled."""
    every = list(pipelines.choices())
    return lambda: iter([every[place] for place in kept])


def test_one_thing_differs_at_a_time():
    every = list(pipelines.choices())
    assert len(set(every)) == len(every) and {choice.waits for choice in every} == set(pipelines.WAITS)
    for choice in every:
        twin = pipelines.Choice(choice.waits, "after" if choice.copy == "before" else "before", choice.stages, choice.blocks, choice.edges)
        assert twin in every and pipelines._base(choice) in every
    assert {(choice.stages, choice.blocks) for choice in every} == {(3, 2), (6, 1), (6, 2)}


def test_every_choice_makes_a_record(stand_in, monkeypatch):
    monkeypatch.setattr(pipelines, "choices", some(0, 3, 7, 24))
    found = pipelines.measure(3)
    assert [(r.kernel, r.options[:2], r.ratio) for r in found] == [
        ("cp_async_mma", ("waits=groups", "copy=before"), 1), ("cp_async_barriers", ("waits=barriers", "copy=after"), 0.5),
        ("cuda_pipeline", ("waits=block's pipeline", "copy=after"), 0.3333), ("cuda_pipeline", ("waits=thread's pipeline", "copy=before"), 0.25),
        ("cuBLAS", (), None)]
    assert found[3].options[4] == "edges=0" and all(record.registers <= 128 and not record.spills for record in found[:4])


def test_what_is_wrong_is_not_timed(stand_in, monkeypatch):
    monkeypatch.setattr(pipelines, "choices", some(0, 2))
    whole = pipelines.variants.VARIANTS["cp_async_barriers"]
    monkeypatch.setattr(pipelines.variants, "VARIANTS",
                        {**pipelines.variants.VARIANTS, "cp_async_barriers": lambda a, b, c, **more: whole(a, np.ascontiguousarray(b[::-1]), c, **more)})
    with pytest.raises(AssertionError, match=r"barriers .*largest error against cuBLAS"):
        pipelines.measure(3)


def test_what_is_compiled_ahead_is_what_is_launched(monkeypatch):
    asked = []
    monkeypatch.setattr(pipelines.variants, "load_kernel", lambda path, name, options, backend: asked.append((path, name, options)))
    x = np.zeros((128, 128), np.uint16)
    for choice in pipelines.choices():
        choice.launch(x, x, x, "emulator")
    assert asked == [choice.wanted for choice in pipelines.choices()]


def test_what_does_not_compile_is_told(stand_in, monkeypatch):
    monkeypatch.setattr(pipelines, "compile_ahead", lambda wanted: ["gemm/x.cu: no"])
    with pytest.raises(AssertionError, match=r"gemm/x.cu: no"):
        pipelines.measure(3)


@pytest.mark.assembled
@pytest.mark.thorough
def test_the_registers_are_what_was_asked_for():
    x = np.zeros((128, 128), np.uint16)
    wide, narrow = (pipelines.Choice("block's pipeline", "before", 6, blocks).launch(x, x, x, "emulator").kernel.use.registers for blocks in (1, 2))
    assert narrow <= 128 < wide
