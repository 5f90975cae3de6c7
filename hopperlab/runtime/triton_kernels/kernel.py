# SPDX-License-Identifier: Apache-2.0
"""`hl.from_triton(kernel, …)`: a kernel of Triton or Gluon that is launched with arrays and numbers, on the GPU or in the emulator.

    kernel = hl.from_triton(add, "*fp32:16, *fp32:16, *fp32:16, i32", {"BLOCK": 128}, num_warps=4)
    kernel[(8,)](x, y, out, 1000)

Without a signature each launch is specialised as Triton's JIT would specialise it for these arguments.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays import array_module
from ..errors import LaunchError, TritonError
from ..module import RawKernel, RawModule
from ..shapes import Shape, triple
from . import argument_types, passing, to_ptx
from .argument_types import Type

WARP = 32
Grid: TypeAlias = Shape | Callable[[dict[str, Any]], Shape]
"""Programs along x, y and z, or a function of the arguments by name that gives them, as in Triton."""


def from_triton(kernel: Any, signature: Mapping[str, Any] | Sequence[Any] | str | None = None, constexprs: Mapping[str, Any] | None = None, *, num_warps: int = 4,
                backend: str | None = None, **options: Any) -> TritonKernel:
    """A @triton.jit or @gluon.jit function as a kernel, compiled by Triton for Hopper (no GPU needed).

    signature:  the type of each parameter that is no constexpr, by name or in order: '*fp16' or '*fp16:16' (divisible by 16), 'i32', 'i32:16',
    'i32:1' (equal to 1), 'fp32',
                'tensordesc<fp16[128,64]>' (in Gluon a tuple ("fp16", (128, 64), layout)). What the hints leave out is compiled as unknown: other
                code than the JIT would run.
                None: types and hints are chosen at each launch, from its arguments, as the JIT does
    constexprs: values of the constexpr parameters (those with defaults may be left out)
    num_warps:  warps of a CTA; Gluon's worker warps come on top. options: Triton's others, such as num_stages=3, num_ctas=2, maxnreg=168
    backend:    None takes HOPPERLAB_BACKEND, else auto; 'gpu' or 'emulator' asks for one place
    The kernel is called as kernel[grid](arguments …), as in Triton, or kernel(grid, (arguments …)). The grid counts programs. A descriptor is given as the whole array.
    Raises TritonError where Triton is missing, does not compile it, or the signature does not fit.
    """
    made = TritonKernel(kernel, dict(constexprs or {}), {"num_warps": num_warps, **options}, backend)
    if signature is not None:
        made.fix(signature)
    return made


class TritonKernel:
    """A kernel of Triton. `ptx` and `raw` (the hl.RawKernel) are those of the latest specialisation: the only one, where a signature was given."""

    def __init__(self, kernel: Any, constexprs: dict[str, Any], options: dict[str, Any], backend: str | None):
        self.parameters = to_ptx.parameters(kernel)
        self.kernel, self.constexprs, self.options, self.backend = kernel, constexprs, options, backend
        names = [p.name for p in self.parameters]
        unknown = [name for name in constexprs if name not in names]
        if unknown:
            raise TritonError(f"{self.name} has no parameter {', '.join(unknown)}; it has {', '.join(names)}")
        self._types: dict[str, Type] | None = None
        self._built: dict[Any, tuple[to_ptx.Built, RawKernel]] = {}
        self._latest: tuple[to_ptx.Built, RawKernel] | None = None

    @property
    def name(self) -> str:
        """The function's name."""
        return str(self.kernel.__name__)

    def fix(self, signature: Mapping[str, Any] | Sequence[Any] | str) -> None:
        """Compile for one signature, which every launch has to fit."""
        for parameter in self.parameters:
            if parameter.is_constexpr and parameter.name not in self.constexprs:
                if not parameter.has_default:
                    raise TritonError(f"{self.name}: constexprs lacks {parameter.name}")
                self.constexprs[parameter.name] = parameter.default
        order = [p.name for p in self.parameters if p.name not in self.constexprs]
        self._types = {name: argument_types.read(f"{self.name}, {name}", word) for name, word in argument_types.named(order, signature).items()}
        self._specialised(self._types, self.constexprs, self.options)

    @property
    def ptx(self) -> str:
        """The PTX; `.file` entries name Python files without their folders."""
        return self._compiled()[0].ptx

    @property
    def raw(self) -> RawKernel:
        """The kernel underneath, whose arguments are the PTX's."""
        return self._compiled()[1]

    @property
    def metadata(self) -> to_ptx.Built:
        """Warps, CTAs of a cluster, shared memory, tensor maps and scratch of the compiled kernel."""
        return self._compiled()[0]

    def _compiled(self) -> tuple[to_ptx.Built, RawKernel]:
        if self._latest is None:
            raise TritonError(f"{self.name} is compiled at its first launch, since no signature was given")
        return self._latest

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        return lambda *args, **keywords: self._launch(grid, args, keywords)

    def __call__(self, grid: Grid, args: Sequence[Any] = (), **keywords: Any) -> None:
        """Launch `grid` programs with the arguments in the signature's order, constexprs that are fixed left out."""
        if not isinstance(args, (tuple, list)):
            raise LaunchError(f"{self.name}: arguments must be a tuple; for one argument write (a,)")
        self._launch(grid, args, keywords)

    def _launch(self, grid: Grid, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        given, options = self._bound(args, keywords)
        types = self._types if self._types is not None else self._chosen(given)
        if self._types is not None and options != self.options:
            raise LaunchError(f"{self.name} is compiled already: give options such as num_warps to from_triton")
        constants = {name: value for name, value in given.items() if name not in types}
        built, kernel = self._specialised(types, constants, options)
        programs = triple("grid", grid(dict(given)) if callable(grid) else grid)
        kernel((programs[0] * built.ctas, *programs[1:]), (WARP * built.warps,), self._passed(types, given, built, programs), shared_mem=built.shared,
               cluster=(built.ctas, 1, 1) if built.ctas > 1 else None, cooperative=built.cooperative or None, dependent=built.dependent)

    def _bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(value of every parameter by name, options), as Python binds them; parameters that constexprs fixes take no place among the arguments."""
        free = [p.name for p in self.parameters if p.name not in self.constexprs]
        if len(args) > len(free):
            raise LaunchError(f"{self.name} takes {len(free)} arguments, {len(args)} given. It takes: {', '.join(free) or 'nothing'}")
        values = dict(zip(free, args))
        options = dict(self.options)
        for name, value in keywords.items():
            if name in values or name in self.constexprs:
                raise LaunchError(f"{self.name}: {name} is given twice")
            (values if name in free else options)[name] = value
        for parameter in self.parameters:
            if parameter.name not in values and parameter.name not in self.constexprs:
                if not parameter.has_default:
                    raise LaunchError(f"{self.name} takes {len(free)} arguments, {len(args)} given: {parameter.name} is missing. It takes: {', '.join(free)}")
                values[parameter.name] = parameter.default
        return {p.name: values.get(p.name, self.constexprs.get(p.name)) for p in self.parameters}, options

    def _chosen(self, given: Mapping[str, Any]) -> dict[str, Type]:
        """The JIT's choice for each argument that is passed."""
        found = {}
        for parameter in self.parameters:
            if parameter.is_constexpr or parameter.name in self.constexprs:
                continue
            annotated = parameter.annotation_type if isinstance(parameter.annotation_type, str) else ""
            plain = annotated == "u1" or annotated[:2] in ("fp", "bf")
            type_ = argument_types.chosen(given[parameter.name], parameter.is_const, not parameter.do_not_specialize and not plain,
                                          not parameter.do_not_specialize_on_alignment, annotated)
            if type_ is not None:
                found[parameter.name] = type_
        return found

    def _specialised(self, types: Mapping[str, Type], constants: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[to_ptx.Built, RawKernel]:
        """The kernel compiled for these types, once."""
        key = (tuple((name, str(type_)) for name, type_ in types.items()), repr(sorted(constants.items())), repr(sorted(options.items())))
        if key not in self._built:
            ones = {name: 1 for name, type_ in types.items() if type_.hint == 1}
            built = to_ptx.build(self.kernel, {name: type_ for name, type_ in types.items() if name not in ones}, {**constants, **ones}, options)
            module = RawModule(ptx=built.ptx, name=f"{built.name}.ptx", backend=self.backend)
            self._built[key] = built, module.get_function(built.name)
        self._latest = self._built[key]
        return self._latest

    def _passed(self, types: Mapping[str, Type], given: Mapping[str, Any], built: to_ptx.Built, programs: tuple[int, int, int]) -> tuple[Any, ...]:
        """The PTX's arguments: in the order of the signature, then the two scratch buffers."""
        passed: list[Any] = []
        maps = iter(built.maps)
        for name, type_ in types.items():
            where, value = f"{self.name}, {name}", given[name]
            if type_.kind == "pointer":
                passed.append(passing.pointer(where, type_, value))
            elif type_.kind == "descriptor":
                passed += passing.descriptor(where, type_, value, next(maps))
            else:
                made = passing.number(where, type_, value)
                passed += [] if type_.hint == 1 else [made]
        count, xp = programs[0] * programs[1] * programs[2] * built.ctas, array_module(self.backend)
        passed += [xp.zeros(count * size, np.uint8) if size else np.uint64(0) for size in built.scratch]
        return tuple(passed)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {type_}" for name, type_ in (self._types or {}).items()) or "specialised at each launch"
        return f"<TritonKernel {self.name}({shown})>"
