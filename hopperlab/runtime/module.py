# SPDX-License-Identifier: Apache-2.0
"""RawModule and RawKernel: CuPy's calling convention, on the GPU or in the emulator.

    module = RawModule(code=source, options=("-DSTAGES=4",))
    kernel = module.get_function("gemm")
    kernel((16, 16), (384,), (map_a, map_b, c, np.int32(m)), shared_mem=131072)
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hopper import limits
from . import arguments, emulated, launch_attributes, pending, session as sessions, uses, variables
from .backend import architecture, backend as choose
from .compile import assemble
from .compile.nvrtc import Compiled, Source, check_notes, compile_source
from .compile.ptxas import KernelUse, PtxasInfo
from .compile.signature import Signature, kernel_text, read_signatures
from .errors import KernelNotFound, PtxasWarning, VariableNotFound
from .given_source import given
from .shapes import Shape
from .streams import Stream, queue_of
from .watching import shown_to_watchers, told_before

if TYPE_CHECKING:
    from ..emulator import Program

LONGEST = 100                   # letters of a kernel's name in a message
GRID_WORKSPACE = "%envreg2"     # where a cooperative launch tells its address


class RawModule:
    """Compiled CUDA C++ (or foreign PTX) and the place its kernels run.

    code:     CUDA C++ source; kernels are found by their name when declared extern "C"
    options:  for NVRTC, such as ("-DSTAGES=4", "-I…"); the course's headers are on the include path
    backend:  None takes HOPPERLAB_BACKEND, else auto; "gpu" or "emulator" asks for one place
    name_expressions: template instances to compile, such as ("gemm<128>",), as in CuPy
    ptx:      PTX text instead of code
    path:     a file of CUDA C++ (.cu, whose host code is left out) or PTX (.ptx) instead of either
    name:     the file name that messages and hazard reports show
    strict:   raise NoteError, instead of warning, when ptxas changed what a kernel does (C7508, C7510, C7511, C7515)
    Raises CompileError with NVRTC's log. Attributes: `ptx`, `ptxas_info`, `backend`, `source`, `options`, `log`, `name`, `compiled_from`.
    """

    def __init__(self, code: str | None = None, *, options: Sequence[str] = (), backend: str | None = None,
                 name_expressions: Sequence[str] | None = None, ptx: str | None = None, path: str | Path | None = None,
                 name: str | None = None, strict: bool = False):
        text = given(code, ptx, path, name, _as_options(options))
        self.backend = choose(backend)
        self.source, self.options, self.name = text.code, (*text.options, *_as_options(options)), text.name
        self.compiled_from: Source | None = None
        if text.code is not None:
            self.compiled_from = Source(text.code, self.name, self.options, tuple(name_expressions or ()), architecture(self.backend), text.headers)
            self._compiled = compile_source(self.compiled_from, only_nvrtc=self.backend == "gpu")
            # Of clang's PTX only what launch bounds say: whether its wgmma run one by one is no property of the source.
            _report_notes(self._compiled, assemble.info(None, self.ptx, self.signatures) if self._foreign else self._compiled.info, strict)
        else:
            self._compiled = Compiled(text.ptx or "", b"", "", {}, self.name)
        self._kernels: dict[str, RawKernel] = {}
        self.pointers: dict[str, Any] = {}      # what get_global gave on the GPU, by PTX name
        self.touched = False                    # whether get_global gave anything

    @property
    def _foreign(self) -> bool:
        """True where no ptxas of NVRTC has seen the PTX: it was given, or clang made it."""
        return self.source is None or not self._compiled.assembled

    @property
    def ptx(self) -> str:
        """The PTX text. Its `.file` entries name files as messages do, never by absolute path."""
        return self._compiled.ptx

    @property
    def cubin(self) -> bytes:
        """The sm_90a cubin; for a module made from PTX that of this machine's ptxas, or nothing where it has none."""
        return self._compiled.cubin if self._assembled is None else self._assembled.cubin

    @cached_property
    def _assembled(self) -> Compiled | None:
        """PTX of others or of clang, assembled; None for what NVRTC compiled, and without ptxas."""
        return assemble.assemble(self.ptx, self.name) if self._foreign else None

    @property
    def log(self) -> str:
        """NVRTC's log with ptxas's lines."""
        return self._compiled.log

    @property
    def warnings(self) -> str:
        """The compiler's own warnings; empty when there were none."""
        return self._compiled.warnings

    @property
    def ptxas_info(self) -> PtxasInfo:
        """Registers, spills, shared memory and notes by kernel. For a module made from PTX this machine's ptxas says so, if it has one."""
        return self._compiled.info if not self._foreign else assemble.info(self._assembled, self.ptx, self.signatures)

    @cached_property
    def launch_info(self) -> PtxasInfo:
        """What launches have to know of `ptxas_info`: foreign PTX is assembled only where its registers decide whether a launch works."""
        return self.ptxas_info if not self._foreign or "setmaxnreg" in self.ptx or GRID_WORKSPACE in self.ptx else PtxasInfo()

    @cached_property
    def signatures(self) -> dict[str, Signature]:
        """Parameters and launch bounds of each kernel, by mangled name, as the PTX declares them."""
        return read_signatures(self.ptx)

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """Names `get_function` knows: kernels, and the name expressions of templates."""
        return (*self.signatures, *self._compiled.lowered)

    def get_function(self, name: str) -> RawKernel:
        """The kernel of that name (an extern "C" name or a name expression). Raises KernelNotFound."""
        if name not in self._kernels:
            mangled = self._compiled.lowered.get(name, name)
            if mangled not in self.signatures:
                raise KernelNotFound(self._not_found(name))
            self._kernels[name] = RawKernel(self, mangled, name)
        return self._kernels[name]

    def get_global(self, name: str) -> Any:
        """A pointer to a __device__ or __constant__ variable, as cupy.RawModule.get_global: `xp.ndarray(shape, dtype, pointer)` is an array over it.

        Raises VariableNotFound. Constant tensor maps: `xp.ndarray((128,), xp.uint8, pointer)[...] = xp.asarray(np.frombuffer(bytes(map), np.uint8))`.
        """
        wanted, self.touched = variables.resolved(name, self.name, self.source, self.ptx, self._compiled.lowered), True
        if self.backend == "gpu":
            return self.pointers.setdefault(wanted, self.cupy.get_global(wanted))
        pointer = emulated.variable(self.program, wanted)
        if pointer is None:
            raise VariableNotFound(f"{self.name} declares {name!r} and does not define it: it has no memory here")
        return pointer

    def _not_found(self, name: str) -> str:
        known = ", ".join(self.kernel_names)
        mangled = any(n.startswith("_Z") for n in self.signatures)
        advise = self.source is not None and (mangled or not known)
        hint = ' Declare it extern "C", or name the template instance in name_expressions.' if advise else ""
        last = name.rsplit("::", 1)[-1]
        plain = [shown for n in self.signatures if (shown := _shown(n)).rsplit("::", 1)[-1] == last and f"{len(last)}{last}I" not in n and n != shown]
        if plain and advise:
            hint = f' C++ mangles names: with name_expressions=("{plain[0]}",) get_function("{plain[0]}") finds it; with extern "C" get_function("{last}") does.'
        return f"{self.name} has no kernel {name!r}; it has: {known or 'none'}.{hint}"

    @cached_property
    def program(self) -> Program:
        """The emulator's Program of this module's PTX (translated once)."""
        return emulated.program(self.ptx, self.launch_info)

    @cached_property
    def cupy(self) -> Any:
        """The cupy.RawModule underneath (GPU only)."""
        from .gpu import launch
        return launch.load(self._compiled.cubin) if self._compiled.cubin else launch.load(self.ptx.encode(), ".ptx")

    def __repr__(self) -> str:
        return f"<RawModule {self.name}: {', '.join(self.kernel_names) or 'no kernel'} ({self.backend})>"


class RawKernel:
    """One kernel: call it as `kernel(grid, block, args, shared_mem=0)`. `kernel.cupy` is the cupy.RawKernel on a GPU.

    Attributes have CuPy's names and meanings: num_regs, shared_size_bytes, local_size_bytes, const_size_bytes,
    max_threads_per_block, max_dynamic_shared_size_bytes (which rises by itself when a launch asks for more).
    """

    def __init__(self, module: RawModule, mangled: str, name: str):
        self.module, self.mangled, self.name = module, mangled, name
        self.signature = replace(module.signatures[mangled], name=_shown(name))      # as messages call it
        self.use = module.launch_info.kernels.get(mangled, KernelUse(mangled))
        self._max_dynamic = limits.SHARED_DEFAULT - self.use.static_shared

    @property
    def backend(self) -> str:
        """'gpu' or 'emulator'."""
        return self.module.backend

    @cached_property
    def cupy(self) -> Any:
        """The cupy.RawKernel underneath (GPU only)."""
        from .gpu import launch
        return launch.get_function(self.module.cupy, self.mangled)

    def __call__(self, grid: Shape, block: Shape, args: Sequence[Any] = (), *, shared_mem: int = 0, stream: Any = None,
                 dependent: bool = False, cluster: Shape | None = None, cooperative: bool | None = None) -> None:
        """Launch. grid and block: tuples of one to three numbers; args: arrays, NumPy scalars, tensor maps.

        shared_mem: dynamic shared memory in bytes, up to 227 KiB with the static part. stream: an hl.Stream (on the GPU also a
        cupy.cuda.Stream); the launch stands in it, else in that of the innermost `with`, else in the default stream, where the emulator runs it at once.
        dependent: may start before the grid in front of it in its stream has ended (programmatic dependent launch); griddepcontrol.wait waits for that.
        cluster: CTAs of a cluster, for a kernel without __cluster_dims__; more than 8 are opted into. The grid counts CTAs.
        cooperative: all CTAs at once on the GPU, for this_grid().sync(); None: where the kernel has it.
        Raises LaunchError before anything runs; HazardError, DeadlockError or MemoryFault from the emulator.
        """
        grid, block = arguments.check_launch(self.signature, self.use, grid, block, shared_mem)
        attributes = launch_attributes.checked(self.signature, self.use, grid, block, int(shared_mem), cluster, self.meets_in_grid if cooperative is None
                                               else cooperative, dependent)
        checked = arguments.check_arguments(self.signature, args, self.backend)
        if shared_mem > self._max_dynamic:
            self._max_dynamic = int(shared_mem)
        uses.tell(uses.LAUNCHED, (self.module.compiled_from, sessions.current() is not None))
        told_before(self, grid, block, args, int(shared_mem), attributes)
        place = "emulator" if self.backend == "emulator" or sessions.current() is not None else "gpu"
        if place == "emulator" and pending.beside_others(queue_of(stream), attributes.dependent):       # it has not come to its end when this returns
            with variables.mirrored(self.module.pointers, self.module.program):
                emulated.launch(self.module.program, self.mangled, grid, block, checked, int(shared_mem), stream, attributes)
            return
        with shown_to_watchers(self, grid, block, args, int(shared_mem), place, attributes):
            if place == "emulator":
                with variables.mirrored(self.module.pointers, self.module.program):
                    emulated.launch(self.module.program, self.mangled, grid, block, checked, int(shared_mem), attributes=attributes)
                return
            from .gpu import launch
            with stream if isinstance(stream, Stream) else nullcontext():
                launch.launch(self.cupy, self.name, grid, block, checked, int(shared_mem), None if isinstance(stream, Stream) else stream, attributes)

    @cached_property
    def meets_in_grid(self) -> bool:
        """True where it has this_grid().sync(), which a cooperative launch alone gives a place to meet."""
        return GRID_WORKSPACE in kernel_text(self.module.ptx, self.mangled)

    @property
    def num_regs(self) -> int:
        """Registers a thread, as ptxas counted."""
        return self.use.registers

    @property
    def shared_size_bytes(self) -> int:
        """Static shared memory a block, in bytes."""
        return self.use.static_shared

    @property
    def local_size_bytes(self) -> int:
        """Local memory a thread (stack and spills), in bytes."""
        return self.use.stack

    @property
    def const_size_bytes(self) -> int:
        """Constant memory, in bytes."""
        return self.use.constant

    @property
    def max_threads_per_block(self) -> int:
        """Most threads a block of this kernel may have."""
        return self.signature.max_threads or limits.MAX_THREADS_PER_BLOCK

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Most dynamic shared memory a launch has been allowed so far, in bytes."""
        return self._max_dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        arguments.check_shared(self.name, self.use.static_shared, size)
        self._max_dynamic = int(size)

    @property
    def attributes(self) -> dict[str, int]:
        """All of the above in one dictionary, as CuPy's RawKernel.attributes."""
        names = ("max_threads_per_block", "shared_size_bytes", "const_size_bytes", "local_size_bytes", "num_regs",
                 "max_dynamic_shared_size_bytes")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        kinds = ", ".join(p.describe() for p in self.signature.parameters)
        return f"<RawKernel {self.name}({kinds}) of {self.module.name} ({self.backend})>"


def _shown(name: str) -> str:
    """A kernel's name for messages: as C++ has it, of a mangled one without the arguments of its template, and never longer than a line."""
    if name.startswith("_Z"):
        from ..emulator.ptx.names import readable_name
        name = readable_name(name)
    return name if len(name) <= LONGEST else name[:LONGEST] + "…"


def _as_options(options: Sequence[str]) -> tuple[str, ...]:
    if isinstance(options, str):
        raise TypeError(f'options must be a tuple: write options=("{options}",)')
    return tuple(options)


def _report_notes(compiled: Compiled, info: PtxasInfo, strict: bool) -> None:
    if strict:
        check_notes(compiled, info)
    for note in info.notes:
        if note.serious:
            warnings.warn(f"{compiled.name}: {note}", PtxasWarning, stacklevel=3)
