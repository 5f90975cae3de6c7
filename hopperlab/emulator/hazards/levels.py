# SPDX-License-Identifier: Apache-2.0
"""How loud a kind of hazard is: an error, a warning, or off. Most kinds are errors (or warnings, where kinds.py says so) and stay that; those in LEVELS can be switched
by `hl.emulate(levels={...})`, `hopperlab sanitize --level KIND=LEVEL`, or the environment variable below."""
from __future__ import annotations

import os
from collections.abc import Mapping

from .kinds import Kind

VARIABLE = "HOPPERLAB_HAZARD_LEVELS"           # "unfenced-overwrite=error", several with commas
CHOICES = ("error", "warning", "off")
LEVELS: Mapping[str, str] = {Kind.UNFENCED_OVERWRITE: "warning", Kind.UNFENCED_FLAG: "warning"}
"""The kinds that can be switched, and what they are when nobody asks."""


def parse(text: str) -> dict[str, str]:
    """'KIND=LEVEL,KIND=LEVEL' as a dictionary. Raises ValueError where a part is none."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    return checked({kind.strip(): level.strip() for kind, _, level in parts})


def checked(levels: Mapping[str, str]) -> dict[str, str]:
    """The same levels, if each kind can be switched and each level exists. Raises ValueError otherwise."""
    for kind, level in levels.items():
        if kind not in LEVELS:
            raise ValueError(f"hazard level of {str(kind)!r}: only {', '.join(map(str, LEVELS))} can be switched")
        if level not in CHOICES:
            raise ValueError(f"hazard level {level!r} of {kind}: choose one of {', '.join(CHOICES)}")
    return {str(kind): level for kind, level in levels.items()}


def chosen(levels: Mapping[str, str]) -> dict[str, str]:
    """Level by kind: those given, else those of the environment, else LEVELS."""
    return {**{str(kind): level for kind, level in LEVELS.items()}, **parse(os.environ.get(VARIABLE, "")), **checked(levels)}
