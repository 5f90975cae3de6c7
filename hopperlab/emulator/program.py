# SPDX-License-Identifier: Apache-2.0
"""A PTX text ready to launch: parsed when first asked, each kernel translated once."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import LaunchError
from .compile.link import link
from .ops import resolve, stack
from .ptx.parser import parse
from .compile.translate import Translation
from .machine.variables import Variables

if TYPE_CHECKING:
    from .machine.memory import GlobalMemory
    from .ptx.ir import Function, Module


@dataclass(frozen=True)
class ParamInfo:
    """A kernel parameter: `type` is the PTX type ('b8' with size 128 for a tensor map)."""

    name: str
    size: int
    align: int
    type: str


@dataclass(frozen=True)
class KernelInfo:
    """What a launch must know of a kernel before it runs."""

    name: str
    params: tuple[ParamInfo, ...]
    maxntid: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    static_shared: int


class Program:
    """PTX text with its kernels and variables. resources: per kernel, what the compiler reported (attribute `registers`).

    `fresh()` gives a Program of the same text with variables of its own, as loading a module a second time does.
    """

    def __init__(self, ptx: str, resources: dict | None = None):
        self.ptx, self.resources = ptx, resources or {}
        self._module = None
        self._functions: dict[str, object] = {}
        self._translations: dict[str, Translation] = {}
        self._variables: Variables | None = None

    def fresh(self) -> "Program":
        """The same text, parsed and translated once, with variables that hold their initial values again."""
        twin = Program(self.ptx, self.resources)
        twin._module, twin._functions, twin._translations = self.module, self._functions, self._translations
        return twin

    @property
    def module(self) -> Module:
        """The parsed module."""
        if self._module is None:
            self._module = parse(self.ptx)
        return self._module

    @property
    def kernels(self) -> dict[str, KernelInfo]:
        """Every kernel by name."""
        return {name: self._info(f) for name, f in self.module.kernels.items()}

    def _info(self, f) -> KernelInfo:
        params = tuple(ParamInfo(p.name, p.size, p.align, p.type) for p in f.params)
        shared = sum(v.size for v in (*self.module.variables.values(), *f.variables) if v.space == "shared")
        return KernelInfo(f.name, params, f.directives.get("maxntid"), f.directives.get("reqnctapercluster"), shared)

    def function(self, name: str) -> Function:
        """The kernel `name`, with what it calls linked in (link.py); LaunchError names the kernels there are."""
        if name not in self._functions:
            found = self.module.kernels.get(name)
            if found is None:
                raise LaunchError(f"no kernel {name!r} in this module; it has: {', '.join(self.module.kernels) or 'none'}")
            self._functions[name] = stack.prepare(link(self.module, found))
        return self._functions[name]

    def variables(self, memory: GlobalMemory) -> Variables:
        """The module's global and constant variables in `memory`; their contents last as long as this Program."""
        if self._variables is None or self._variables.memory is not memory:
            self._variables = Variables(self.module, memory)
        return self._variables

    def translation(self, name: str) -> Translation:
        """The kernel translated to NumPy code."""
        if name not in self._translations:
            self._translations[name] = Translation(self.function(name), resolve)
        return self._translations[name]
