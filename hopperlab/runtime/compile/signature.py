# SPDX-License-Identifier: Apache-2.0
"""A kernel's signature, read from its PTX: parameter sizes, launch bounds, cluster shape.

Only the lines from `.entry` to the opening brace are read, so this works on PTX that the emulator does not run.
[PTX ISA: Kernel and Function Directives, Performance-Tuning Directives, Cluster Dimension Directives]
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import PtxError

WIDTH = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_ENTRY = re.compile(r"\.entry\s+(?P<name>[\w$%]+)\s*(?:\((?P<params>[^)]*)\))?(?P<directives>[^{;]*)\{")
_PARAM = re.compile(r"\.param\s+(?P<middle>(?:\.\w+\s+(?:\d+\s+)?)*?)\.(?P<type>[busf](?P<bits>8|16|32|64|128)|pred)"
                    r"\s+(?P<pointer>(?:\.ptr\b[^,]*?)?)(?P<name>[\w$%]+)\s*(?:\[(?P<count>\d+)\])?\s*$")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"\.(?P<word>\w+)(?P<values>[\d,\s]*)")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its size and alignment in bytes and its PTX type ('u64', 'b8' …)."""

    name: str
    size: int
    align: int
    type: str

    def describe(self) -> str:
        """The parameter in a learner's words."""
        if self.type == "b8" and self.size > 1:
            return f"a {self.size}-byte structure passed by value"
        return f"{self.size} byte{'s' if self.size > 1 else ''} (.{self.type})"


@dataclass(frozen=True)
class Signature:
    """A kernel's name, parameters, and what its attributes demand of a launch."""

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int | None = None              # product of .maxntid, from __launch_bounds__
    required_block: tuple[int, int, int] | None = None      # .reqntid
    cluster: tuple[int, int, int] | None = None             # .reqnctapercluster, from __cluster_dims__
    explicit_cluster: bool = False                          # .explicitcluster: launched with clusters only
    max_cluster: int | None = None                          # .maxclusterrank
    max_registers: int | None = None                        # .maxnreg
    min_blocks: int | None = None                           # .minnctapersm


def read_signatures(ptx: str) -> dict[str, Signature]:
    """The signature of every kernel in a PTX text, by its (mangled) name."""
    found = {}
    for match in _ENTRY.finditer(_COMMENT.sub("", ptx)):
        parameters = tuple(_parameter(text) for text in (match["params"] or "").split(",") if text.strip())
        found[match["name"]] = Signature(match["name"], parameters, **_launch_bounds(match["directives"]))
    return found


def kernel_text(ptx: str, name: str) -> str:
    """The text of a kernel, roughly: from its header to the next function's."""
    start = re.search(rf"\.entry\s+{re.escape(name)}(?![\w$])", ptx)
    if start is None:
        return ""
    end = re.search(r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)?\.(?:entry|func)\b", ptx[start.end():], re.MULTILINE)
    return ptx[start.end():start.end() + end.start() if end else len(ptx)]


def _parameter(text: str) -> Parameter:
    match = _PARAM.search(" ".join(text.split()))
    if not match:
        raise PtxError(f"PTX parameter {text.strip()!r} is not understood")
    width = WIDTH.get(match["bits"] or "8", 1)
    count = int(match["count"]) if match["count"] else 1
    align = re.search(r"\.align\s+(\d+)", match["middle"])
    return Parameter(match["name"], width * count, int(align[1]) if align else width, match["type"])


def _launch_bounds(directives: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for match in _DIRECTIVE.finditer(directives):
        values = [int(v) for v in re.findall(r"\d+", match["values"])]
        shape = tuple([*values, 1, 1, 1][:3])
        possible = bool(values) and min(shape) > 0              # what is not is for whoever reads the whole text to refuse
        if match["word"] == "maxntid" and possible:
            result["max_threads"] = shape[0] * shape[1] * shape[2]
        elif match["word"] == "reqntid" and possible:
            result["required_block"] = shape
        elif match["word"] == "reqnctapercluster" and possible:
            result["cluster"] = shape
        elif match["word"] == "maxclusterrank" and values:
            result["max_cluster"] = values[0]
        elif match["word"] == "maxnreg" and values:
            result["max_registers"] = values[0]
        elif match["word"] == "minnctapersm" and values:
            result["min_blocks"] = values[0]
        elif match["word"] == "explicitcluster":
            result["explicit_cluster"] = True
    return result
