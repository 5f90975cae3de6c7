# SPDX-License-Identifier: Apache-2.0
"""Running what a learner wrote where it can do no harm: without network, on a read-only system, within limits.

`command` builds the command line (bubblewrap; podman or docker where that is what there is), `run` runs it and ends it when it
takes too long, grows too large or prints too much. supervise.py watches; nothing here knows exercises or notebooks.
"""
from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from . import supervise
from .supervise import Completed

PACKAGE = Path(__file__).resolve().parents[1]
"""The hopperlab package. A sandbox sees it only when it is among `read_only`."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
USER = 64911               # whom root becomes: root's processes are not bounded in number, and root may write what others own
IMAGE = "hopperlab"        # of podman and docker, made by the Dockerfile; HOPPERLAB_SANDBOX_IMAGE names another one
COURSE = "/home/learner/hopperlab"
"""Where the image holds the course, solutions and all: hidden in the sandbox."""
KINDS = ("bubblewrap", "podman", "docker")
HINT = "Install bubblewrap 0.8 or newer (Debian and Ubuntu: apt install bubblewrap), or podman or docker with the course's image."
_TRY = (sys.executable, "-I", "-c", "print(6 * 7)")


class SandboxError(RuntimeError):
    """Nothing on this machine isolates processes."""


@dataclass(frozen=True)
class Limits:
    """What one sandbox may take.

    seconds:      wall time from start to end; every process of the sandbox is then killed
    cell_seconds: wall time of one cell of a notebook
    memory_bytes: of all processes together, looked at ten times a second; also the address space of each of them
    processes:    processes and threads
    file_bytes:   the largest file, and the size of /tmp, which lies in memory
    output_bytes: printed to standard output and standard error together
    """

    seconds: float = 120.0
    cell_seconds: float = 60.0
    memory_bytes: int = 4 << 30
    processes: int = 64
    file_bytes: int = 64 << 20
    output_bytes: int = 4 << 20


@cache
def kind() -> str | None:
    """'bubblewrap', 'podman' or 'docker', whichever first ran a process here; None where none did. Tried once a process."""
    return next((name for name in KINDS if _works(name)), None)


def _works(name: str) -> bool:
    program = "bwrap" if name == "bubblewrap" else name
    if sys.platform != "linux" or shutil.which(program) is None or shutil.which("prlimit") is None:
        return False
    try:
        done = subprocess.run(BUILDERS[name](_TRY, (), None, Limits()), stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == b"42"


def required(unsafe: bool = False) -> str | None:
    """kind(), or None when `unsafe`. Raises SandboxError where nothing isolates and `unsafe` was not given."""
    if unsafe:
        return None
    if kind() is None:
        raise SandboxError(f"No sandbox works on this machine, so nothing that a learner wrote is run. {HINT} "
                           "--unsafe runs submissions without isolation, with limits only.")
    return kind()


def command(argv: Sequence[str], *, read_only: Sequence[Path] = (), writable: Path | None = None, limits: Limits = Limits(),
            unsafe: bool = False) -> list[str]:
    """The command line that runs `argv` isolated: no network, no view of files beyond the system's programs, Python and its packages
    (without hopperlab) and `read_only`; nothing to write but a private /tmp and `writable`; processes, users and System V objects of
    its own; limits on CPU time, address space, processes, file size and open files; ends with its parent.

    unsafe: only the limits and the minimal environment, nothing isolated. Raises SandboxError where nothing isolates.
    """
    chosen = required(unsafe)
    if chosen is None:
        return ["env", "-i", *(f"{name}={value}" for name, value in environment().items()), *_limited(argv, limits, counted=False)]
    return BUILDERS[chosen](argv, tuple(Path(p) for p in read_only), writable, limits)


def run(argv: Sequence[str], input: bytes = b"", *, read_only: Sequence[Path] = (), writable: Path | None = None, limits: Limits = Limits(),
        unsafe: bool = False) -> Completed:
    """Run `argv` in the sandbox, give it `input`, and return what it printed, cut at limits.output_bytes. Its whole process tree has
    ended when this returns; `killed` says by which limit, if any. Raises SandboxError where nothing isolates."""
    line = command(argv, read_only=read_only, writable=writable, limits=limits, unsafe=unsafe)
    return supervise.run(line, input, seconds=limits.seconds, memory_bytes=limits.memory_bytes, output_bytes=limits.output_bytes,
                         processes=limits.processes + OWN_PROCESSES)


OWN_PROCESSES = 9          # of the sandbox itself: bwrap twice or four times, timeout, and what passes through env, setpriv and prlimit
LATER = 5                  # seconds after the wall clock's limit when a sandbox that nobody watches ends


def environment() -> dict[str, str]:
    """All environment variables inside: nothing of the caller's, results that do not depend on the machine, few threads."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "USER": "learner", "LANG": "C.UTF-8",
            "PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "2",
            "HOPPERLAB_BACKEND": "emulator", "HOPPERLAB_CACHE_DIR": "/tmp/kernels", "MPLCONFIGDIR": "/tmp/matplotlib", "MPLBACKEND": "agg",
            "IPYTHONDIR": "/tmp/ipython", **one}


def _limited(argv: Sequence[str], limits: Limits, counted: bool = True) -> list[str]:
    """`argv` under prlimit. CPU time is a backstop behind the wall clock: twice as long, since several threads may run. `timeout` ends it
    where whoever watched was killed just as the sandbox began, before it could ask to die with its parent. counted: whether the kernel
    counts processes, which it does for a sandbox alone, but for all that a user runs outside of one (supervise.py counts too)."""
    processes = [f"--nproc={limits.processes}"] if counted else []
    return ["timeout", "--signal=KILL", str(math.ceil(limits.seconds) + LATER), "prlimit", f"--cpu={2 * math.ceil(limits.seconds)}",
            f"--as={limits.memory_bytes}", *processes,
            f"--fsize={limits.file_bytes}", "--nofile=256", "--core=0", "--", *map(str, argv)]


# --- what is visible --------------------------------------------------------------------------------------------------
def visible(read_only: Sequence[Path] = ()) -> list[Path]:
    """Folders that a sandbox sees beside the system's: the interpreter, its environment, other folders of packages, and `read_only`."""
    packages = [Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    found: list[Path] = []
    for path in (Path(sys.base_prefix), Path(sys.prefix), *packages, *read_only):
        if path.exists() and not any(path.is_relative_to(p) for p in (*map(Path, SYSTEM), *found)):
            found.append(path)
    return found


def _hidden(read_only: Sequence[Path]) -> list[Path]:
    """The package, where it lies inside a visible folder (as an installed one does) and was not asked for."""
    inside = any(PACKAGE.is_relative_to(p) for p in (*map(Path, SYSTEM), *visible(read_only)))
    return [PACKAGE] if inside and not any(PACKAGE.is_relative_to(p) for p in read_only) else []


# --- bubblewrap -------------------------------------------------------------------------------------------------------
def _bubblewrap(argv: Sequence[str], read_only: Sequence[Path], writable: Path | None, limits: Limits) -> list[str]:
    size = ["--size", str(limits.file_bytes)]
    line = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    for path in SYSTEM:
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            line += ["--ro-bind", path, path]
    line += ["--proc", "/proc", "--dev", "/dev", *size, "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    line += [*size, "--perms", "1777", "--tmpfs", "/tmp"]
    for path in visible(read_only):
        line += ["--ro-bind", str(path), str(path)]
    for path in _hidden(read_only):
        line += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    if writable is not None:
        line += ["--bind", str(writable), str(writable)]
    line += ["--remount-ro", "/", "--chdir", "/tmp", "--clearenv"]
    for name, value in environment().items():
        line += ["--setenv", name, value]
    line += ["--", *_limited(argv, limits)]
    needed = [*visible(read_only), *([writable] if writable is not None else [])]
    return [*_as_user(needed), *line] if os.geteuid() == 0 else line


def _as_user(needed: Sequence[Path]) -> list[str]:
    """What root puts in front: become USER, who can reach the `needed` folders even where they lie in root's home."""
    line = ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent"]
    closed = {parent for path in needed for parent in [next((p for p in reversed(path.parents) if not p.stat().st_mode & 0o001), None)] if parent}
    for parent in sorted(closed):
        line += ["--size", "65536", "--tmpfs", str(parent)]
    for path in needed:
        top = next((parent for parent in closed if path.is_relative_to(parent)), None)
        if top is not None:
            for between in reversed([p for p in path.parents if p.is_relative_to(top) and p != top]):
                line += ["--perms", "0755", "--dir", str(between)]
            line += ["--bind", str(path), str(path)]
    capabilities = [word for name in ("SETUID", "SETGID", "SETPCAP") for word in ("--cap-add", f"CAP_{name}")]
    return [*line, "--cap-drop", "ALL", *capabilities, "--", "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
            "--inh-caps=-all", "--bounding-set=-all", "--"]


def give(path: Path) -> None:
    """Make a folder one that the sandbox's user may write to."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER)


# --- podman and docker ------------------------------------------------------------------------------------------------
def _container(program: str, argv: Sequence[str], read_only: Sequence[Path], writable: Path | None, limits: Limits) -> list[str]:
    """The same for a container of the course's image, whose own Python runs. `timeout` ends it even when nobody is left to watch."""
    user = f"{os.geteuid() or USER}:{os.getegid() or USER}"
    line = [program, "run", "--rm", "--interactive", "--init", "--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
            f"--user={user}", "--hostname=sandbox", "--workdir=/tmp", f"--tmpfs=/tmp:rw,mode=1777,size={limits.file_bytes}",
            f"--tmpfs={COURSE}:ro,size=4096", f"--shm-size={limits.file_bytes}", f"--pids-limit={limits.processes + OWN_PROCESSES}", f"--memory={limits.memory_bytes}",
            f"--memory-swap={limits.memory_bytes}", f"--ulimit=fsize={limits.file_bytes}", "--ulimit=core=0", "--ulimit=nofile=256"]
    if program == "podman":
        line.append("--userns=keep-id")
    for path in read_only:
        line.append(f"--volume={path}:{path}:ro")
    if writable is not None:
        line.append(f"--volume={writable}:{writable}")
    line += [f"--env={name}={value}" for name, value in environment().items() if name != "PATH"]
    inside = ["python" if word == sys.executable else word for word in map(str, argv)]
    return [*line, "--entrypoint=timeout", os.environ.get("HOPPERLAB_SANDBOX_IMAGE", IMAGE), "--signal=KILL", str(math.ceil(limits.seconds)), *inside]


def _podman(*given) -> list[str]:
    return _container("podman", *given)


def _docker(*given) -> list[str]:
    return _container("docker", *given)


BUILDERS: Mapping = {"bubblewrap": _bubblewrap, "podman": _podman, "docker": _docker}
