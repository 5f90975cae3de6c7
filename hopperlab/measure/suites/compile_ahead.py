# SPDX-License-Identifier: Apache-2.0
"""Many kernels compiled by as many processes as there are cores, into the cache, before they are measured one after the other."""
from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

Wanted = tuple[str, str, tuple[str, ...]]                   # path, kernel, options


def _compile(wanted: Wanted) -> str:
    """Compile one for a GPU; what went wrong, or nothing."""
    from ...runtime.errors import CompileError
    from ...runtime.library import load_kernel
    path, kernel, options = wanted
    try:
        load_kernel(path, kernel, options, backend="gpu")
    except CompileError as problem:
        return f"{path} {' '.join(options)}: {problem}"
    return ""


def compile_ahead(wanted: Iterable[Wanted], say: Callable[[str], None] = lambda text: None) -> list[str]:
    """Compile each of `wanted` once; what does not compile is told, a line each."""
    kernels = sorted(set(wanted))
    if len(kernels) < 3:
        return [problem for problem in map(_compile, kernels) if problem]
    say(f"compiling {len(kernels)} kernels")
    try:
        with ProcessPoolExecutor(min(len(kernels), os.cpu_count() or 1), mp_context=multiprocessing.get_context("spawn")) as pool:
            return [problem for problem in pool.map(_compile, kernels) if problem]
    except BrokenProcessPool:               # a program read from standard input, which new processes cannot begin with
        return [problem for problem in map(_compile, kernels) if problem]
