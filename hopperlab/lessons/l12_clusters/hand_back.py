# SPDX-License-Identifier: Apache-2.0
"""Lesson 12: what one word of the arrival that hands a slot back costs in machine code."""
from __future__ import annotations

from functools import partial

from ..machine_facts import fact

SCOPES = ("release.cluster", "release.cta")

ARRIVE = """
extern "C" __global__ void hand_back(unsigned barrier) {
    asm volatile("mbarrier.arrive.SCOPE.shared::cluster.b64 _, [%0];" :: "r"(barrier) : "memory");
}"""
"""The lesson's kernel of one arrival; SCOPE is one of SCOPES."""


def fences(scope: str, code: str = ARRIVE) -> list[str]:
    """The fences in its machine code, by opcode. Raises ToolchainError without an assembler."""
    import hopperlab as hl

    machine = hl.sass(hl.RawModule(code=code.replace("SCOPE", scope), backend="emulator"), "hand_back")
    return [str(instruction).split()[0] for instruction in machine.instructions if instruction.kind == "fence"]


def fences_table(code: str = ARRIVE) -> str:
    """A line a scope: how many fences, and which. Of another kernel than ARRIVE nothing is kept: raises ToolchainError without an assembler."""
    lines, kept = [], ""
    for scope in SCOPES:
        found, kept = fact(f"hand_back: {scope}" if code == ARRIVE else "", partial(fences, scope, code))
        lines.append(f"{scope:16s} {len(found)} fences: {', '.join(found)}")
    return "\n".join([*lines, f"({kept})"] if kept else lines)
