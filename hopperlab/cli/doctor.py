# SPDX-License-Identifier: Apache-2.0
"""`hopperlab doctor`: what this machine has, which place kernels will use and why, and the command that mends each problem."""
from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from ..runtime import backend, installing
from ..runtime.compile import cache, toolchain
from ..runtime.compile.clang import compiler as clang
from ..runtime.gpu.driver import Gpu, find_gpu
from ..runtime.errors import HopperlabError
from ..runtime.tables import counted

OLDEST_PYTHON = (3, 11)
FREE_BYTES = 20_000_000       # less than this on the cache's disk, and the next few kernels may not fit
MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}


@dataclass(frozen=True)
class Finding:
    """One line of the screen. state: 'ok', 'note' (lessons run all the same) or 'bad' (they do not)."""

    state: str
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{MARKS[self.state]} {self.subject:<12} {self.text}"
        return line + (f"\n{'':18}-> {self.remedy}" if self.remedy else "")


def examine() -> Iterator[Finding]:
    """All findings, in the order of the screen."""
    gpu = find_gpu()
    yield _python()
    yield _gpu(gpu)
    if gpu is not None:
        yield _driver(gpu)
    yield _cupy(gpu)
    yield from _compiler()
    yield from _place(gpu)
    yield _packages()
    yield _course()
    yield _disk_cache()


def report() -> int:
    """Print the screen; returns 0 when lessons can run, 1 otherwise."""
    findings = []
    for finding in examine():
        print(finding, flush=True)
        findings.append(finding)
    bad = [f for f in findings if f.state == "bad"]
    print()
    if bad:
        print(f"Lessons cannot run yet: {', '.join(f.subject for f in bad)}. Do what the arrows say, then run this again.")
        return 1
    print("Lessons can run: " + ("make lab, or python -m hopperlab lab" if installing.from_clone() else "hopperlab lab"))
    return 0


def _python() -> Finding:
    text = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("bad", "Python", text, "install Python 3.11 or newer, remove .venv, and run make lab again")
    return Finding("ok", "Python", text)


def _gpu(gpu: Gpu | None) -> Finding:
    if gpu is None:
        return Finding("note", "GPU", "no NVIDIA GPU or driver found: kernels run in the emulator, timings are recorded ones")
    text = f"{gpu.name}, compute capability {gpu.capability[0]}.{gpu.capability[1]}, {gpu.multiprocessors} multiprocessors"
    if gpu.capability != backend.HOPPER:
        return Finding("note", "GPU", f"{text}: not Hopper (9.0), so lessons use the emulator",
                       "HOPPERLAB_BACKEND=gpu runs kernels without Hopper's instructions on it")
    return Finding("ok", "GPU", text)


def _driver(gpu: Gpu) -> Finding:
    text = f"CUDA {gpu.driver_cuda[0]}.{gpu.driver_cuda[1]}, toolkit {toolchain.cuda_major()}"
    if gpu.driver_cuda[0] < toolchain.cuda_major():
        cuda12 = "make cupy CUDA=12" if installing.from_clone() else installing.course("cuda12")
        remedy = cuda12 if gpu.driver_cuda[0] == 12 else "update the NVIDIA driver to 580 or newer"
        return Finding("bad" if gpu.capability == backend.HOPPER else "note", "driver", f"{text}: the driver is older", remedy)
    return Finding("ok", "driver", text)


def _cupy(gpu: Gpu | None) -> Finding:
    version = next((f"{d} {metadata.version(d)}" for d in ("cupy-cuda13x", "cupy-cuda12x", "cupy") if _installed(d)), None)
    if version:
        return Finding("ok", "CuPy", version)
    if gpu is None:
        return Finding("ok", "CuPy", "not installed, not needed without a GPU")
    return Finding("note", "CuPy", "not installed: this GPU stays unused", backend.install_cupy(gpu))


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _compiler() -> Iterator[Finding]:
    try:
        if toolchain.compiler() == "clang":
            found = Finding("ok", "clang", f"compiles for the emulator ({clang.version()})" + ("" if toolchain.has_nvrtc() else "; there is no NVRTC here"))
        else:
            major, minor = toolchain.nvrtc_version()
            found = Finding("ok", "NVRTC", f"{major}.{minor} ({toolchain.compiler_version()})")
    except HopperlabError as problem:
        first, _, rest = str(problem).partition("\n")
        if sys.platform == "darwin":
            yield Finding("bad", "clang", "missing, and NVRTC does not exist for macOS: no kernel compiles", toolchain.CLANG)
        else:
            yield Finding("bad", "compiler" if "HOPPERLAB_COMPILER" in first else "NVRTC", first, rest.strip() or toolchain.INSTALL)
        return
    yield found
    from ..runtime.compile.nvrtc import Source, compile_source
    from ..runtime.probe import CODE, NAME
    start = time.perf_counter()
    try:
        compile_source(Source("#include <cuda_bf16.h>\n" + CODE, NAME), use_cache=False)
    except HopperlabError as problem:
        yield Finding("bad", "headers", str(problem).splitlines()[0], toolchain.INSTALL)
        return
    yield Finding("ok", "headers", f"a kernel compiles for sm_90a in {time.perf_counter() - start:.2f} s")


def _place(gpu: Gpu | None) -> Iterator[Finding]:
    """Which place is chosen and why, and whether a small kernel runs there and in the emulator."""
    choice = os.environ.get("HOPPERLAB_BACKEND", "auto").strip().lower() or "auto"
    try:
        if choice == "auto":
            place, why = backend.decide(gpu, backend.has_cupy())
        else:
            place, why = backend.backend(choice), f"HOPPERLAB_BACKEND={choice}"
    except HopperlabError as problem:
        yield Finding("bad", "place", str(problem), "unset HOPPERLAB_BACKEND, or set it to auto")
        return
    yield Finding("ok", "place", f"{place}: {why}")
    for where in sorted({place, "emulator"}, reverse=True):
        yield _run(where)


def _run(place: str) -> Finding:
    from ..runtime import probe
    subject = "emulator" if place == "emulator" else "GPU launch"
    start = time.perf_counter()
    try:
        right = probe.runs(place)
    except Exception as problem:        # whatever it is, the screen must go on
        remedy = toolchain.INSTALL if place == "emulator" else "HOPPERLAB_BACKEND=emulator works meanwhile; try nvidia-smi"
        return Finding("bad", subject, f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}", remedy)
    if not right:
        return Finding("bad", subject, "a small kernel gave wrong values", "report this with the output of this command")
    return Finding("ok", subject, f"a small kernel ran in {time.perf_counter() - start:.2f} s")


def _packages() -> Finding:
    missing = [name for name in ("jupyterlab", "ipywidgets", "matplotlib", "ipykernel") if importlib.util.find_spec(name) is None]
    inside = "ipykernel" in sys.modules or "JPY_PARENT_PID" in os.environ      # in a notebook's kernel, or started by one
    if missing == ["jupyterlab"] and inside:
        return Finding("ok", "notebooks", "this one runs; JupyterLab itself is not in this environment")
    if missing:
        return Finding("bad", "notebooks", f"{', '.join(missing)} not installed",
                       installing.course("lab"))
    return Finding("ok", "notebooks", f"JupyterLab {metadata.version('jupyterlab')}")


def _course() -> Finding:
    """Where the lessons are, and where your copies of them."""
    from ..authoring import course
    from ..authoring.learner import workspace
    try:
        root = workspace.find_root()
        lessons = course.entries(root)
    except (workspace.WorkspaceError, OSError, KeyError, ValueError) as problem:
        return Finding("bad", "course", str(problem).splitlines()[0], installing.course())
    work = workspace.find_work(root)
    exercises = sum(entry.exercise is not None for entry in lessons)
    text = f"{len(lessons)} lessons, {exercises} exercise notebooks; "
    if not lessons:
        return Finding("bad", "course", f"{root / 'notebooks'} holds no lessons", installing.course())
    if work is None or not work.is_dir():
        return Finding("ok", "course", text + f"your copies: none yet, `hopperlab lab` makes them in {work or workspace.FIRST_NAME}")
    return Finding("ok", "course", text + f"your copies: {work}")


def _disk_cache() -> Finding:
    folder, limit = cache.folder(), cache.limit_bytes()
    if not limit:
        return Finding("note", "disk cache", "switched off by HOPPERLAB_CACHE_MB=0", "unset HOPPERLAB_CACHE_MB")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free
    except OSError as problem:
        return Finding("note", "disk cache", f"{folder} cannot be written ({problem.strerror}); kernels compile anew each time",
                       "set HOPPERLAB_CACHE_DIR to a folder of yours")
    used, count = cache.size_and_count()
    text = f"{folder}: {counted(count, 'kernel')}, {used / 1e6:.1f} of {limit / 1e6:.0f} MB"
    if free < FREE_BYTES:
        return Finding("note", "disk cache", f"{text}; its disk is full ({free / 1e6:.0f} MB left), so kernels compile anew each time",
                       "free some space, or set HOPPERLAB_CACHE_DIR to a folder on another disk")
    return Finding("ok", "disk cache", text)
