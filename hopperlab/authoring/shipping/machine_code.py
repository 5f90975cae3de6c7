# SPDX-License-Identifier: Apache-2.0
"""What lessons/machine_facts.json keeps: all that lessons ask of machine code and of ptxas's notes, for machines that have neither.

`python -m hopperlab.authoring.shipping.machine_code` writes it anew where NVRTC and nvdisasm are; tests/lessons/test_machine_facts.py says when that is due.
"""
from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from ...lessons.l08_wgmma.one_tile import EARLY, options_of
from ...lessons.l10_warp_specialization.elected import CHOICES, issuing_lines
from ...lessons.l11_setmaxnreg.budget import BUILDS
from ...lessons.l12_clusters.hand_back import SCOPES, fences
from ...lessons.machine_facts import FILE, ask_here, key_of
from ...runtime.compile import toolchain


def asked() -> dict[str, Callable[[], Any]]:
    """All that is kept: how to ask for it, by key."""
    tiles = [options_of(64, blocks, in_flight=1, options=EARLY) for blocks in (1, 4)]
    kernels = [("wgmma/one_tile.cu", "one_tile", options) for options in tiles] + [("registers/roles.cu", "gemm", roles.options) for roles in BUILDS]
    return {**{key_of(path, options): partial(ask_here, path, name, options) for path, name, options in kernels},
            **{f"one_load: {choice}": partial(issuing_lines, choice) for choice in CHOICES},
            **{f"hand_back: {scope}": partial(fences, scope) for scope in SCOPES}}


def write() -> None:
    """Ask ptxas and nvdisasm of this machine, and keep what they say."""
    said = {"said_by": ".".join(map(str, toolchain.nvrtc_version())), "facts": {key: ask() for key, ask in asked().items()}}
    FILE.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
