"""What a wheel contains: the package, with kernels, headers and recordings."""
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
                   check=True, capture_output=True, timeout=300)
    wheel, = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_kernels_headers_and_recordings_are_in_it(names):
    for folder, pattern in (("kernels", "*.cu"), ("kernels/include", "*.cuh"), ("recordings", "*.json"), ("precompiled", "*.xz")):
        files = [p.relative_to(ROOT).as_posix() for p in (ROOT / "hopperlab" / folder).rglob(pattern)]
        assert set(files) <= names, f"{folder} is incomplete"
    assert "hopperlab/kernels/include/hopperlab/tma.cuh" in names


def test_nothing_else_is_in_it(names):
    assert {name.split("/")[0].split("-")[0] for name in names} == {"hopperlab"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".ipynb")]
    assert any(name.endswith("licenses/LICENSE") for name in names)
