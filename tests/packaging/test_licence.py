# SPDX-License-Identifier: Apache-2.0
"""Every source says under which licence it may be used, in one line that tools know (SPDX)."""
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MARK = "SPDX-License-Identifier: Apache-2.0"
FOLDERS = ("hopperlab", "tests", "benchmarks", "docs", "exercises", ".ci")
KERNELS = (".cu", ".cuh")


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".py", ".pyi", ".sh", *KERNELS)]
    return [*found, ROOT / ".ci" / "run", ROOT / "postBuild"]


def test_there_are_sources():
    assert len(sources()) > 500


@pytest.mark.parametrize("kernels", [False, True])
def test_every_source_has_its_licence_where_no_line_of_a_kernel_moves(kernels):
    """First line of Python and shell (second after #!), last line of CUDA: line numbers of kernels stand in stored outputs."""
    lacking = []
    for path in sources():
        lines = path.read_text(encoding="utf-8").splitlines()
        if (path.suffix in KERNELS) == kernels:
            expected = lines[-1:] == [f"// {MARK}"] if kernels else f"# {MARK}" in lines[:2]
            if not expected:
                lacking.append(path.relative_to(ROOT).as_posix())
    assert not lacking, f"{len(lacking)} sources lack `{MARK}`: {lacking[:10]}"
