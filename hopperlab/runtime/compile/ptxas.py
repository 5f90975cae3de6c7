# SPDX-License-Identifier: Apache-2.0
"""What ptxas says about each kernel: registers, spills, shared memory and notes, read from NVRTC's log.

NVRTC passes `--ptxas-options=-v` on to ptxas and returns its lines in the program log.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..tables import text_table

# Notes that change what runs: setmaxnreg ignored; wgmma serialised. ptxas has one code a cause, so the texts decide too.
SERIOUS = frozenset({"C7508", "C7510", "C7511", "C7515"})
SERIOUS_TEXT = ("'setmaxnreg' ignored", "wgmma.mma_async instructions are serialized")

SERIALISED = "each wgmma now waits for the one before it"
FEW_REGISTERS = f"{SERIALISED}, for want of registers: give the warps that multiply more of them (setmaxnreg), or a smaller tile"
UNSEEN = (f"{SERIALISED}: ptxas must see in the program, whatever path it takes, which wait (wgmma.wait_group) covers which {{}}. Touch them behind that wait alone; "
          "where two sets take turns, write out a turn of each (the loop by twos), and let no condition stand between a product and its wait")
ADVICE = {
    "C7508": "setmaxnreg does nothing in this kernel: give it __launch_bounds__(threads, 1), so that ptxas knows the "
             "registers at entry",
    "C7511": FEW_REGISTERS, "C7512": FEW_REGISTERS,
    "C7513": UNSEEN.format("fragments of A"), "C7514": UNSEEN.format("accumulators"), "C7515": UNSEEN.format("accumulators"),
    "C7519": "ptxas added the missing warpgroup.arrive (wgmma.fence) itself: information, not an error",
}
BY_CAUSE = {
    "insufficient register resources": FEW_REGISTERS,
    "divergent path": f"{SERIALISED}: ptxas put in a fence or a wait of its own where only some threads of the warpgroup may come by. "
                      "Run wgmma.fence before the products and wgmma.wait_group behind them, both where the whole warpgroup comes by",
}
"""By words of the note, for codes that are not in ADVICE."""
OTHERS = f"{SERIALISED}: take out of the pipeline what the note names"

_NOTE = re.compile(r"ptxas\s+(?P<level>info|warning|error)\s*:\s*\((?P<code>C\d+)\)\s*(?P<text>.*)")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_QUOTED = re.compile(r"function '([^']+)'")


@dataclass(frozen=True)
class Note:
    """One remark of ptxas: its code ('C7508'), its text, and the kernel it names (None when it names none)."""

    code: str
    text: str
    kernel: str | None = None

    @property
    def serious(self) -> bool:
        """True when the note changes what runs (then it is an error in lessons and in %%cuda)."""
        return self.code in SERIOUS or any(text in self.text for text in SERIOUS_TEXT)

    def __str__(self) -> str:
        cause = next((advice for words, advice in BY_CAUSE.items() if words in self.text), OTHERS)
        advice = ADVICE.get(self.code, cause if self.serious else None)
        return f"{self.code}: {self.text}" + (f"\n    -> {advice}" if advice else "")


@dataclass(frozen=True)
class KernelUse:
    """What one kernel uses. Registers are counted per thread; the rest is in bytes."""

    name: str
    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    static_shared: int = 0
    constant: int = 0
    barriers: int = 0
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class PtxasInfo(Mapping[str, KernelUse]):
    """`KernelUse` by kernel name, and `notes`: every note of the module. Printing it gives a small table."""

    kernels: dict[str, KernelUse] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def __getitem__(self, name: str) -> KernelUse:
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __str__(self) -> str:
        return table(self)

    __repr__ = __str__


def parse(log: str) -> PtxasInfo:
    """Read ptxas's lines out of an NVRTC log. Lines of other kinds are ignored."""
    uses: dict[str, KernelUse] = {}
    notes: list[Note] = []
    current: str | None = None
    for line in log.splitlines():
        if match := _NOTE.search(line):
            named = _QUOTED.search(match["text"])
            notes.append(Note(match["code"], match["text"].strip(), named[1] if named else None))
        elif match := _ENTRY.search(line):
            current = match[1]
            uses.setdefault(current, KernelUse(current))
        elif match := _PROPERTIES.search(line):
            current = match[1] if match[1] in uses else None
        elif current and (match := _STACK.search(line)):
            stack, stores, loads = map(int, match.groups())
            uses[current] = replace(uses[current], stack=stack, spill_stores=stores, spill_loads=loads)
        elif current and (match := _USED.search(line)):
            uses[current] = replace(uses[current], registers=int(match[1]), **_sizes(line))
    alone = next(iter(uses)) if len(uses) == 1 else None
    notes = [replace(note, kernel=note.kernel or alone) for note in notes]
    for name, use in uses.items():
        uses[name] = replace(use, notes=tuple(n for n in notes if n.kernel == name))
    return PtxasInfo(uses, tuple(notes))


def _sizes(line: str) -> dict[str, Any]:
    """Barriers, static shared memory and constant bytes of a 'Used … registers' line."""
    barriers = re.search(r"used (\d+) barriers", line)
    shared = re.search(r"(\d+)(?:\+\d+)? bytes smem", line)
    constant = sum(int(n) for n in re.findall(r"(\d+) bytes cmem", line))
    return {"barriers": int(barriers[1]) if barriers else 0, "static_shared": int(shared[1]) if shared else 0,
            "constant": constant}


def without_ptxas(log: str) -> str:
    """The compiler's own lines of an NVRTC log: errors, warnings and remarks."""
    lines = [line for line in log.splitlines() if not line.startswith("ptxas ")]
    return "\n".join(lines).strip()


def table(info: PtxasInfo) -> str:
    """A text table: one line a kernel, then the notes."""
    rows = [(use.name, use.registers, use.spill_stores + use.spill_loads, use.static_shared, use.barriers) for use in info.values()]
    lines = text_table("{:<*}  {:*d}  {:*d}  {:*d}  {:*d}", rows, ("kernel", "registers", "spills (bytes)", "static shared", "barriers"))
    return "\n".join([*lines, *(str(note) for note in info.notes)])
