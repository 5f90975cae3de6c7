# SPDX-License-Identifier: Apache-2.0
"""`hopperlab lab`: fill the working folder, start JupyterLab on the landing notebook, and print its URL. What `make lab` does, without make.

The server starts while the landing notebook is brought up to date; the browser is opened when both are done. JupyterLab's own settings are quieter by
jupyter/labconfig (no question about news, a notebook starts its kernel without asking); what a user has set counts more.
"""
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
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from ..authoring.learner import workspace
from ..runtime import installing
from ..runtime.language import ENGLISH, VARIABLE

FIRST_PAGES = ("index.ipynb", "00_start_here.ipynb")
FIRST_PORT = 8888
START_SECONDS = 120.0
SETTINGS = Path(__file__).with_name("jupyter")


def run(root: Path, jupyter_args: Sequence[str] = (), work: Path | None = None, to: str = ENGLISH) -> int:
    """Fill the working folder (default: `root`/work), run JupyterLab there until it ends, and return its exit code.

    jupyter_args go to `jupyter lab` unchanged, such as --no-browser, --port=8899, --ip=0.0.0.0; `to` is the language of the edition at `root`, which kernels speak too.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        print(f"JupyterLab is not installed. Install it with:\n    {installing.course('lab')}", file=sys.stderr)
        return 1
    work = (work or root / "work").resolve()
    made = workspace.lay_out(root, work, to)
    print(f"Your copies are in {work}" + (f" ({len(made)} new)" if made else " (all there; nothing overwritten)"), flush=True)
    print("Starting the server, and bringing the landing page up to date", flush=True)
    if to != ENGLISH:
        os.environ[VARIABLE] = to
    command, address = _command(work, list(jupyter_args))
    if address is None:                             # JupyterLab opens the browser itself as soon as it runs
        refresh_index(work)
    process = subprocess.Popen(command, cwd=work, env=_environment(work))
    signal.signal(signal.SIGTERM, signal.default_int_handler)       # a plain `kill` ends the server too
    try:
        if address is not None:
            refresh_index(work)
            if _answers(process, address):
                print(f"\nhopperlab: open  {address}\n           (Ctrl-C ends it)\n", flush=True)
                if "--no-browser" not in jupyter_args:
                    webbrowser.open(address)
        return process.wait()
    except KeyboardInterrupt:
        return _end(process)


def _environment(work: Path) -> dict[str, str]:
    """JupyterLab's environment: our settings under the user's own, and open tabs kept with the folder, so that none of another folder are looked for here."""
    own = {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, [os.environ.get("JUPYTER_CONFIG_PATH"), str(SETTINGS)]))}
    return {"JUPYTERLAB_WORKSPACES_DIR": str(work / ".jupyterlab"), **os.environ, **own}


def refresh_index(work: Path) -> None:
    """Run the landing notebook's copy, so that it opens with today's progress. A copy that cannot run is left as it is, and said so."""
    path = work / FIRST_PAGES[0]
    if not path.is_file():
        return
    import nbformat
    from nbclient.exceptions import CellExecutionError

    from ..authoring.notebooks import build, execute
    try:
        notebook = nbformat.read(path, as_version=4)
        execute.run(notebook, work)
        execute.clean(notebook)
        build.write(notebook, path)
    except (CellExecutionError, nbformat.ValidationError, OSError, ValueError, RuntimeError) as problem:    # JupyterLab opens all the same
        print(f"The landing notebook could not be brought up to date ({type(problem).__name__}); run its cells to see why.", file=sys.stderr)


def _command(work: Path, args: list[str]) -> tuple[list[str], str | None]:
    """The jupyter command, and the URL it will answer on (None when the caller chose an own token, password or browser)."""
    first = next((name for name in FIRST_PAGES if (work / name).is_file()), None)
    command = [sys.executable, "-m", "jupyterlab", *args]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in args:
        command.append("--allow-root")
    command.append(f"--ServerApp.root_dir={work}")
    if first:
        command.append(f"--LabApp.default_url=/lab/tree/{first}")
    if not any("custom" in argument and "css" in argument for argument in args):
        command.append("--LabApp.custom_css=True")  # lab_style.py
    ip = _given(args, "ip") or "127.0.0.1"
    port = _given(args, "port")
    if port is None:
        port = str(_free_port(FIRST_PORT))
        command.append(f"--port={port}")
    if any("token" in a or "password" in a or "browser=" in a for a in args):
        return command, None
    if "--no-browser" not in args:
        command.append("--no-browser")              # opened here, when the landing notebook is up to date
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


def _answers(process: subprocess.Popen, address: str) -> bool:
    """Wait until the server answers; False when it ends first, or takes too long."""
    page, _, token = address.partition("?token=")
    status = page.split("/lab")[0] + "/api/status?token=" + token
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(status, timeout=2) as answer:
                json.load(answer)
            return True
        except (urllib.error.URLError, OSError, ValueError):
            time.sleep(0.2)
    return False


def _end(process: subprocess.Popen) -> int:
    """Ask JupyterLab to stop, as its own Ctrl-C handling would ask twice; end it when it does not."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return 0
