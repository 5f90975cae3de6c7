# SPDX-License-Identifier: Apache-2.0
"""A Hazard as data: what kind, which situation, both ends, where in memory, who, and the numbers. render.py makes words, HTML and JSON of it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..ptx.ir import Instr, Site
from ..ptx.places import Place, name
from . import render
from .kinds import Kind


@dataclass(frozen=True)
class End:
    """One end of a hazard: an instruction, as a learner calls it, and where it stands."""

    name: str
    opcode: str
    place: Place

    @staticmethod
    def of(instr: Instr) -> "End":
        """The end that an instruction is."""
        return End(name(instr), instr.opcode, Place.of(instr))

    def text(self, folders: bool = True) -> str:
        """The instruction and its place."""
        return f"{self.name} at {self.place.text(folders)}"


@dataclass(frozen=True)
class Hazard:
    """One synchronisation error, named at both of its ends.

    kind:     the class of error, one of kinds.Kind ('read-before-arrival', 'overwrite-in-flight', 'race', 'deadlock' …)
    case:     which situation of that kind: the key of its words in kinds.CASES
    here:     the access that came too early (None where a fault has no instruction)
    there:    the operation it collided with, where there is one
    block, thread: one CTA (x, y, z) and thread that showed it
    space, address, array: the place in memory: 'shared' and an offset in the CTA's window, or 'global' and a byte of the array of that name
    agent:    who made the other access: 'plain' (a thread), 'wgmma', 'bulk', 'cp.async' or 'copy' (a copy that signals an mbarrier)
    facts:    the numbers and names that belong to this situation alone
    severity: 'error', 'warning' for what is legal and suspicious (`session.warnings`; it ends no launch), or 'compiler' for what a compiler of another
              language made and the source cannot mend (`session.by_compiler`; it ends no launch either)
    """

    kind: Kind
    case: str
    here: End | None = None
    there: End | None = None
    block: tuple[int, int, int] | None = None
    thread: int | None = None
    space: str = ""
    address: int | None = None
    array: str = ""
    agent: str = ""
    facts: Mapping[str, object] = field(default_factory=dict, hash=False)
    severity: str = "error"

    @property
    def where(self) -> Site | None:
        """Source position of the access that came too early."""
        return self.here.place.site if self.here is not None else None

    @property
    def other(self) -> Site | None:
        """Source position of the operation it collided with."""
        return self.there.place.site if self.there is not None else None

    @property
    def warp(self) -> int | None:
        """Warp of the thread, in its block."""
        return None if self.thread is None else self.thread // 32

    @property
    def lane(self) -> int | None:
        """Lane of the thread, in its warp."""
        return None if self.thread is None else self.thread % 32

    @property
    def step(self) -> str:
        """The step that is missing, in words: what to write, and where."""
        return render.step(self)

    @property
    def message(self) -> str:
        """What happened and what is missing, in plain words."""
        return render.message(self)

    def at_length(self) -> Hazard:
        """The same, with all frames of inlined functions in its words."""
        here, there = (end and replace(end, place=replace(end.place, whole=True)) for end in (self.here, self.there))
        return replace(self, here=here, there=there)

    @property
    def frames(self) -> dict[str, list[str]]:
        """Every frame of both ends ('here', 'there'), from the kernel inwards: 'file:line in function'."""
        return {name: end.place.trace for name, end in (("here", self.here), ("there", self.there)) if end is not None}

    def sort_key(self) -> tuple[str | int, ...]:
        """Hazards are listed by file, line and kind, so that the order is the same under every schedule."""
        return (*_position(self.where), self.kind, *_position(self.other))

    def __str__(self) -> str:
        return render.words(self)


def _position(site: Site | None) -> tuple[str, int]:
    return (site.file, site.line) if site is not None else ("", 0)
