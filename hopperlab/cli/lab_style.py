# SPDX-License-Identifier: Apache-2.0
"""An extension of the Jupyter server that `hopperlab lab` turns on: JupyterLab finds the course's style sheet, jupyter/custom/custom.css, where the user has none.

The server looks for custom.css in a list of folders; ours comes after the user's own and before the server's empty one.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

STYLES = Path(__file__).with_name("jupyter") / "custom"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """How the server asks what a module extends."""
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    folders = server.web_app.settings["static_custom_path"]         # the list that the handler of custom/ reads at each request
    if str(STYLES) not in folders:
        folders.insert(1, str(STYLES))
