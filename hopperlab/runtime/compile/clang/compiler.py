# SPDX-License-Identifier: Apache-2.0
"""One run of clang: CUDA C++ to LLVM IR, then IR to PTX, with line tables like NVRTC's.

Two steps, because the first one's text says what PTX needs and clang does not write: cluster shapes, functions that lines were inlined from, the names of
template instances. The same command on every system, so the same source gives the same PTX everywhere.
"""
from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path, PurePosixPath

from . import ir, lines, types

INCLUDE = Path(__file__).resolve().parent / "include"
PACKAGE = "ziglang"
SECONDS = 300           # that one step may take
PTX_FEATURE = "+ptx88"
UNROLLED = 20_000       # cost up to which a loop is unrolled that keeps an array out of registers
_LOCAL = "__local_depot"
_FRONT = ("-triple", "nvptx64-nvidia-cuda", "-aux-triple", "x86_64-unknown-linux-gnu", "-emit-llvm", "-disable-llvm-passes", "-x", "cuda", "-fcuda-is-device",
          "-fcuda-allow-variadic-functions",
          "-fdeclspec", "-nostdsysteminc", "-nobuiltininc", "-std=c++17", "-relaxed-aliasing", "-debug-info-kind=line-directives-only", "-dwarf-version=2",
          "-fdebug-compilation-dir=/", "-fmessage-length=0", "-ferror-limit", "100", "-Wno-cuda-compat")
_BACK = ("-triple", "nvptx64-nvidia-cuda", "-x", "ir", "-S",
         # As NVRTC does: nearly everything is inlined, short loops over registers are unrolled, what two branches do stays in both, and a vector is loaded whole.
         *(word for option in ("inline-threshold=20000", "unroll-threshold=600", "sink-common-insts=false", "hoist-common-insts=false", "disable-vector-combine",
                                 "opt-disable=licm")            # a load that leaves its loop loses its line, and a report names the line before
           for word in ("-mllvm", f"-{option}")))
_BOTH = ("-O3", "-ffp-contract=fast")
_REGISTERS = "clock|clock64|clock_hi|globaltimer|globaltimer_lo|globaltimer_hi|smid|nsmid|laneid|warpid|nwarpid|gridid|lanemask_(?:eq|le|lt|ge|gt)|" \
             r"(?:n?tid|n?ctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]|cluster_ctarank|cluster_nctarank|dynamic_smem_size|" \
             r"total_smem_size|is_explicit_cluster"
_BARE_REGISTER = re.compile(rf"(?<!%)%(?=(?:{_REGISTERS})\b)")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_GONE = re.compile(r"(?m)^\d+ (?:error|warning)s?(?: and \d+ (?:error|warning)s?)? generated.*\n?|^fatal error: too many errors.*\n?")


class ClangError(Exception):
    """Clang refused the source; the text is its log."""


@lru_cache(maxsize=1)
def program() -> Path | None:
    """The zig of the wheel, which holds clang; None where it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    places = spec.submodule_search_locations if spec else None
    found = [Path(place) / name for place in places or () for name in ("zig", "zig.exe")]
    return next((path for path in found if path.is_file()), None)


@lru_cache(maxsize=1)
def version() -> str:
    """The wheel's version with the stamp of our headers and of what is done to its text, such as 'ziglang 0.17.1 3f2a…'."""
    files = [*sorted(INCLUDE.rglob("*")), *sorted(INCLUDE.parent.glob("*.py"))]
    texts = [path.relative_to(INCLUDE.parent).as_posix() + path.read_text(encoding="utf-8") for path in files if path.is_file()]
    return f"{PACKAGE} {metadata.version(PACKAGE)} {hashlib.sha256(''.join(texts).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Request:
    """What is compiled: text, its name, NVRTC's options, name expressions, target, folders of headers, headers (name, text) that stand before the files of
    folders, and texts of files by the name that a #line in them says."""

    code: str
    name: str
    options: tuple[str, ...] = ()
    name_expressions: tuple[str, ...] = ()
    arch: str = "sm_90a"
    folders: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    named: tuple[tuple[str, str], ...] = ()


def compile_cuda(asked: Request) -> tuple[str, str, dict[str, str]]:
    """(PTX, log, mangled name of each name expression). Raises ClangError with clang's log, whose positions are the caller's."""
    with tempfile.TemporaryDirectory(prefix="hopperlab-clang-") as folder:
        shown = _inside(asked.name)
        texts = {shown: asked.code, **{_inside(name): text for name, text in asked.headers}}
        _write(folder, {file: escaped(text) + (ir.asking(asked.name_expressions) if file == shown else "") for file, text in texts.items()})
        target = (*_BOTH, "-target-cpu", asked.arch, "-target-feature", PTX_FEATURE)
        front = [*_FRONT, *target, *_clang_options(asked.options), "-include", str(INCLUDE / "prelude.h"),
                 "-I.", *(f"-I{each}" for each in asked.folders), "-internal-isystem", str(INCLUDE), "-main-file-name", shown, "-o", "-", shown]
        text, log = _run(front, folder, "")
        text, lowered = ir.finished(text, asked.name_expressions)
        ptx, more = _to_ptx(text, [*_BACK, *target], folder)
        said = {**texts, **dict(asked.named), **lines.by_file(asked.code, shown)}
        table = lines.LineTable(ir.functions(text), lambda path: said.get(path.removeprefix("./")) or _text_of(Path(folder, path)))
        return types.named(table.stated(ptx)).replace("\"./", "\""), _named("\n".join(filter(None, (log, more))), shown, asked.name), lowered


def _to_ptx(text: str, arguments: list[str], folder: str) -> tuple[str, str]:
    """(PTX, log) of IR. An array that stays in local memory because a loop over it is long, as sums of a wgmma may not, goes into registers where unrolling
    does it, which NVRTC never spares."""
    ptx, log = _run([*arguments, "-o", "-", "-"], folder, text)
    if _LOCAL in ptx:
        unrolled, more = _run([*arguments, "-mllvm", f"-unroll-threshold={UNROLLED}", "-o", "-", "-"], folder, text)
        if _LOCAL not in unrolled:
            return unrolled, more
    return ptx, log


def bare_registers(texts: Mapping[str, str], folders: Sequence[str]) -> list[tuple[str, str]]:
    """Those files (text by path) that clang must get as text, because they name special registers as NVRTC alone takes them; by the name that includes them."""
    found = []
    for path, text in texts.items():
        if escaped(text) != text:
            folder = next((each for each in folders if Path(path).is_relative_to(each)), str(Path(path).parent))
            found.append((Path(path).relative_to(folder).as_posix(), text))
    return found


def _write(folder: str, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _run(arguments: list[str], folder: str, text: str) -> tuple[str, str]:
    """(output, log) of one step."""
    zig = program()
    if zig is None:
        raise ClangError(f"{PACKAGE} is not installed")
    try:
        done = subprocess.run([str(zig), "clang", "-cc1", *arguments], cwd=folder, input=text, capture_output=True, text=True, encoding="utf-8", errors="replace",
                              timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ClangError(f"clang could not run: {problem}") from problem
    log = _GONE.sub("", done.stderr).strip()
    if done.returncode:
        raise ClangError(log or f"clang ended with status {done.returncode}")
    return done.stdout, log


def _clang_options(options: Sequence[str]) -> list[str]:
    """NVRTC's options in clang's words; what only NVRTC has is left out, and an unknown one stays, so that clang names it."""
    kept: list[str] = []
    for option in options:
        if found := re.match(r"--define-macro=(.*)", option):
            kept.append(f"-D{found[1]}")
        elif found := re.match(r"--include-path=(.*)", option):
            kept.append(f"-I{found[1]}")
        elif found := re.match(r"(?:-include=?|--pre-include=)(.+)", option):
            kept += ["-include", found[1]]
        elif found := re.match(r"-?-std=(.+)", option):
            kept.append(f"-std={found[1]}")
        elif option in ("-use_fast_math", "--use_fast_math"):
            kept += ["-ffast-math", "-fdenormal-fp-math-f32=preserve-sign,preserve-sign"]
        elif not re.match(r"-?-(lineinfo|generate-line-info|ptxas-options|device-debug|G|default-device|device-as-default-execution-space|expt-|extended-lambda"
                          r"|extra-device-vectorization|diag-|fmad|ftz|prec-|restrict|maxrregcount|dopt|split-compile|no-cache|minimal|time|pch|w$)", option):
            kept.append(option)
    return kept


def _inside(name: str) -> str:
    """The source's name as a path that stays inside a folder."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".") and ":" not in part]
    return "/".join(parts) or "kernel.cu"


def escaped(code: str) -> str:
    """Special registers in strings with the two signs that clang asks for: NVRTC takes %clock64 in an asm text for %%clock64."""
    return _STRING.sub(lambda found: _BARE_REGISTER.sub("%%", found[0]), code) if "%" in code else code


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _named(log: str, shown: str, name: str) -> str:
    """The log with the caller's name of the source."""
    return log if shown == name else log.replace(shown, name)


def advice(log: str) -> str:
    """What to do about an error that may be ours: a function or header that NVRTC knows and the headers beside this file do not."""
    found = re.search(r"use of undeclared identifier '(\w+)'(?=\n.*\b\1 *[(<])|use of undeclared identifier '(cuda|cooperative_groups|std)'|'([\w./]+)' file "
                      r"not found", log)
    if found:
        return (f"\n-> {found[1] or found[2] or found[3]}: clang compiles with the course's small headers, which have what lessons "
                "and exercises use. If it is CUDA's, compile on Linux or Windows (HOPPERLAB_COMPILER=nvrtc), or write it out")
    return ""


def bare(text: str, folders: Sequence[str]) -> str:
    """A log or PTX without the folders of headers."""
    for folder in sorted({*folders, str(INCLUDE)}, key=len, reverse=True):
        text = text.replace(folder.rstrip(os.sep) + os.sep, "")
    return text
