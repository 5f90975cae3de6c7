"""`hopperlab lab`: fill work/, start JupyterLab on the landing notebook, and print its URL. What `make lab` does, without make."""
from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from . import workspace

FIRST_PAGES = ("index.ipynb", "00_start_here.ipynb")
FIRST_PORT = 8888
START_SECONDS = 120.0


def run(root: Path, jupyter_args: Sequence[str] = ()) -> int:
    """Fill `root`/work, run JupyterLab there until it ends, and return its exit code.

    jupyter_args go to `jupyter lab` unchanged, such as --no-browser, --port=8899, --ip=0.0.0.0.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        print("JupyterLab is not installed. Install it with:\n    python -m pip install -c constraints.txt -e .[lab]",
              file=sys.stderr)
        return 1
    made = workspace.fill(root)
    workspace.fill_pages(root)
    work = root / "work"
    work.mkdir(exist_ok=True)
    refresh_index(work)
    print(f"Your copies are in {work}" + (f" ({len(made)} new)" if made else " (all there; nothing overwritten)"))
    command, address = _command(work, list(jupyter_args))
    process = subprocess.Popen(command, cwd=work)
    signal.signal(signal.SIGTERM, signal.default_int_handler)       # a plain `kill` ends the server too
    try:
        _announce(process, address)
        return process.wait()
    except KeyboardInterrupt:
        return _end(process)


def refresh_index(work: Path) -> None:
    """Run the landing notebook's copy, so that it opens with today's progress. A copy that cannot run is left as it is, and said so."""
    path = work / FIRST_PAGES[0]
    if not path.is_file():
        return
    import nbformat
    from nbclient.exceptions import CellExecutionError

    from .notebooks import build, execute
    try:
        notebook = nbformat.read(path, as_version=4)
        execute.run(notebook, work)
        execute.clean(notebook)
        build.write(notebook, path)
    except (CellExecutionError, nbformat.ValidationError, OSError, ValueError, RuntimeError) as problem:    # JupyterLab opens all the same
        print(f"The landing notebook could not be brought up to date ({type(problem).__name__}); run its cells to see why.", file=sys.stderr)


def _command(work: Path, args: list[str]) -> tuple[list[str], str | None]:
    """The jupyter command, and the URL it will answer on (None when the caller chose an own token or password)."""
    first = next((name for name in FIRST_PAGES if (work / name).is_file()), None)
    command = [sys.executable, "-m", "jupyterlab", *args]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in args:
        command.append("--allow-root")
    command.append(f"--ServerApp.root_dir={work}")
    if first:
        command.append(f"--LabApp.default_url=/lab/tree/{first}")
    ip = _given(args, "ip") or "127.0.0.1"
    port = _given(args, "port")
    if port is None:
        port = str(_free_port(FIRST_PORT))
        command.append(f"--port={port}")
    if any("token" in a or "password" in a for a in args):
        return command, None
    token = secrets.token_hex(16)
    command.append(f"--IdentityProvider.token={token}")
    host = "127.0.0.1" if ip in ("0.0.0.0", "*", "localhost") else ip
    return command, f"http://{host}:{port}/lab{f'/tree/{first}' if first else ''}?token={token}"


def _given(args: Sequence[str], name: str) -> str | None:
    """The value of `--name=value`, `--name value` or `--ServerApp.name=value` among the arguments."""
    for i, arg in enumerate(args):
        key, _, value = arg.partition("=")
        if key in (f"--{name}", f"--ServerApp.{name}"):
            return value or (args[i + 1] if i + 1 < len(args) else None)
    return None


def _free_port(first: int) -> int:
    for port in range(first, first + 50):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _announce(process: subprocess.Popen, address: str | None) -> None:
    """Wait until the server answers, then print the URL on a line of its own."""
    if address is None:
        return
    page, _, token = address.partition("?token=")
    status = page.split("/lab")[0] + "/api/status?token=" + token
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(status, timeout=2) as answer:
                json.load(answer)
            print(f"\nhopperlab: open  {address}\n           (Ctrl-C ends it)\n", flush=True)
            return
        except (urllib.error.URLError, OSError, ValueError):
            time.sleep(0.2)


def _end(process: subprocess.Popen) -> int:
    """Ask JupyterLab to stop, as its own Ctrl-C handling would ask twice; end it when it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return 0
