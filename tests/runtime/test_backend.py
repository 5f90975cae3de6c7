# SPDX-License-Identifier: Apache-2.0
"""Which place is chosen, and what is said about it."""
import io
import sys

import pytest

from hopperlab.runtime import backend
from hopperlab.runtime.gpu import driver
from hopperlab.runtime.errors import BackendError

H200 = driver.Gpu("NVIDIA H200", (9, 0), 132, (13, 0))
A100 = driver.Gpu("NVIDIA A100", (8, 0), 108, (13, 0))
OLD_DRIVER = driver.Gpu("NVIDIA H100", (9, 0), 132, (12, 4))


@pytest.fixture
def machine(monkeypatch):
    """Pretend to be a machine: machine(gpu, has CuPy, HOPPERLAB_BACKEND)."""
    def pretend(gpu=None, cupy=False, choice=None):
        monkeypatch.setattr(backend, "find_gpu", lambda: gpu)
        monkeypatch.setattr(backend, "has_cupy", lambda: cupy)
        monkeypatch.delenv("HOPPERLAB_BACKEND", raising=False)
        if choice is not None:
            monkeypatch.setenv("HOPPERLAB_BACKEND", choice)
        backend._from_environment.cache_clear()
    yield pretend
    backend._from_environment.cache_clear()


@pytest.mark.parametrize("gpu, cupy, place, why", [
    (H200, True, "gpu", "NVIDIA H200, compute capability 9.0"), (None, False, "emulator", "no NVIDIA GPU found"),
    (A100, True, "emulator", "not a Hopper GPU"), (H200, False, "emulator", "CuPy is not installed: make cupy"),
    (OLD_DRIVER, False, "emulator", ".[cuda12]")])
def test_auto(machine, capsys, gpu, cupy, place, why):
    machine(gpu, cupy)
    assert backend.backend() == place
    line, = capsys.readouterr().err.splitlines()
    assert line.startswith("hopperlab: kernels run ") and why in line


def test_the_choice_is_made_and_said_once(machine, capsys):
    machine()
    backend.backend(), backend.backend()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_in_a_notebook_it_is_said_on_standard_output(machine, capsys, monkeypatch):
    """Jupyter shows standard error in red, as if something were wrong."""
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stdout", cell)
    machine()
    backend.backend(), backend.backend()
    assert capsys.readouterr().err == "" and cell.getvalue() == "hopperlab: kernels run in the emulator (no NVIDIA GPU found)\n"


def test_an_explicit_choice_says_nothing(machine, capsys):
    machine(H200, True, "emulator")
    assert backend.backend() == "emulator" and backend.backend("gpu") == "gpu"
    assert capsys.readouterr().err == ""


def test_gpu_without_a_gpu(machine):
    machine(None, False, "gpu")
    with pytest.raises(BackendError, match="no NVIDIA GPU or driver is found.*HOPPERLAB_BACKEND=emulator"):
        backend.backend()


def test_gpu_without_cupy(machine):
    machine(H200, False)
    with pytest.raises(BackendError, match=r"needs CuPy: make cupy, or python -m pip install -e .\[cuda13\]"):
        backend.backend("gpu")


@pytest.mark.parametrize("choice", ["cuda", "GPUU"])
def test_an_unknown_place(machine, choice):
    machine(None, False, choice)
    with pytest.raises(BackendError, match="choose 'gpu', 'emulator' or 'auto'"):
        backend.backend()


def test_capitals_and_spaces_are_forgiven(machine):
    machine(None, False, " Emulator ")
    assert backend.backend() == "emulator"


def test_another_generation_is_compiled_for_when_it_is_asked_for(machine):
    machine(A100, True)
    assert backend.backend("gpu") == "gpu"
    assert backend.architecture("gpu") == "sm_80" and backend.architecture("emulator") == "sm_90a"
    machine(H200, True)
    assert backend.architecture("gpu") == "sm_90a"


@pytest.mark.parametrize("gpu, extra", [(None, ""), (H200, "cuda13"), (OLD_DRIVER, "cuda12"),
                                        (driver.Gpu("old", (7, 0), 80, (11, 8)), "")])
def test_the_cupy_that_fits_the_driver(gpu, extra):
    assert driver.extra_for(gpu) == extra
