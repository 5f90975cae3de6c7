# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ in, PTX and cubin out: one NVRTC call for sm_90a, kept in the disk cache; or clang's PTX, where there is no NVRTC.

The source is compiled exactly as given, so line numbers in messages are the caller's. PTX names its files as the
caller did, never by absolute path, and is therefore the same on every machine.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from .. import uses
from ..errors import CompileError, NoteError
from . import cache, headers, precompiled_headers, shims, toolchain
from .advice import advice
from .clang import compiler as clang
from .nvrtc_program import Program, Result, compile_program
from .own_headers import OwnHeader, in_folder, include_folders
from .ptxas import PtxasInfo, parse, without_ptxas

ARCH = "sm_90a"
FORMAT = 6          # of what is cached; a new number makes old entries unreachable
LINE_NAME = re.compile(r'^[ \t]*#[ \t]*line[ \t]+\d+[ \t]+"([^"\n]+)"', re.M)


@dataclass(frozen=True)
class Source:
    """What is compiled: text, the name shown in messages, options for NVRTC, template instances, the target, and the caller's headers whose text is another one now."""

    code: str
    name: str = "kernel.cu"
    options: tuple[str, ...] = ()
    name_expressions: tuple[str, ...] = ()
    arch: str = ARCH
    headers: tuple[OwnHeader, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """The result: PTX text, cubin bytes, the compiler's log, and the mangled name of each name expression. Clang gives no cubin, and no line of ptxas."""

    ptx: str
    cubin: bytes
    log: str
    lowered: dict[str, str] = field(default_factory=dict)
    name: str = "kernel.cu"

    @property
    def assembled(self) -> bool:
        """True where ptxas has seen it: NVRTC asks it, clang does not."""
        return bool(self.cubin) or "ptxas " in self.log

    @cached_property
    def info(self) -> PtxasInfo:
        """Registers, spills, shared memory and notes by kernel."""
        return parse(self.log)

    @property
    def warnings(self) -> str:
        """The compiler's own warnings, without ptxas's lines."""
        return without_ptxas(self.log)


def compile_source(source: Source, use_cache: bool = True, only_nvrtc: bool = False) -> Compiled:
    """Compile for `source.arch`, or take the result of an earlier compilation from the disk cache. only_nvrtc: clang's PTX will not do,
    because a GPU runs it, its hash is compared, or ptxas is asked.

    Raises CompileError, with the compiler's log. Without NVRTC clang compiles (no machine code), and without clang there is a ToolchainError, with the ways out.
    """
    uses.tell(uses.COMPILED, source)
    source, folders = _prepare(source)
    texts = {path: text for path, text in headers.included_files(source.code, folders, _pre_includes(source.options)).items()
             if path not in {header.path for header in source.headers}}
    chosen = toolchain.compiler(only_nvrtc)
    key = cache_key(source, texts, chosen)
    entry = cache.read(key) if use_cache else None
    compiled = _from_entry(entry, source.name) if entry is not None else None
    if compiled is None:
        with in_folder([h._replace(text=clang.escaped(h.text)) if chosen == "clang" else h for h in source.headers], source.options) as options:
            there, places = replace(source, options=options), [*folders, *include_folders(options)]
            written = [source.code, *texts.values(), *(header.text for header in source.headers)]
            compiled = _run_clang(there, places, texts) if chosen == "clang" else _run_nvrtc(there, places, written)
        if use_cache:
            cache.write(key, _to_entry(compiled))
    return compiled


def check_notes(compiled: Compiled, info: PtxasInfo | None = None) -> None:
    """Raise NoteError when ptxas changed what a kernel does. Lessons and %%cuda call this. info: what is known instead of ptxas's lines."""
    serious = [note for note in (compiled.info if info is None else info).notes if note.serious]
    if serious:
        raise NoteError(f"{compiled.name} compiles, but does not run as written:", "\n".join(map(str, serious)))


def cache_key(source: Source, texts: dict[str, str], compiler: str = "nvrtc") -> str:
    """Hash of the source, the text of each header it includes, the options, the target, and the compiler with its version: the same for every copy of the course."""
    options = [option.replace(str(toolchain.KERNELS), "") for option in source.options]
    parts = [FORMAT, clang.version() if compiler == "clang" else toolchain.compiler_version(), source.arch, source.name, source.code, options,
             source.name_expressions, sorted((os.path.basename(path), text) for path, text in texts.items())]
    if shims.wanted([source.code, *texts.values(), *(header.text for header in source.headers)]):
        parts.append(shims.STAMP)
    if source.headers:
        parts.append(source.headers)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _prepare(source: Source) -> tuple[Source, list[str]]:
    """Check the options, take a target out of them, and list the folders whose headers the cache must watch."""
    if isinstance(source.options, str):
        raise TypeError(f'options is one string; write a tuple: options=("{source.options}",)')
    arch, kept = source.arch, []
    for option in source.options:
        if not isinstance(option, str):
            raise TypeError(f"option {option!r} is not a string")
        if match := re.match(r"(?:-arch|--gpu-architecture)=(.+)", option):
            arch = match[1]
        else:
            kept.append(option)
    folders = [str(toolchain.OWN_INCLUDE), *include_folders(kept)]
    local = toolchain.KERNELS / os.path.dirname(source.name)
    if os.path.dirname(source.name) and local.is_dir():
        folders.append(str(local))
        kept.append(f"-I{local}")
    return replace(source, options=tuple(kept), name_expressions=tuple(source.name_expressions), arch=arch), folders


def _pre_includes(options: Sequence[str]) -> list[str]:
    return [m[1] for o in options if (m := re.match(r"(?:-include=?|--pre-include=)(.+)", o))]


def _run_clang(source: Source, folders: list[str], texts: dict[str, str]) -> Compiled:
    """texts: of the headers that the source includes, by path."""
    given = (*clang.bare_registers(texts, folders), *shims.of_the_host(source.code))
    asked = clang.Request(source.code, source.name, source.options, source.name_expressions, source.arch, (str(toolchain.OWN_INCLUDE),), given,
                          tuple((header.name, header.text) for header in source.headers))
    try:
        ptx, log, lowered = clang.compile_cuda(asked)
    except clang.ClangError as problem:
        log = clang.bare(str(problem), folders)
        raise CompileError(f"{source.name} does not compile:", log + clang.advice(log)) from problem
    return Compiled(clang.bare(ptx, folders), b"", clang.bare(log, folders), lowered, source.name)


def _run_nvrtc(source: Source, folders: list[str], texts: Sequence[str]) -> Compiled:
    """texts: of the source and the headers that it includes."""
    options = [f"--gpu-architecture={source.arch}", "-lineinfo", "--ptxas-options=-v", *toolchain.no_driver_cache(),
               *source.options, *(f"-I{folder}" for folder in toolchain.include_directories())]
    if sys.platform.startswith("linux") and any("__int128" in text for text in texts):
        options.append("--device-int128")           # nvcc has it without being asked
    if any("__asm__" in text for text in texts):
        options += ["-D__asm__=asm", "-D__volatile__=volatile"]         # as gcc has them
    shimmed = shims.wanted(texts)
    if headers.uses_libcudacxx(texts) and not shimmed and not source.headers:
        with_header = precompiled_headers.options(source.code, options)
        result, log = _compile_once(source, [*options, *with_header])
        if result is None and "precompiled header" in log:
            result, log = _compile_once(source, options)
    else:
        result, log = _compile_once(source, options, shimmed)
    if result is None and (missing := shims.brought_by_nvcc(log)):
        result, log = _compile_once(source, [*options, *(f"--pre-include={header}" for header in missing)], True)
    names = [source.name, *LINE_NAME.findall(source.code), *(header.name for header in source.headers), *(shims.HEADERS if shimmed else ())]
    log = _shown(_tidy(log), names, folders)
    if result is None:
        raise CompileError(f"{source.name} does not compile:", (without_ptxas(log) or log) + advice(log, toolchain.cuda_major()))
    return Compiled(_shown(result.ptx, names, folders), result.cubin, log, result.lowered, source.name)


def _compile_once(source: Source, options: list[str], shimmed: bool = False) -> tuple[Result | None, str]:
    """(result, or None when it failed; log). shimmed: with the headers that NVRTC lacks."""
    extra = tuple(shims.HEADERS.items()) if shimmed else ()
    return compile_program(Program(source.code, source.name, tuple(options), tuple(source.name_expressions), extra))


def _tidy(log: str) -> str:
    """The log without times (they differ from run to run) and without NVRTC's hint on suppressing warnings."""
    drop = ("Compile time =", "The warnings can be suppressed with", "precompiled header file")
    lines = [line.rstrip() for line in log.splitlines() if not any(text in line for text in drop)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _shown(text: str, names: Sequence[str], folders: list[str]) -> str:
    """Replace absolute paths of the source (and of headers that are no files, and of what #line names) and of header folders by the names a reader knows."""
    for name in sorted({*names}, key=len, reverse=True):
        text = text.replace(os.path.join(os.getcwd(), name), name)
    for folder in sorted({*folders, *toolchain.include_directories()}, key=len, reverse=True):
        text = text.replace(folder.rstrip(os.sep) + os.sep, "")
    return text


def _to_entry(compiled: Compiled) -> cache.Entry:
    meta = {"log": compiled.log, "lowered": compiled.lowered}
    return cache.Entry(meta, {"ptx": compiled.ptx.encode(), "cubin": compiled.cubin})


def _from_entry(entry: cache.Entry, name: str) -> Compiled:
    return Compiled(entry.blobs["ptx"].decode(), entry.blobs["cubin"], entry.meta["log"], entry.meta["lowered"], name)
