# SPDX-License-Identifier: Apache-2.0
"""The suite `decoding` without a GPU: what it makes of samples, what is shown, what is checked, and who may not be measured beside."""
import sys
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import decoding as steps
from hopperlab.measure.launches.copies import bulk_read
from hopperlab.measure.launches.decoding import Choice
from hopperlab.measure.machine import peers_decoding
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import decoding

xp = hl.array_module("emulator")


def a_step(lengths=(128, 64), **more):
    return steps.decode(steps.operands(xp, lengths, **more), Choice(blocks=2), backend="emulator")


@pytest.fixture
def a_gpu(monkeypatch):
    """NumPy where CuPy would be, and the emulator where a GPU would be."""
    stand_in = types.ModuleType("cupy")
    stand_in.__dict__.update({name: getattr(np, name) for name in ("zeros", "asarray", "float32", "float64", "uint16", "uint32", "abs", "exp", "maximum", "stack")})
    stand_in.__spec__ = ModuleSpec("cupy", None)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.setattr(decoding, "wait", lambda: hl.synchronize("emulator"))
    monkeypatch.setattr(steps.Decoding, "bound", lambda self, dependent=False: lambda: self(dependent))
    monkeypatch.setattr(decoding, "bulk_read", lambda *given: bulk_read(*given, backend="emulator"))
    monkeypatch.setattr(decoding.Launch, "bound", lambda self: self)


@pytest.mark.assembled
def test_a_record_is_told_beside_the_faster_read(a_gpu, monkeypatch):
    step = a_step()
    given = step.given
    ms = {"decode": 0.4, **dict(zip(decoding.ROOFS, (0.5, 0.25), strict=True)), "PyTorch": 1.0}
    monkeypatch.setattr(decoding, "interleaved", lambda runs, rounds, warmups: {name: Sample((ms[name],) * rounds) for name in runs})
    monkeypatch.setattr(peers_decoding, "made", lambda given, wanted: {"PyTorch": lambda: None})
    found = {record.note: record for record in decoding.timed("cells", {"decode": step}, 3, peers=True)}
    assert set(found) == set(ms) and given.cache_bytes == 192 * 512
    ours = found["decode"]
    assert ours.ratio == 0.625 and ours.peer == "read, 4 slots of 16 KiB, 2 blocks per SM" and ours.kernel == "decode" and ours.shape == (2, 128, 8, 1, 128)
    assert ours.gb_s == round(192 * 512 / 0.4 / 1e6, 1) and ours.registers and ours.grid == (2,) and ours.options == ("page=64", f"slots={step.plan.slots}",
            f"balance={step.plan.balance:.3f}")
    assert found["PyTorch"].ratio == 0.25 and found["PyTorch"].kernel == "PyTorch" and found[ours.peer].ratio == 1
    lines = decoding.shown(list(found.values())).splitlines()
    assert len(lines) == 4 and "0.625 (0.625 to 0.625) of a read" in lines[0]


def test_the_roof_reads_all_of_the_cache(a_gpu):
    given = a_step().given
    for launch in decoding.roofs(given).values():
        launch()
        words, (stages, chunk) = given.memory.reshape(-1).view(np.uint32), (launch.shared_mem // (32768 if launch.grid[0] == 132 else 16384),
                                                                            32768 if launch.grid[0] == 132 else 16384)
        assert stages in (4, 6) and launch.args[2] == given.memory.nbytes and launch.args[1][0] == words[:chunk // 4].sum(dtype=np.uint32)


def test_a_wrong_step_is_not_timed(a_gpu):
    step = a_step()
    assert decoding.checked("right", step, steps.reference(step.given))
    with pytest.raises(decoding.WrongStep, match="large, cut: .* of the result is wrong"):
        broken = steps.decode(steps.operands(xp, [256], size=60), Choice(blocks=2), ("-DBUG_NO_MAXIMUM=1",), backend="emulator")
        decoding.checked("large, cut", broken, steps.reference(broken.given))


def test_bugs_are_counted(a_gpu, monkeypatch):
    monkeypatch.setattr(decoding, "_operands", lambda lengths, **more: steps.operands(xp, [200], **more))
    monkeypatch.setattr(decoding.steps, "decode", lambda given, options=(), inner=steps.decode: inner(given, Choice(blocks=2), options, "emulator"))
    found = decoding.bugs(1)
    assert [(r.options, r.outcome) for r in found] == [(("size=1",), "right"), (("size=1", "BUG_NO_MAXIMUM=1"), "right"), (("size=60",), "right"),
                                                       (("size=60", "BUG_NO_MAXIMUM=1"), "wrong")]
    assert decoding.shown(found).count(" of 3 wrong") == 4


@pytest.mark.parametrize("name", decoding.EXPERIMENTS)
def test_every_experiment_says_what_it_measures(name):
    assert len(decoding.EXPERIMENTS[name].__doc__) > 30


def test_every_experiment_measures_its_shapes(monkeypatch):
    """All but the numbers: which caches are made, with which choices."""
    asked = []
    monkeypatch.setattr(decoding, "_operands", lambda lengths, page=64, **more: (tuple(lengths), page, more))
    monkeypatch.setattr(decoding.steps, "decode", lambda given, choice: (given, choice))
    monkeypatch.setattr(decoding, "timed", lambda suite, made, rounds, peers=False: asked.append((suite, made)) or [suite])
    for name in ("cells", "pages", "splits", "depth", "latent"):
        assert decoding.EXPERIMENTS[name](2)
    assert {suite for suite, _ in asked} == {"cells", "pages", "splits", "mixed", "depth",
                                             "latent"} and len(asked) == len(decoding.CELLS) + 5 + 4 + 1 + len(decoding.LATENT_CELLS)
    largest = max(sum(lengths) for suite, made in asked for (lengths, _, _), _ in made.values() if suite == "cells")
    assert largest * 2 * decoding.KV_HEADS * decoding.D * 2 == 2 << 30 and all(choice.gather for suite, made in asked for (_, page, _),
                                                                               choice in made.values() if page == 1)


def test_peers_that_are_missing_or_wrong_are_left_out(monkeypatch, a_gpu):
    given, told = a_step().given, []
    monkeypatch.setattr(peers_decoding.importlib.util, "find_spec", lambda name: None)
    assert peers_decoding.made(given, None) == {}
    monkeypatch.setattr(peers_decoding.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(peers_decoding, "flashinfer", lambda given: {"good": lambda: "good", "bad": lambda: "bad"})
    monkeypatch.setattr(peers_decoding, "_right", lambda name, run, given, wanted, tell: run() == "good")

    def missing(given):
        raise RuntimeError("no kernel for this\nand more")
    monkeypatch.setattr(peers_decoding, "sdpa", missing)
    assert set(peers_decoding.made(given, None, told.append)) == {"good"} and not told, "sequences of two lengths: PyTorch is not asked"
    assert set(peers_decoding.made(a_step((64, 64)).given, None, told.append)) == {"good"} and told == ["torch is left out: RuntimeError: no kernel for this"]
    assert peers_decoding.made(replace(given, pages=given.pages[:1]), None, told.append) == {}
