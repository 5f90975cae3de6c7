# SPDX-License-Identifier: Apache-2.0
"""From a @triton.jit or @gluon.jit function to PTX for Hopper: Triton's own compiler, which needs no GPU for that.

Triton is imported here and nowhere else in the package's runtime; what it must have is checked, so that another version says so.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import TritonError
from .argument_types import Type

CAPABILITY = 90
INSTALL = "python -m pip install 'triton==3.6.*' (Linux), or `pip install -e .[triton]` in the course's folder"
_FILE = re.compile(r'(\.file\s+(\d+)\s+)"[^"]*?([^"/\\]+)"')
_INLINED = re.compile(r"^([ \t]*)\.loc[ \t]+(\d+)[ \t]+(\d+)[ \t]+(\d+)[^\n]*?@\[ ([^\n]*?)[ \]]*$", re.MULTILINE)
_FRAME = re.compile(r"([^\s\[\]]+):(\d+):(\d+)")
_NAMELESS = "$L__inlined_function"


@dataclass(frozen=True)
class Built:
    """PTX, and what its launch has to know. maps: of each descriptor, in order, what its tensor map is (None: it is passed as a pointer with shape and strides).
    scratch: bytes a CTA of the two scratch buffers. cooperative, dependent: how it is launched."""

    name: str
    ptx: str = field(repr=False)
    warps: int
    ctas: int
    shared: int
    maps: tuple[Mapping[str, Any] | None, ...]
    scratch: tuple[int, int]
    cooperative: bool
    dependent: bool


def parameters(kernel: Any) -> list[Any]:
    """Triton's parameters of a kernel. Raises TritonError for what is no kernel of Triton."""
    triton = _triton()
    from triton.runtime.jit import JITFunction
    if isinstance(kernel, JITFunction):
        return list(kernel.params)
    inner = getattr(kernel, "fn", None)
    if isinstance(inner, JITFunction):
        raise TritonError(f"{type(kernel).__name__} chooses a configuration by running on a GPU: pass the kernel under it (kernel.fn), and one "
                          f"configuration's constexprs and num_warps")
    if type(kernel).__name__ == "InterpretedFunction":
        raise TritonError("TRITON_INTERPRET=1 makes Triton's interpreter of this kernel, which compiles nothing: unset it before Triton is imported")
    raise TritonError(f"from_triton takes a function with @triton.jit or @gluon.jit (Triton {triton.__version__}), not a {type(kernel).__name__}")


def _triton() -> Any:
    try:
        import triton
    except ImportError as problem:
        raise TritonError(f"Triton is not installed ({problem}). It compiles for Hopper without a GPU: {INSTALL}") from None
    return triton


def build(kernel: Any, types: Mapping[str, Type], constants: Mapping[str, Any], options: Mapping[str, Any]) -> Built:
    """Compile. types: of the parameters that are passed; constants: the others' values. Raises TritonError with Triton's own words."""
    triton = _triton()
    from triton.backends.compiler import GPUTarget
    names = [p.name for p in parameters(kernel)]
    _check_options(triton, options)
    place = {name: (number,) for number, name in enumerate(names)}
    signature = {name: types[name].word if name in types else "constexpr" for name in names}
    attributes = {place[name]: [["tt.divisibility", 16]] for name, type_ in types.items() if type_.hint == 16}
    source = _source(kernel)(kernel, signature, {place[name]: value for name, value in constants.items()}, attributes)
    try:
        compiled = triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32), options=dict(options))
    except Exception as problem:                            # Triton's errors have no common class
        raise TritonError(f"Triton does not compile {kernel.__name__}: {type(problem).__name__}: {str(problem).strip()[:2000]}") from problem
    return _built(compiled, list(types.values()))


def _source(kernel: Any) -> Any:
    if kernel.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource
        return GluonASTSource
    from triton.compiler import ASTSource
    return ASTSource


def _check_options(triton: Any, options: Mapping[str, Any]) -> None:
    from triton.backends.nvidia.compiler import CUDAOptions
    known = CUDAOptions.__dataclass_fields__
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TritonError(f"{', '.join(unknown)}: neither a parameter of the kernel nor an option of Triton {triton.__version__} ({', '.join(sorted(known))})")


def _built(compiled: Any, types: list[Type]) -> Built:
    data = compiled.metadata
    descriptors = sum(type_.kind == "descriptor" for type_ in types)
    maps = tuple(getattr(data, "tensordesc_meta", None) or (None,) * descriptors)
    if len(maps) != descriptors:
        raise TritonError(f"Triton {data.triton_version} describes {len(maps)} tensor maps for {descriptors} descriptors; this version is not known here")
    return Built(data.name, with_lines(compiled.asm["ptx"]), data.num_warps, data.num_ctas, data.shared, maps, (data.global_scratch_size, data.profile_scratch_size),
                 bool(data.launch_cooperative_grid), bool(data.launch_pdl))


def with_lines(ptx: str) -> str:
    """Triton's PTX with files named without their folders, and with the calls that led to an inlined line, which LLVM leaves in comments, as PTX states them
    (`inlined_at`, PTX ISA 11.5). Lines of the PTX keep their numbers."""
    ptx = _FILE.sub(r'\1"\3"', ptx)
    files: dict[str, str] = {}
    for found in _FILE.finditer(ptx):
        files.setdefault(found[3], found[2])
    if not _INLINED.search(ptx):
        return ptx
    return _INLINED.sub(lambda line: _stated(line, files), ptx) + f"\n\t.section\t.debug_str\n\t{{\n{_NAMELESS}:\n.b8 0\n\t}}\n"


def _stated(line: re.Match[str], files: Mapping[str, str]) -> str:
    """One `.loc` with its comment, as a `.loc` for each frame: the outermost first, each next one inlined at the one before."""
    frames = [(files.get(name), row, column) for name, row, column in _FRAME.findall(line[5])]
    if not frames or any(file is None for file, _, _ in frames):
        return line[0]
    stated, at = [], None
    for frame in (*reversed(frames), (line[2], line[3], line[4])):
        place = " ".join(str(part) for part in frame)
        stated.append(f".loc {place}" + (f", function_name {_NAMELESS}, inlined_at {at}" if at else ""))
        at = place
    return line[1] + " ".join(stated)
