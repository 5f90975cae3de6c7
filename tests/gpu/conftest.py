# SPDX-License-Identifier: Apache-2.0
"""Tests that need a Hopper GPU: skipped, with the reason, where there is none."""
import pytest

from hopperlab.runtime import backend
from hopperlab.runtime.gpu.driver import find_gpu


def why_not() -> str | None:
    """Why these tests cannot run here; None when they can."""
    gpu = find_gpu()
    if gpu is None:
        return "no NVIDIA GPU"
    if gpu.capability != (9, 0):
        return f"the GPU has compute capability {gpu.capability[0]}.{gpu.capability[1]}, not 9.0 (Hopper)"
    return None if backend.has_cupy() else "CuPy is not installed"


def pytest_collection_modifyitems(items) -> None:
    reason = why_not()
    for item in items:
        if "gpu" not in item.path.parts:
            continue
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"needs a Hopper GPU: {reason}"))


@pytest.fixture(scope="session")
def cupy():
    """CuPy, imported only where these tests run."""
    return pytest.importorskip("cupy")
