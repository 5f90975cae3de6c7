# SPDX-License-Identifier: Apache-2.0
"""`make test` takes the lessons' and exercises' own kernels from the PTX that the course ships, as machines without a compiler do; `make test-all` compiles them.

An entry is found by source, headers and options, so whatever was edited is compiled; it serves only where the pinned compiler is installed, and
tests/authoring/test_precompiled.py fails where what ships is of another compiler than that.
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache, cached_property
from typing import Any
from unittest import mock

from hopperlab.authoring.stamps import kernel_uses, made_of
from hopperlab.runtime import module, uses
from hopperlab.runtime.compile import headers, nvrtc, precompiled_ptx, toolchain
from hopperlab.runtime.compile.nvrtc import Compiled, Source


class Shipped:
    """As `Compiled`, with its machine code made when it is asked for."""

    def __init__(self, source: Source, entry: Mapping[str, Any]):
        self.source, self.name = source, source.name
        self.ptx, self.log, self.lowered = entry["ptx"], entry["log"], entry["lowered"]

    @cached_property
    def cubin(self) -> bytes:
        """NVRTC's, or what its cache has."""
        return nvrtc.compile_source(self.source, only_nvrtc=True).cubin

    info, warnings, assembled = Compiled.info, Compiled.warnings, True



@cache
def _entries() -> dict[str, dict[str, Any]]:
    return {key: entry for path in precompiled_ptx.FOLDER.glob(f"*{precompiled_ptx.SUFFIX}") for key, entry in precompiled_ptx.read(path)["entries"].items()}


def compile_source(source: Source, use_cache: bool = True, only_nvrtc: bool = False) -> Compiled | Shipped:
    """What ships, where it is of this source and this compiler; else as nvrtc.compile_source."""
    plain = use_cache and toolchain.has_nvrtc() and made_of.comparable() and not {"HOPPERLAB_COMPILER", "HOPPERLAB_RECORD_PTX"} & os.environ.keys()
    entry = _entries().get(_key(source)) if plain and not source.headers else None
    if entry is None:
        return nvrtc.compile_source(source, use_cache, only_nvrtc)
    uses.tell(uses.COMPILED, source)
    return Shipped(source, entry)


def _key(source: Source) -> str:
    prepared, folders = nvrtc._prepare(source)
    texts = headers.included_files(prepared.code, folders, nvrtc._pre_includes(prepared.options))
    return precompiled_ptx.key_of(prepared.code, prepared.name, source.options, prepared.name_expressions, prepared.arch, texts)


def taken() -> ExitStack:
    """The context in which kernels come from what ships."""
    stack = ExitStack()
    for place in (module, kernel_uses):
        stack.enter_context(mock.patch.object(place, "compile_source", compile_source))
    return stack
