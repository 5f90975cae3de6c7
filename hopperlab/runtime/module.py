"""RawModule and RawKernel: CuPy's calling convention, on the GPU or in the emulator.

    module = RawModule(code=source, options=("-DSTAGES=4",))
    kernel = module.get_function("gemm")
    kernel((16, 16), (384,), (map_a, map_b, c, np.int32(m)), shared_mem=131072)
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property

from ..hopper import limits
from . import arguments, emulated
from . import session as sessions
from .again import shown_to_watchers
from .backend import architecture
from .backend import backend as choose
from .compile import Compiled, Source, check_notes, compile_source
from .errors import KernelNotFound, PtxasWarning
from .ptxas import KernelUse, PtxasInfo
from .signature import Signature, read_signatures


class RawModule:
    """Compiled CUDA C++ (or foreign PTX) and the place its kernels run.

    code:     CUDA C++ source; kernels are found by their name when declared extern "C"
    options:  for NVRTC, such as ("-DSTAGES=4", "-I…"); the course's headers are on the include path
    backend:  None takes HOPPERLAB_BACKEND, else auto; "gpu" or "emulator" asks for one place
    name_expressions: template instances to compile, such as ("gemm<128>",), as in CuPy
    ptx:      PTX text instead of code
    name:     the file name that messages and hazard reports show
    strict:   raise NoteError, instead of warning, when ptxas changed what a kernel does (C7508, C7510, C7511, C7515)
    Raises CompileError with NVRTC's log. Attributes: `ptx`, `ptxas_info`, `backend`, `source`, `options`, `log`, `name`.
    """

    def __init__(self, code: str | None = None, *, options: Sequence[str] = (), backend: str | None = None,
                 name_expressions: Sequence[str] | None = None, ptx: str | None = None, name: str | None = None,
                 strict: bool = False):
        if (code is None) == (ptx is None):
            raise TypeError("RawModule takes either code= (CUDA C++) or ptx= (PTX text)")
        if not isinstance(ptx if code is None else code, str):
            raise TypeError(f"RawModule takes source text as str, not {type(ptx if code is None else code).__name__}")
        self.backend = choose(backend)
        self.source, self.options = code, _as_options(options)
        self.name = name or ("kernel.cu" if ptx is None else "kernel.ptx")
        if ptx is None:
            source = Source(code, self.name, self.options, tuple(name_expressions or ()), architecture(self.backend))
            self._compiled = compile_source(source)
            _report_notes(self._compiled, strict)
        else:
            self._compiled = Compiled(ptx, b"", "", {}, self.name)
        self._kernels: dict[str, RawKernel] = {}

    @property
    def ptx(self) -> str:
        """The PTX text. Its `.file` entries name files as messages do, never by absolute path."""
        return self._compiled.ptx

    @property
    def cubin(self) -> bytes:
        """The sm_90a cubin; empty for a module made from PTX."""
        return self._compiled.cubin

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
        """Registers, spills, shared memory and notes by kernel; empty for a module made from PTX."""
        return self._compiled.info

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

    def _not_found(self, name: str) -> str:
        known = ", ".join(self.kernel_names)
        mangled = any(n.startswith("_Z") for n in self.signatures)
        advise = self.source is not None and (mangled or not known)
        hint = ' Declare it extern "C", or name the template instance in name_expressions.' if advise else ""
        return f"{self.name} has no kernel {name!r}; it has: {known or 'none'}.{hint}"

    @cached_property
    def program(self):
        """The emulator's Program of this module's PTX (translated once)."""
        return emulated.program(self.ptx, self.ptxas_info)

    @cached_property
    def cupy(self):
        """The cupy.RawModule underneath (GPU only)."""
        from . import gpu
        return gpu.load(self.cubin) if self.cubin else gpu.load(self.ptx.encode(), ".ptx")

    def __repr__(self) -> str:
        return f"<RawModule {self.name}: {', '.join(self.kernel_names) or 'no kernel'} ({self.backend})>"


class RawKernel:
    """One kernel: call it as `kernel(grid, block, args, shared_mem=0)`. `kernel.cupy` is the cupy.RawKernel on a GPU.

    Attributes have CuPy's names and meanings: num_regs, shared_size_bytes, local_size_bytes, const_size_bytes,
    max_threads_per_block, max_dynamic_shared_size_bytes (which rises by itself when a launch asks for more).
    """

    def __init__(self, module: RawModule, mangled: str, name: str):
        self.module, self.mangled, self.name = module, mangled, name
        self.signature = module.signatures[mangled]
        self.use = module.ptxas_info.kernels.get(mangled, KernelUse(mangled))
        self._max_dynamic = limits.SHARED_DEFAULT - self.use.static_shared

    @property
    def backend(self) -> str:
        """'gpu' or 'emulator'."""
        return self.module.backend

    @cached_property
    def cupy(self):
        """The cupy.RawKernel underneath (GPU only)."""
        from . import gpu
        return gpu.get_function(self.module.cupy, self.mangled)

    def __call__(self, grid, block, args: Sequence = (), *, shared_mem: int = 0, stream=None) -> None:
        """Launch. grid and block: tuples of one to three numbers; args: arrays, NumPy scalars, tensor maps.

        shared_mem: dynamic shared memory in bytes, up to 227 KiB with the static part. stream: a cupy.cuda.Stream (GPU).
        Raises LaunchError before anything runs; HazardError, DeadlockError or MemoryFault from the emulator.
        """
        grid, block = arguments.check_launch(self.signature, self.use, grid, block, shared_mem)
        checked = arguments.check_arguments(self.signature, args, self.backend)
        if shared_mem > self._max_dynamic:
            self._max_dynamic = int(shared_mem)
        place = "emulator" if self.backend == "emulator" or sessions.current() is not None else "gpu"
        with shown_to_watchers(self, grid, block, args, int(shared_mem), place):
            if place == "emulator":
                emulated.launch(self.module.program, self.mangled, grid, block, checked, int(shared_mem))
            else:
                from . import gpu
                gpu.launch(self.cupy, self.name, grid, block, checked, int(shared_mem), stream)

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


def _as_options(options: Sequence[str]) -> tuple[str, ...]:
    if isinstance(options, str):
        raise TypeError(f'options must be a tuple: write options=("{options}",)')
    return tuple(options)


def _report_notes(compiled: Compiled, strict: bool) -> None:
    if strict:
        check_notes(compiled)
    for note in compiled.info.notes:
        if note.serious:
            warnings.warn(f"{compiled.name}: {note}", PtxasWarning, stacklevel=3)
