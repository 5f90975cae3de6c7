# SPDX-License-Identifier: Apache-2.0
"""Instructions that sm_90a does not have: each is an error that names the architecture that has it."""
from __future__ import annotations

from .common import no_sm_90a, unsupported

ELSEWHERE = {
    "tcgen05": ("tensor memory and the fifth-generation tensor core", "sm_100a"),
    "clusterlaunchcontrol": ("work stealing between clusters", "sm_100"),
}
ABSENT = {
    "tex": "texture fetches", "tld4": "texture fetches", "txq": "texture queries", "suld": "surface accesses", "sust": "surface accesses",
    "sured": "surface accesses", "suq": "surface queries", "istypep": "opaque types",
}


def _elsewhere(instr, function):
    raise no_sm_90a(instr, *ELSEWHERE[instr.op])


def _absent(instr, function):
    raise unsupported(instr, f"{ABSENT[instr.op]} are not modelled: the emulator has no texture objects")


RESOLVERS = {**dict.fromkeys(ELSEWHERE, _elsewhere), **dict.fromkeys(ABSENT, _absent)}
