"""A PTX text ready to launch: parsed when first asked, each kernel translated once."""
from __future__ import annotations

from dataclasses import dataclass

from .errors import LaunchError
from .ops import resolve
from .ptx.parser import parse
from .translate import Translation


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
    """PTX text with its kernels. resources: per kernel, what the compiler reported (attribute `registers`)."""

    def __init__(self, ptx: str, resources: dict | None = None):
        self.ptx, self.resources = ptx, resources or {}
        self._module = None
        self._translations: dict[str, Translation] = {}

    @property
    def module(self):
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

    def function(self, name: str):
        """The parsed kernel `name`; LaunchError names the kernels there are."""
        found = self.module.kernels.get(name)
        if found is None:
            raise LaunchError(f"no kernel {name!r} in this module; it has: {', '.join(self.module.kernels) or 'none'}")
        return found

    def translation(self, name: str) -> Translation:
        """The kernel translated to NumPy code."""
        if name not in self._translations:
            self._translations[name] = Translation(self.function(name), resolve)
        return self._translations[name]
