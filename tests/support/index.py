# SPDX-License-Identifier: Apache-2.0
"""The package index in tests: uv with the index that pip uses here, and what is done where none can be reached."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

UNREACHABLE = re.compile(r"failed to fetch|error sending request|network connectivity|dns error|timed out|connection (refused|reset)", re.IGNORECASE)


def uv() -> str:
    """The path of uv, which comes with the test extra."""
    found = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert found, "uv comes with the test extra"
    return found


@cache
def arguments() -> list[str]:
    """The index that pip uses here, which uv does not look up by itself; none where pip uses its own default."""
    asked = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False).stdout.strip()
    index = os.environ.get("PIP_INDEX_URL") or asked
    return ["--default-index", index] if index else []


def unreachable(why: str) -> NoReturn:
    """Skip, or fail where the tests must run (HOPPERLAB_REQUIRE_INDEX)."""
    (pytest.fail if os.environ.get("HOPPERLAB_REQUIRE_INDEX") == "1" else pytest.skip)(f"no package index can be reached: {why.strip().splitlines()[-1]}")
