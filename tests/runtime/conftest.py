# SPDX-License-Identifier: Apache-2.0
"""Each test of the runtime gets its own disk cache, and the emulator as the place."""
import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPERLAB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HOPPERLAB_CACHE_MB", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def emulator_place(monkeypatch):
    """This process's automatic choice, forced to the emulator without touching what was cached before."""
    from hopperlab.runtime import backend
    monkeypatch.setenv("HOPPERLAB_BACKEND", "emulator")
    backend._from_environment.cache_clear()
    yield
    backend._from_environment.cache_clear()
