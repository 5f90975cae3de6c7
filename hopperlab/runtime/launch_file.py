# SPDX-License-Identifier: Apache-2.0
"""`hopperlab sanitize FILE.cu --grid … --block … --args …`: one launch of a kernel of a .cu or .ptx file, without a script.

`prepare` finds every fault of the command line and of the file before anything runs; `python -m hopperlab.runtime.launch_file` is the launch.
"""
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..emulator.ptx.names import readable_name
from . import arguments, launch_attributes
from .argument_words import HELP, argument
from .compile.signature import kernel_text
from .errors import KernelNotFound, LaunchError
from .given_source import BINARY_SUFFIXES, CUDA_SUFFIXES
from .module import RawKernel, RawModule
from .shapes import Shape

SUFFIXES = (*CUDA_SUFFIXES, ".ptx", *(suffix for suffix in BINARY_SUFFIXES if suffix))
_WRITTEN = re.compile(r"__global__\s+(?:(?:void|static|inline)\s+|__\w+__\s*\([^()]*\)\s*)*(\w+)\s*\(")


@dataclass(frozen=True)
class Launch:
    """What a command line asks for: the kernel, and what it is called with."""

    kernel: RawKernel
    grid: Shape
    block: Shape
    args: tuple[Any, ...]
    shared_mem: int
    cluster: Shape | None
    cooperative: bool

    def __call__(self) -> None:
        self.kernel(self.grid, self.block, self.args, shared_mem=self.shared_mem, cluster=self.cluster, cooperative=self.cooperative)


def is_kernel_file(name: str) -> bool:
    """True for the name of CUDA C++, PTX or machine code, which is no Python script."""
    return Path(name).suffix.lower() in SUFFIXES


def options() -> argparse.ArgumentParser:
    """The options behind FILE."""
    parser = argparse.ArgumentParser(prog="hopperlab sanitize", usage="hopperlab sanitize FILE.cu|FILE.ptx --grid N[,N,N] --block N[,N,N] --args WORD ... [options]",
                                     allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="CUDA C++ (its host code is left out) or PTX")
    parser.add_argument("--kernel", metavar="NAME", help="which kernel; not needed where the file has one. A template's instance is written \"copy<4>\"")
    parser.add_argument("--grid", type=_shape, metavar="N[,N,N]", help="CTAs along x, y and z")
    parser.add_argument("--block", type=_shape, metavar="N[,N,N]", help="threads of a CTA")
    parser.add_argument("--args", nargs="*", default=[], metavar="WORD", help=HELP.replace("%", "%%"))
    parser.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory of a CTA")
    parser.add_argument("--cluster", type=_shape, metavar="N[,N,N]", help="CTAs of a cluster, where the launch says so")
    parser.add_argument("--cooperative", action="store_true", help="a cooperative launch (this_grid().sync())")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE", help="a macro, for CUDA C++")
    parser.add_argument("-I", dest="folders", action="append", default=[], metavar="FOLDER", help="where headers are, beside the file's own folder")
    return parser


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in re.split(r"[,x]", text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: one to three whole numbers, such as 4 or 4,2") from None


def prepare(words: Sequence[str]) -> Launch:
    """Compile the file, find the kernel, make and check the arguments. Raises HopperlabError with what is wrong; ends with code 2 for options that are none."""
    asked = options().parse_args(list(words))
    made = [argument(word, place) for place, word in enumerate(asked.args, 1)]
    instance = asked.kernel if asked.kernel and re.search(r"[<:]", asked.kernel) else None
    module = RawModule(path=asked.file, backend="emulator", name_expressions=(instance,) if instance else None,
                       options=() if asked.file.suffix.lower() == ".ptx" else (*(f"-D{d}" for d in asked.defines), *(f"-I{f}" for f in asked.folders)))
    kernel = module.get_function(_named(module, asked.kernel) if asked.kernel else _only(module))
    return _checked(module, kernel, asked, made)


def _checked(module: RawModule, kernel: RawKernel, asked: argparse.Namespace, made: Sequence[Any]) -> Launch:
    """The launch. Raises LaunchError for what is missing and for what does not fit."""
    missing = " and ".join(name for name, value in (("--grid", asked.grid), ("--block", asked.block)) if value is None)
    if missing:
        raise LaunchError(f"{kernel.signature.name}: {missing} missing: how many CTAs, and threads of a CTA? For instance --grid 4 --block 128")
    if not asked.shared and (dynamic := _dynamic(module, kernel)):
        raise LaunchError(f"{kernel.signature.name} has dynamic shared memory ({dynamic}): --shared BYTES says how much")
    grid, block = arguments.check_launch(kernel.signature, kernel.use, asked.grid, asked.block, asked.shared)
    launch_attributes.checked(kernel.signature, kernel.use, grid, block, asked.shared, asked.cluster, asked.cooperative)
    try:
        arguments.check_arguments(kernel.signature, made, "emulator")
    except LaunchError as problem:
        raise LaunchError(f"{problem}\n--args takes {HELP}") from None
    return Launch(kernel, asked.grid, asked.block, tuple(made), asked.shared, asked.cluster, asked.cooperative)


def _dynamic(module: RawModule, kernel: RawKernel) -> str:
    """The name of the dynamic shared memory that a kernel's own text uses, or ''."""
    names = re.findall(r"\.extern\s+\.shared\s[^;]*?([\w$]+)\s*\[\s*\]", module.ptx)
    return next((name for name in names if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", kernel_text(module.ptx, kernel.mangled))), "")


def _named(module: RawModule, name: str) -> str:
    """The kernel of that name; C++ names are found without their arguments where only one has them."""
    found = [known for known in module.kernel_names if known != name and readable_name(known) == name]
    if name in module.kernel_names:
        return name
    if not found:
        raise KernelNotFound(f"{module.name} has no kernel {name!r}; it has: {', '.join(map(readable_name, module.kernel_names)) or 'none'}.{_written(module)}")
    if len(found) > 1:
        raise KernelNotFound(f"{module.name} has {len(found)} kernels {name}: give the mangled name of one: {', '.join(found)}")
    return found[0]


def _written(module: RawModule) -> str:
    """What to say of kernels that stand in the source and were not compiled."""
    compiled = {readable_name(name).rsplit("::", 1)[-1] for name in module.kernel_names}
    written = [name for name in dict.fromkeys(_WRITTEN.findall(module.source or "")) if name not in compiled]
    asks = "; the source asks for __NVCC__, which NVRTC does not define: -D__NVCC__ does" if "__NVCC__" in (module.source or "") else ""
    return (f" Its source writes {', '.join(written)}: a template's instance is named, --kernel \"{written[0]}<4>\"; a static kernel that nothing calls is "
            f"left out{asks}") if written else ""


def _only(module: RawModule) -> str:
    """The one kernel of a module."""
    known = module.kernel_names
    if len(known) == 1:
        return known[0]
    if known:
        raise KernelNotFound(f"{module.name} has {len(known)} kernels, so --kernel NAME has to choose: {', '.join(known)}")
    raise KernelNotFound(f"{module.name} has no kernel.{_written(module)}")


def main(words: Sequence[str]) -> int:
    """Launch it once, and say which arrays changed."""
    launch = prepare(words)
    before = [np.array(a) if isinstance(a, np.ndarray) else None for a in launch.args]
    launch()
    print(f"{launch.kernel.signature.name} ran")
    for place, (old, new) in enumerate(zip(before, launch.args), 1):
        if old is not None and old.tobytes() != new.tobytes():
            flat = new.reshape(-1)
            print(f"  argument {place} ({new.dtype}, shape {new.shape}) changed: {', '.join(str(v) for v in flat[:4])}{' ...' if flat.size > 4 else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
