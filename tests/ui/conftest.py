# SPDX-License-Identifier: Apache-2.0
"""A JupyterLab server over a temporary copy of the notebooks, and a headless Chromium that looks at it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support import browser
from support.patience import PATIENCE

from hopperlab.authoring.site.pdf import find_browser

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="session")
def chromium():
    """A running headless Chromium (Playwright); skips where there is none."""
    try:
        path = find_browser("The course is looked at in")
    except RuntimeError as problem:
        pytest.skip(str(problem))
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install -e .[test]")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, headless=True, args=FLAGS, timeout=30_000 * PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """(base URL, token, folder) of a JupyterLab that serves copies of the lessons from `folder`, in the emulator."""
    folder = tmp_path_factory.mktemp("lessons")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(path, folder)
    port, token = _free_port(), secrets.token_hex(12)
    home = tmp_path_factory.mktemp("home")
    env = {**os.environ, "HOPPERLAB_BACKEND": "emulator", "PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(home / "config"),
           "JUPYTER_DATA_DIR": str(home / "data"), "JUPYTER_RUNTIME_DIR": str(home / "runtime"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "spaces")}
    env["JUPYTERLAB_SETTINGS_DIR"] = str(_quiet_settings(home / "settings"))
    log = open(home / "lab.log", "w")                     # noqa: SIM115 - closed below, after the server
    server = subprocess.Popen([sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
                               f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}", "--LabApp.news_url=", "--LabApp.expose_app_in_browser=True",
                               "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"],
                              cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token={token}", server, home / "lab.log")
        yield f"http://127.0.0.1:{port}", token, folder
    finally:
        server.terminate()
        server.wait(timeout=30 * PATIENCE)
        log.close()


def _quiet_settings(folder: Path) -> Path:
    """JupyterLab settings that ask for no news and no updates."""
    plugin = folder / "@jupyterlab" / "apputils-extension"
    plugin.mkdir(parents=True)
    (plugin / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    return folder


def _wait_for(url: str, server: subprocess.Popen, log: Path, seconds: float = 60 * PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with {server.returncode}:\n{log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2 * PATIENCE) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise RuntimeError(f"JupyterLab did not answer within {seconds:.0f} s:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def window(chromium, lab):
    """One page with JupyterLab for all lessons that this process looks at (browser.open_notebook)."""
    url, token, _ = lab
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    yield browser.open_lab(context, url, token)
    context.close()


@pytest.fixture(scope="session")
def shots() -> browser.Shots:
    """Takes screenshots into the folder that SCREENSHOTS names; without it none are taken."""
    folder = os.environ.get("SCREENSHOTS")
    return browser.Shots(Path(folder) if folder else None)
