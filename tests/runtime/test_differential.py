# SPDX-License-Identifier: Apache-2.0
"""The differential itself, with a stand-in for the GPU: what it compares, repeats, leaves out and refuses, and what its summary says."""
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import differential

import hopperlab as hl
from hopperlab.runtime.watching import watching

COPY, RACE = "copy/vector_copy.cu", """extern "C" __global__ void race(float* x) { x[0] = threadIdx.x; }"""


class OnGpu:
    """Stands for a launch on the GPU: what the emulator left, off by `off`."""

    off = 0.0

    def __init__(self, seen):
        self.seen = seen

    def __call__(self):
        pass

    def numbers(self):
        return self.seen.arrays

    def after(self):
        return [(array + array.dtype.type(self.off)).view(np.uint8).reshape(-1) for array in self.seen.arrays]


@pytest.fixture
def compared(monkeypatch):
    """A Differential that watches, without a GPU."""
    monkeypatch.setattr(differential, "OnGpu", OnGpu)
    found = differential.Differential()
    with watching(found.compare):
        yield found


def copy(values: np.ndarray) -> None:
    target = np.zeros_like(values)
    hl.load_kernel(COPY, "vector_copy", ("-DUNROLL=4",), backend="emulator")((1,), (256,), (values, target, np.int64(values.nbytes // 16)))


def test_each_launch_is_compared_once_and_its_kernel_named(compared):
    copy(np.arange(64, dtype=np.float32))
    copy(np.arange(64, dtype=np.float32))
    assert compared.counts() == (1, 1, 0) and compared.kernels == {COPY}
    copy(np.ones(64, np.float32))
    assert compared.counts() == (2, 1, 0)


def test_launches_with_hazards_are_left_out(compared):
    with hl.emulate(hazards="collect") as run:
        hl.RawModule(code=RACE, backend="emulator").get_function("race")((1,), (64,), (np.zeros(4, np.float32),))
    assert run.hazards and compared.counts() == (0, 0, 1) and not compared.kernels


def test_another_result_is_refused(compared, monkeypatch):
    monkeypatch.setattr(OnGpu, "off", 0.5)
    with pytest.raises(AssertionError, match="vector_copy: the GPU left"):
        copy(np.arange(64, dtype=np.float32))
    assert compared.counts() == (0, 0, 0)


def test_the_summary_adds_up_what_the_workers_report():
    """pytest's summary: counts of all reports, and the line of kernels that memcheck reads."""
    spec = importlib.util.spec_from_file_location("suite", Path(__file__).parents[1] / "conftest.py")
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    reports = [SimpleNamespace(when="teardown", user_properties=[("differential", counts), ("differential_kernels", names)])
               for counts, names in (([1, 0, 2], ["b/c.cu", "kernel.cu"]), ([3, 1, 0], ["a/b.cu"]))]
    lines = []
    for _ in suite.pytest_terminal_summary(SimpleNamespace(stats={"": reports}, write_line=lines.append),
                                           SimpleNamespace(differential=object(), getoption=lambda name: False)):
        assert not lines, "pytest's own summary stands above"
    assert lines == ["differential: 4 launches equal in both places, 1 repetitions, 2 left out for their hazards", "kernels on the GPU: a/b.cu, b/c.cu"]
