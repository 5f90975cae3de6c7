# SPDX-License-Identifier: Apache-2.0
"""Where NVRTC and the CUDA headers are, and which version they have.

They come from NVIDIA's wheels and need neither a GPU nor a driver; a CUDA toolkit on the machine fills gaps.
"""
from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import installing
from ..errors import ToolchainError
from .clang import compiler as clang

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
OWN_INCLUDE = KERNELS / "include"
INSTALL = installing.course()
COMPILERS = ("nvrtc", "clang", "auto")
CLANG = "python -m pip install ziglang"
WAYS_OUT = f"""Ways out:
  - install clang, which compiles for the emulator on every system: {CLANG}
  - open the course on Linux or Windows, or on a hosted Linux notebook (Binder, Colab)
  - run the container that comes with the course: docker build -t hopperlab . && docker run -p 8888:8888 hopperlab
  - compile the source elsewhere, and load its PTX: hl.RawModule(ptx=text)"""
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


def read_source(path: Path, errors: str = "strict") -> str:
    """The text of a kernel or header as it is compiled, shown and hashed: without the licence that is the last line of each of the course's own."""
    return path.read_text(encoding="utf-8", errors=errors).removesuffix(LICENCE)


@lru_cache(maxsize=1)
def cuda_major() -> int:
    """Major version of the CUDA toolchain in use (13, or 12 when the `cuda12` wheels are installed)."""
    return int(_version_of("cuda-bindings", "13").split(".")[0])


def compiler(only_nvrtc: bool = False) -> str:
    """'nvrtc' or 'clang', as HOPPERLAB_COMPILER says; 'auto' (the default) is clang where NVRTC has no build or is missing, and clang is there.
    only_nvrtc: asked for a GPU, which never gets clang's PTX.

    Raises ToolchainError for a name that is unknown, and for clang where it is not installed.
    """
    choice = os.environ.get("HOPPERLAB_COMPILER", "auto").strip().lower() or "auto"
    if choice not in COMPILERS:
        raise ToolchainError(f"HOPPERLAB_COMPILER={choice} is unknown: choose nvrtc, clang or auto")
    if only_nvrtc or choice == "nvrtc":
        return "nvrtc"
    if choice == "auto":
        return "clang" if not has_nvrtc() and clang.program() is not None else "nvrtc"
    if clang.program() is None:
        raise ToolchainError(f"HOPPERLAB_COMPILER=clang, but clang is not installed. It comes with a wheel:\n    {CLANG}")
    return choice


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """NVRTC's version with the headers' versions, such as '13.0.88+cccl13.0.85'. Reads metadata; does not load NVRTC."""
    suffix = "-cu12" if cuda_major() == 12 else ""
    found = _version_of(f"nvidia-cuda-nvrtc{suffix}", "")
    if not found:
        found = ".".join(map(str, nvrtc_version()))
    headers = [_version_of(f"nvidia-cuda-{part}{suffix}", "none") for part in ("cccl", "runtime")]
    return f"{found}+cccl{headers[0]}+runtime{headers[1]}"


def _version_of(distribution: str, default: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return default


@lru_cache(maxsize=1)
def nvrtc() -> Any:
    """The `cuda.bindings.nvrtc` module, with NVRTC loaded.

    Raises ToolchainError, with the command that mends it, where the wheels are missing.
    """
    try:
        if cuda_major() == 12:
            _load_cuda12()
        from cuda.bindings import nvrtc as bindings
        bindings.nvrtcVersion()
    except (ImportError, RuntimeError, OSError, metadata.PackageNotFoundError) as problem:
        if sys.platform == "darwin":
            raise ToolchainError(f"NVRTC does not exist for macOS.\n{WAYS_OUT}") from problem
        raise ToolchainError(f"NVRTC cannot be loaded ({problem}). Install it with:\n    {INSTALL}\nor clang, which compiles for the emulator:\n    {CLANG}") from problem
    return bindings


@lru_cache(maxsize=1)
def has_nvrtc() -> bool:
    """True where kernels can be compiled. Where the wheels are installed this does not load the library."""
    try:
        if sys.platform == "darwin" or importlib.util.find_spec("cuda.bindings") is None:
            return False
        if any(_version_of(f"nvidia-cuda-nvrtc{suffix}", "") for suffix in ("", "-cu12")):
            return True
        nvrtc()
    except (ImportError, ToolchainError):
        return False
    return True


def _load_cuda12() -> None:
    """Load NVRTC from the -cu12 wheel. Both wheels may be installed, cuda-bindings would take the newer one, and a
    driver for CUDA 12 does not load what that makes; a library that is already loaded is the one it takes."""
    files = [Path(f.locate()) for f in metadata.files("nvidia-cuda-nvrtc-cu12") or [] if ".so" in f.name or f.name.endswith(".dll")]
    for file in sorted(files):              # the builtins come first in this order
        if ".alt" not in file.name:
            ctypes.CDLL(str(file))


def nvrtc_version() -> tuple[int, int]:
    """(major, minor) as the loaded NVRTC library says."""
    _, major, minor = nvrtc().nvrtcVersion()
    return major, minor


def no_driver_cache() -> tuple[str, ...]:
    """The option that keeps NVRTC from the driver's compilation cache: what comes from there has no log, and with it ptxas's
    registers, spills and notes (C7508 …) would be lost. NVRTC knows it since 12.9; without a driver there is no such cache."""
    return ("--no-cache",) if nvrtc_version() >= (12, 9) else ()


@lru_cache(maxsize=1)
def include_directories() -> tuple[str, ...]:
    """Header folders in search order: the course's own, the wheels', a toolkit's; libcu++ where it is apart."""
    roots = [*_wheel_includes(), *_toolkit_includes()]
    found: list[str] = [str(OWN_INCLUDE)]
    for root in roots:
        for folder in (root, root / "cccl"):
            if folder.is_dir() and str(folder) not in found:
                found.append(str(folder))
    return tuple(found)


def _wheel_includes() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    places = [Path(p) for p in (spec.submodule_search_locations if spec else None) or ()]
    parts = ("cuda_runtime", "cuda_cccl", "cuda_nvcc", "curand") if cuda_major() == 12 else (f"cu{cuda_major()}",)
    return [place / part / "include" for place in places for part in parts]


def _toolkit_includes() -> list[Path]:
    roots = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), os.environ.get("CONDA_PREFIX"),
             "/usr/local/cuda" if os.name == "posix" else None]
    folders = [Path(root) / "include" for root in roots if root]
    return [folder for folder in folders if (folder / "cuda_runtime.h").is_file()]
