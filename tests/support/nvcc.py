# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvcc, from its wheel (`pip install -e .[test]`, Linux) or from a toolkit, for whole programs with host code."""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .patience import PATIENCE

OLDEST = (12, 5)            # of cudaGetDriverEntryPointByVersion
WARNINGS = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra")


def build(source: Path, target: Path) -> None:
    """Compiles and links `source` for sm_90a, warnings being errors. Fails with nvcc's words; skips (fails under HOPPERLAB_REQUIRE_NVCC=1) without nvcc or g++."""
    command = [*_program(), *WARNINGS, "-arch=sm_90a", "-o", str(target), str(source)]
    done = subprocess.run(command, cwd=target.parent, capture_output=True, text=True, check=False, timeout=200 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def _program() -> list[str]:
    if shutil.which("g++") is None:
        _missing("nvcc compiles host code by g++, which is not installed")
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations if spec else None) or ():
        nvcc = Path(place) / "cu13" / "bin" / "nvcc"
        if nvcc.is_file():
            return [str(nvcc), f"-L{nvcc.parents[1] / 'lib'}"]                # the wheel has lib where nvcc looks for lib64
    found = shutil.which("nvcc")
    if found is None:
        _missing("nvcc is not installed: pip install -e .[test] (Linux)")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"release (\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        _missing(f"{found} is older than CUDA {OLDEST[0]}.{OLDEST[1]}")
    return [str(found)]


def _missing(why: str) -> None:
    """Skip, or fail where the tests must run."""
    (pytest.fail if os.environ.get("HOPPERLAB_REQUIRE_NVCC") == "1" else pytest.skip)(why)
