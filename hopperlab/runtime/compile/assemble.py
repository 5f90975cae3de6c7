# SPDX-License-Identifier: Apache-2.0
"""PTX that did not come from NVRTC: ptxas, where this machine has one, says which registers each kernel gets, and its notes.

Where there is none, the registers at entry of a kernel with setmaxnreg follow from its launch bounds: ptxas gives such a kernel all that its block may have.
"""
from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ...hopper import limits
from ..errors import PtxasWarning
from . import cache
from .nvrtc import ARCH, Compiled
from .ptxas import KernelUse, Note, PtxasInfo
from .signature import Signature, kernel_text

SECONDS = 300           # that ptxas may take
IGNORED = "Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry."        # ptxas's words
_ASKED = re.compile(r"setmaxnreg\.inc\.sync\.aligned\.u32\s+(\d+)")
_IN_WHEELS = ("nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin")


@lru_cache(maxsize=1)
def ptxas() -> Path | None:
    """The ptxas of this machine: on the path, of a CUDA toolkit, of a wheel that is installed; None without one."""
    program = "ptxas.exe" if os.name == "nt" else "ptxas"
    roots = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    places = [Path(root) / "bin" / program for root in roots if root]
    for package in ("nvidia", "triton"):
        spec = importlib.util.find_spec(package)
        for top in (spec.submodule_search_locations if spec else None) or ():
            places += [Path(top).parent / folder / program for folder in _IN_WHEELS if folder.startswith(package + "/")]
    found = shutil.which("ptxas")
    return Path(found) if found else next((place for place in places if place.is_file()), None)


def assemble(ptx: str, name: str) -> Compiled | None:
    """Machine code of a PTX text, and what ptxas says of it; None without ptxas. One that refuses the text is a PtxasWarning, and None."""
    program = ptxas()
    if program is None:
        return None
    status = program.stat()
    key = hashlib.sha256(f"ptxas 1 {program} {status.st_size} {status.st_mtime_ns}\n{ptx}".encode()).hexdigest()
    entry = cache.read(key)
    if entry is not None:
        return Compiled(ptx, entry.blobs["cubin"], entry.meta["log"], {}, name)
    cubin, log = _run(program, ptx)
    if not cubin:
        first = next((line for line in log.splitlines() if "error" in line or "fatal" in line), log.strip()[:200])
        warnings.warn(f"{name}: ptxas does not take this PTX, so its registers are not known here and no GPU runs it: {first}", PtxasWarning, stacklevel=2)
        return None
    cache.write(key, cache.Entry({"log": log}, {"cubin": cubin}))
    return Compiled(ptx, cubin, log, {}, name)


def _run(program: Path, ptx: str) -> tuple[bytes, str]:
    """(cubin, log); no cubin where ptxas failed."""
    with tempfile.TemporaryDirectory(prefix="hopperlab-ptxas-") as folder:
        text, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        text.write_text(ptx, encoding="utf-8")
        try:
            done = subprocess.run([str(program), f"-arch={ARCH}", "-v", "-o", str(out), str(text)], capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as problem:
            return b"", f"error: {problem}"
        log = (done.stdout + done.stderr).replace(folder + os.sep, "")
        return (out.read_bytes() if done.returncode == 0 and out.is_file() else b""), log


def info(compiled: Compiled | None, ptx: str, signatures: Mapping[str, Signature]) -> PtxasInfo:
    """What is known of the kernels of foreign PTX: from ptxas, else for kernels with setmaxnreg from their launch bounds."""
    if compiled is not None:
        return compiled.info
    texts = {name: kernel_text(ptx, name) for name in signatures}
    uses = {name: from_bounds(signatures[name], text) for name, text in texts.items() if "setmaxnreg" in text}
    return PtxasInfo(uses, tuple(note for use in uses.values() for note in use.notes))


def from_bounds(signature: Signature, text: str) -> KernelUse:
    """Registers at entry of a kernel with setmaxnreg, which ptxas ignores where it does not know them: all that a block may have, but no more than the most that
    a setmaxnreg.inc of its text asks for (equal to ptxas 13.0 for 32 to 1,024 threads and 0 to 4 blocks per SM)."""
    asked = max(map(int, _ASKED.findall(text)), default=limits.MAX_REGISTERS_PER_THREAD)
    block = signature.required_block
    threads = block[0] * block[1] * block[2] if block else signature.max_threads
    if signature.max_registers:
        return KernelUse(signature.name, min(signature.max_registers, asked))
    warps = -(-(threads or 0) // limits.WARP_THREADS) * (signature.min_blocks or 0)
    if not 0 < warps <= limits.MAX_WARPS_PER_SM:
        return KernelUse(signature.name, notes=(Note("C7508", IGNORED, signature.name),))
    most = limits.REGISTERS_PER_SM // limits.SUBPARTITIONS // -(-warps // limits.SUBPARTITIONS) // limits.WARP_THREADS // 8 * 8
    return KernelUse(signature.name, min(most, asked, limits.MAX_REGISTERS_PER_THREAD))
