# SPDX-License-Identifier: Apache-2.0
"""`measure.tune(m, n, k)`: time what the model thinks best on this GPU, and remember the fastest, by board and driver.

`gemm_choice.choose` asks `remembered` before it asks the model, on a GPU only: what is recorded elsewhere, and what the emulator runs, stays the same.
"""
from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...runtime.compile import cache
from .gemm_configurations import Choice, Final, choice_named

FILE = "tuned_products.json"


@dataclass(frozen=True)
class Tuned:
    """What `tune` found. times: (configuration, ms) of all that were timed, the fastest first; model_ms: of the model's first."""

    shape: tuple[int, int, int]
    times: tuple[tuple[Choice, float], ...]
    model_ms: float

    @property
    def choice(self) -> Choice:
        """The fastest."""
        return self.times[0][0]

    @property
    def gain(self) -> float:
        """Speed over that of the model's first."""
        return self.model_ms / self.times[0][1]

    def __str__(self) -> str:
        best = " ".join(part for part in self.choice.named if not part.startswith(("TMA_STORE", "BLOCKS", "PROMOTION")))
        return (f"{' x '.join(map(str, self.shape))}: {1000 * self.times[0][1]:.1f} us, {self.gain:.3f} of the speed of the model's first, "
                f"of {len(self.times)} timed: {best}")


def _file() -> Path:
    return cache.folder() / FILE


def board() -> str:
    """This GPU and its driver, as the key of what is remembered."""
    import cupy
    name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"].decode()
    return f"{name}, driver {cupy.cuda.runtime.driverGetVersion()}"


def _read() -> dict[str, dict[str, list[str]]]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):                           # not there, or not whole: nothing is remembered
        return {}
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=1)
def _known(key: str) -> dict[str, Choice]:
    found = {}
    for shape, named in _read().get(key, {}).items():
        choice = choice_named(named)
        if choice is not None:                              # None: written by a version that had other choices
            found[shape] = choice
    return found


def _key(m: int, n: int, k: int, b_mn: bool) -> str:
    return f"{m}x{n}x{k}" + (" b_mn" if b_mn else "")


def remembered(m: int, n: int, k: int, b_mn: bool = False) -> Choice | None:
    """The configuration that `tune` found fastest on this GPU for this shape and order of B; None where it was never asked."""
    return _known(board()).get(_key(m, n, k, b_mn))


def remember(m: int, n: int, k: int, choice: Final) -> None:
    """Keep a configuration for this GPU and driver. A cache that cannot be written is no error: nothing is kept then."""
    everything, key = _read(), board()
    everything.setdefault(key, {})[_key(m, n, k, bool(choice.b_mn))] = list(choice.named)
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps(everything, indent=1), encoding="utf-8")
    except OSError:
        return
    _known.cache_clear()
