# SPDX-License-Identifier: Apache-2.0
"""Machine code (SASS) of a compiled kernel, read with NVIDIA's disassembler, which needs no GPU: instructions with their source
lines, what class each belongs to, and counts inside a loop. The table KINDS is the one place that says which mnemonic is what.
"""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from .. import installing
from ..errors import KernelNotFound, ToolchainError
from ..library import kernel_source
from ..module import RawKernel, RawModule
from .loops import loops

INSTALL = installing.package("nvidia-cuda-nvdisasm")

# Class by mnemonic (the word before the first dot). Those in HOPPER are the ones a listing highlights.
KINDS = {
    "tensor core": "HMMA IMMA BMMA DMMA QMMA HGMMA IGMMA BGMMA QGMMA",
    "wait for the tensor core": "WARPGROUP WARPGROUPSET",
    "copy by TMA": "UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKRED UBLKPF",
    "wait for bulk stores": "UTMACMDFLUSH UTMACCTL",
    "copy by cp.async": "LDGSTS",
    "wait for cp.async": "LDGDEPBAR DEPBAR ARRIVES",
    "fragments": "LDSM STSM MOVM",
    "mbarrier": "SYNCS",
    "barrier": "BAR UCGABAR_ARV UCGABAR_WAIT WARPSYNC NANOSLEEP",
    "fence": "MEMBAR FENCE ERRBAR CGAERRBAR CCTL CCTLL",
    "register budget": "USETMAXREG",
    "shared memory": "LDS STS ATOMS REDS",
    "global memory": "LDG STG LD ST ATOM ATOMG RED REDG ULDC LDC",
    "spill": "LDL STL",
    "floating point": "FFMA FADD FMUL FSETP FSEL FMNMX HFMA2 HADD2 HMUL2 HSETP2 HSET2 HMNMX2 DFMA DADD DMUL DSETP MUFU FCHK FSWZADD FSET",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I FRND I2IP",
    "integer and address": "IMAD IADD3 IADD LEA LOP3 SHF ISETP VIADD IABS IMNMX VIMNMX VIADDMNMX POPC FLO BREV PRMT SEL SGXT BMSK PLOP3 PSETP P2R R2P IDP",
    "move": "MOV MOV32I CS2R S2R S2UR R2UR SHFL VOTE VOTEU MATCH REDUX ELECT UMOV B2R R2B",
    "control": "BRA BRX JMP EXIT BSSY BSYNC BREAK CALL RET NOP KILL YIELD BPT PREEXIT ACQBULK ENDCOLLECTIVE RPCMOV BMOV",
}
HOPPER = ("tensor core", "wait for the tensor core", "copy by TMA", "wait for bulk stores", "copy by cp.async", "wait for cp.async", "fragments", "mbarrier",
          "barrier", "fence", "register budget", "spill")
_KIND = {mnemonic: kind for kind, words in KINDS.items() for mnemonic in words.split()}
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^(\.L_x_\d+):")
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_SECTION = re.compile(r"^\.text\.(\S+):")


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: address in bytes, guard ('@!P0' or ''), opcode with its modifiers, operands, and the CUDA line it
    comes from (the outermost frame's, in `file`; 0 where ptxas left none)."""

    address: int
    guard: str
    opcode: str
    operands: str
    file: str = ""
    line: int = 0

    @property
    def kind(self) -> str:
        """Its class, a key of KINDS; 'integer and address' also for the uniform twins (UIADD3), 'other' for what the table lacks."""
        word = self.opcode.split(".")[0]
        return _KIND.get(word) or _KIND.get(word.removeprefix("U"), "other")

    @property
    def highlighted(self) -> bool:
        """True for asynchronous copies, tensor core, barriers, fences, register budget and spills."""
        return self.kind in HOPPER

    def __str__(self) -> str:
        return f"{self.guard:6s}{self.opcode} {self.operands}".rstrip()


class Sass:
    """The machine code of one kernel. `instructions` in order, `loops` the natural loops as sorted tuples of indices, outermost first."""

    def __init__(self, kernel: str, instructions: Sequence[Instruction], labels: dict[str, int]):
        self.kernel, self.instructions, self.labels = kernel, tuple(instructions), labels

    @cached_property
    def loops(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the instructions of each natural loop (also those that ptxas placed elsewhere), the largest first."""
        return loops([(i.guard, i.opcode, i.operands) for i in self.instructions], self.labels)

    @property
    def main_loop(self) -> tuple[int, ...]:
        """The loop with the most tensor-core instructions, the smallest of these; without tensor core, that with the most highlighted
        ones. Raises ValueError for a kernel without a loop."""
        if not self.loops:
            raise ValueError(f"{self.kernel} has no loop")
        def weight(loop: tuple[int, ...]) -> tuple[int, int, int]:
            inside = [self.instructions[i] for i in loop]
            return sum(i.kind == "tensor core" for i in inside), 0 if any(i.kind == "tensor core" for i in inside) else sum(i.highlighted for i in inside), -len(loop)
        return max(self.loops, key=weight)

    def counts(self, loop: Literal["main"] | int | None = "main") -> dict[str, int]:
        """Instructions by class, most frequent first: inside the main loop ('main'), a loop by its index in `loops`, or the whole kernel (None).

        Static counts: an instruction counts once, however often it runs.
        """
        chosen = range(len(self.instructions)) if loop is None else self.main_loop if loop == "main" else self.loops[loop]
        return dict(Counter(self.instructions[i].kind for i in chosen).most_common())

    def of_line(self, line: int) -> list[Instruction]:
        """The instructions that come from this line of the kernel's file, in order."""
        return [i for i in self.instructions if i.line == line]

    def __str__(self) -> str:
        return "\n".join(f"{i.address:05x}  {i}" for i in self.instructions)

    def __repr__(self) -> str:
        return f"<Sass of {self.kernel}: {len(self.instructions)} instructions, {len(self.loops)} loops>"


def sass(module: RawModule | RawKernel | str | Path, name: str | None = None, options: Sequence[str] = ()) -> Sass:
    """The machine code of one kernel.

    module: a RawModule, a RawKernel, a file below hopperlab/kernels/ (compiled with `options`), or the path of a .cubin.
    name: which kernel; not needed when there is only one. Raises ToolchainError where the disassembler, the compiler or machine code is
    missing, KernelNotFound for a name that is not there.
    """
    if isinstance(module, RawKernel):
        name, module = module.mangled, module.module
    if isinstance(module, (str, Path)) and str(module).endswith(".cubin"):
        cubin, shown = Path(module).read_bytes(), str(module)
    else:
        if not isinstance(module, RawModule):
            code = kernel_source(str(module))
            expressions = (name,) if name and ("<" in name or "::" in name) else None
            module = RawModule(code=code, options=options, backend="emulator", name=str(module), name_expressions=expressions)
        cubin, shown = module.cubin, module.name
        name = module.get_function(name).mangled if name else None
    if not cubin:
        raise ToolchainError(f"{shown} has no machine code here: it was made from PTX. Compile its CUDA source where NVRTC is installed (Linux, Windows).")
    found = disassemble(cubin)
    if name is None and len(found) == 1:
        name = next(iter(found))
    if name not in found:
        raise KernelNotFound(f"{shown} has {'several kernels, say which' if name is None else f'no kernel {name!r}'}: {', '.join(sorted(found))}")
    return found[name]


@lru_cache(maxsize=32)
def disassemble(cubin: bytes) -> dict[str, Sass]:
    """Every kernel of a cubin by its mangled name. Raises ToolchainError when nvdisasm is missing or refuses the file."""
    tool = find_nvdisasm()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool, "-c", "-gi", str(path)], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise ToolchainError(f"nvdisasm refused the machine code: {done.stderr.strip().replace(folder, '')}")
    return parse(done.stdout)


def find_nvdisasm() -> str:
    """The disassembler of NVIDIA's wheel, else of a CUDA toolkit. Raises ToolchainError with the command that installs it."""
    program = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    spec = importlib.util.find_spec("nvidia")
    places = [Path(p) / part / "bin" / program for p in (spec.submodule_search_locations if spec else None) or () for part in ("cu13", "cuda_nvdisasm")]
    roots = (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda")
    places += [Path(root) / "bin" / program for root in roots if root]
    found = next((str(path) for path in places if path.is_file()), None) or shutil.which(program)
    if found is None:
        raise ToolchainError("NVIDIA's disassembler is not installed, so there is no SASS to show (it needs no GPU; macOS has none). "
                             f"Install it with:\n    {INSTALL}")
    return found


def parse(listing: str) -> dict[str, Sass]:
    """Read `nvdisasm -c -gi`: kernels by mangled name. The last position before an instruction is the outermost frame."""
    parts: dict[str, tuple[list[Instruction], dict[str, int]]] = {}
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    place = "", 0
    for line in listing.splitlines():
        if match := _SECTION.match(line):
            instructions, labels = parts.setdefault(match[1], ([], {}))
            place = ("", 0)
        elif match := _LABEL.match(line):
            labels[match[1]] = len(instructions)
        elif "//## File" in line:
            file, number = _PLACE.findall(line)[-1]
            place = (os.path.basename(file), int(number))
        elif match := _CODE.match(line):
            instructions.append(Instruction(int(match[1], 16), match[2] or "", match[3], match[4], *place))
    return {name: Sass(name, code, marks) for name, (code, marks) in parts.items()}
