# SPDX-License-Identifier: Apache-2.0
"""Where an instruction stands in CUDA source, and what a learner calls it: the words that every report uses.

A kernel's own line comes first, then the wrapper's that it was inlined from; files are named without the machine's folders. The frames between
them are kept: they tell places apart, and are said on demand.
"""
from __future__ import annotations

import re
from dataclasses import dataclass

from .ir import Instr, Site

ROOTS = ("/hopperlab/kernels/include/", "/hopperlab/kernels/", "/include/")
LIBRARIES = frozenset({"cutlass", "cute", "cub", "thrust", "libcudacxx", "cccl", "cooperative_groups", "site-packages", "dist-packages"})
LAUNCHERS = frozenset({"device_kernel.h", "agent_launcher.h"})       # files whose kernels only hand over to a class
_CUDAS = re.compile(r"(?:^|/)(?:cuda/(?:std/.*|__\w+/.*|\w+)|cuda_(?:bf16|fp16|fp8|fp6|fp4|pipeline\w*|awbarrier\w*|runtime\w*|device_runtime_api)\.hp*|"
                    r"cooperative_groups(?:\.h|/.*))$")      # headers of the CUDA toolkit, by name: others' own may be called cuda_something.h or lie in cuda/
UNSAID = ("shared", "global", "mbarrier::", "bulk_group", "L1::", "L2::", "tile")      # state spaces and completion mechanisms


def short_file(path: str) -> str:
    """A path without the machine's part: what follows 'kernels/' or 'include/', or the file name."""
    for root in ROOTS:
        if root in path:
            return path.rsplit(root, 1)[1]
    return path.rsplit("/", 1)[-1]


def _is_library(path: str) -> bool:
    """True for the headers of others, whose frames stand around a user's code (CUTLASS calls its functors) and inside it."""
    return not LIBRARIES.isdisjoint(path.split("/")[:-1])


def _shown(chain: tuple[Site, ...]) -> int:
    """Which frame of a chain (outermost first) comes first in a report: the outermost that is no library's; in a library's own kernel the outermost
    behind the file that only launches it."""
    own = [k for k, site in enumerate(chain) if not _is_library(site.file)]
    if own:
        return own[0]
    return next((k for k, site in enumerate(chain) if site.file.rsplit("/", 1)[-1] not in LAUNCHERS), 0)


def _without_cudas(chain: tuple[Site, ...]) -> tuple[Site, ...]:
    """A chain up to the call of a function that the CUDA toolkit brings: what is inside is nothing that its caller could change, and clang's headers differ."""
    inside = next((k for k, site in enumerate(chain) if _CUDAS.search(site.file)), len(chain))
    return chain[:inside] or chain


def _short(site: Site) -> Site:
    return Site(short_file(site.file), site.line, site.column, site.function)


def user_site(instr: Instr) -> Site | None:
    """The frame of an instruction's position that is nearest to the user's code, with a short file name; None without line information."""
    return Place.of(instr).site


def name(instr: Instr) -> str:
    """An instruction as a learner knows it: the opcode without its state spaces and completion mechanism."""
    return ".".join([instr.op, *(m for m in instr.mods if not m.startswith(UNSAID))])


@dataclass(frozen=True)
class Place:
    """Where an instruction stands. site: the kernel's own line, None without line information; inner: 'file:line' of the wrapper that it was
    inlined from, or ''; ptx_line: its line in the PTX text; frames: all frames from the kernel inwards; whole: text() says them all."""

    site: Site | None
    inner: str
    ptx_line: int
    frames: tuple[Site, ...] = ()
    whole: bool = False

    @staticmethod
    def of(instr: Instr) -> "Place":
        """The place of an instruction."""
        site = instr.site if instr.site is None or instr.site.line else instr.near
        if site is None:
            return Place(None, "", instr.ptx_line)
        chain = _without_cudas(site.chain)
        first = _shown(chain)
        inner = f"{short_file(chain[-1].file)}:{chain[-1].line}" if first < len(chain) - 1 else ""
        return Place(_short(chain[first]), inner, instr.ptx_line, tuple(map(_short, chain)))

    @property
    def key(self) -> tuple[object, ...]:
        """What tells this place from others: all its frames, or the line of the PTX text where there are none."""
        return tuple((site.file, site.line) for site in self.frames) or (self.ptx_line,)

    @property
    def trace(self) -> list[str]:
        """Every frame as 'file:line', and its function where the compiler says it; from the kernel inwards."""
        return [f"{site.file}:{site.line}" + (f" in {site.function}" if site.function else "") for site in self.frames] or [self.line()]

    def line(self, folders: bool = True) -> str:
        """file:line of the kernel's own source. folders: with the folder of its file below kernels/."""
        if self.site is None:
            return f"PTX line {self.ptx_line}"
        return f"{self.site.file if folders else self.site.file.rsplit('/', 1)[-1]}:{self.site.line}"

    def text(self, folders: bool = True) -> str:
        """file:line, and the wrapper's beside it; with `whole` all frames between them, too."""
        if not self.inner:
            return self.line(folders)
        names = [f"{site.file}:{site.line}" for site in self.frames]
        between = names[names.index(f"{self.site.file}:{self.site.line}") + 1:-1] if self.whole and self.site is not None else []
        return f"{self.line(folders)} ({', '.join(f'in {name}' for name in [*between, self.inner])})"


def place(instr: Instr) -> str:
    """file:line of an instruction: the kernel's own line first, then the wrapper it was inlined from."""
    return Place.of(instr).text()


def line(instr: Instr) -> str:
    """file:line of the kernel's own source."""
    return Place.of(instr).line()
