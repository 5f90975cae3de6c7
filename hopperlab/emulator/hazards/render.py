# SPDX-License-Identifier: Apache-2.0
"""The one renderer of hazards: words, HTML and JSON of the data that a Hazard is. What it says stands in kinds.py (of deadlocks also in situation.py).

`folders=False` leaves out the folders of the kernel's own files, as a notebook prints them wherever it runs.
"""
from __future__ import annotations

import html as escapes
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from .kinds import CASES, RULES
from .situation import SITUATIONS, Situation

if TYPE_CHECKING:
    from .kinds import Case


SEVERITIES = {"error": "", "warning": " (warning)", "compiler": " (by the compiler)"}


def words(hazard: Any, folders: bool = True) -> str:
    """The whole report: kind, what happened, at which lines, and what is missing."""
    return f"{hazard.kind}{SEVERITIES[hazard.severity]}: {message(hazard, folders)}"


def message(hazard: Any, folders: bool = True) -> str:
    """The report without its kind."""
    case, given = CASES[hazard.case], _given(hazard, folders)
    text = case.what.format_map(given) + _step(case, hazard, given)
    if case.seen:
        text += f" (first seen in block {hazard.block}, thread {hazard.thread})"
    return text


def step(hazard: Any, folders: bool = True) -> str:
    """The missing step alone: what to write, and where."""
    return _step(CASES[hazard.case], hazard, _given(hazard, folders))


def _step(case: Case, hazard: Any, given: dict[str, Any]) -> str:
    extra = "".join(text.format_map(given) for fact, text in case.extras if hazard.facts.get(fact))
    return case.step.format_map(given) + extra


def html(hazard: Any, folders: bool = True) -> str:
    """The report as an HTML paragraph and, where something is missing, a second one with the step."""
    case, given = CASES[hazard.case], _given(hazard, folders)
    what, missing = case.what.format_map(given).rstrip(" .,:;"), _step(case, hazard, given).strip()
    lines = escapes.escape(what).replace("\n", "<br>")
    head = f'<p class="hazard {escapes.escape(hazard.severity)}"><b>{escapes.escape(str(hazard.kind))}</b>: {lines}.</p>'
    return head + (f'<p class="step">{escapes.escape(missing)}</p>' if missing else "")


def as_dict(hazard: Any, folders: bool = True) -> dict[str, Any]:
    """Plain data for JSON: kind, case, severity, both ends, place in memory, who, the facts, and the words."""
    plain = {f.name: _plain(getattr(hazard, f.name), folders) for f in fields(hazard)}
    return {**plain, "warp": hazard.warp, "lane": hazard.lane, "message": message(hazard, folders), "step": step(hazard, folders)}


def _plain(value: Any, folders: bool) -> Any:
    if hasattr(value, "opcode"):                             # an End
        site = value.place.site
        return {"instruction": value.name, "opcode": value.opcode, "place": value.place.text(folders), "line": None if site is None else site.line,
                "frames": value.place.trace}
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), folders) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(v, folders) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v, folders) for k, v in value.items()}
    return str(value) if isinstance(value, str) else value


def _given(hazard: Any, folders: bool) -> dict[str, Any]:
    """What the words of a case may name: both ends, the place in memory, and the facts, as text."""
    given = {"block": hazard.block, "thread": hazard.thread, "address": hazard.address, "agent": hazard.agent}
    given |= {name: _text(value, folders) for name, value in hazard.facts.items()}
    for name, end in (("here", hazard.here), ("there", hazard.there)):
        given[name] = end.text(folders) if end is not None else "an instruction"
        if end is not None:
            given |= {f"{name}_name": end.name, f"{name}_place": end.place.text(folders)}
    if "rule" in hazard.facts:
        given["rule"] = RULES[hazard.facts["rule"]]
        given["elsewhere"] = f"; they are at {given['there_place']} ({given['there_name']})" if hazard.there is not None else ""
    given["where"] = f"byte {hazard.address} of {hazard.array}" if hazard.space == "global" else _shared(hazard.address, str(hazard.facts.get("named", "")))
    return given


def _shared(address: int | None, named: str) -> str:
    return "" if address is None else f"shared address {address:#x}" + (f" ({named})" if named else "")


def _text(value: object, folders: bool) -> object:
    """A fact as the words want it: lines of instructions beside each other, situations of waiting threads one below the other."""
    if isinstance(value, tuple) and value:
        if isinstance(value[0], Situation):
            return "".join(f"\n  - {situation(one, folders)}" for one in value)
        if hasattr(value[0], "line"):
            return ", ".join(place.line(folders) for place in value)
    return value


def situation(one: Situation, folders: bool = True) -> str:
    """One line of a deadlock: who waits where for what, or what would release it."""
    given = {name: _text(value, folders) for name, value in one.facts.items()}
    if one.end is not None:
        given["here"] = one.end.text(folders)
    return one.who + SITUATIONS[one.case].format_map(given)
