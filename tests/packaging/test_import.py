# SPDX-License-Identifier: Apache-2.0
"""`import hopperlab` is light: nothing heavy is loaded, nothing is printed, no GPU is asked for."""
import subprocess
import sys
from support.patience import PATIENCE

import hopperlab as hl


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120 * PATIENCE)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_nothing_heavy_is_imported():
    loaded = run("import sys, hopperlab; print(*sorted(sys.modules))").split()
    heavy = {"numpy", "cupy", "cuda", "matplotlib", "IPython", "ipywidgets", "ml_dtypes", "platformdirs"} & set(loaded)
    assert not heavy


def test_every_public_name_exists():
    missing = [name for name in hl.__all__ if getattr(hl, name, None) is None]
    assert not missing
    assert set(hl.__all__) <= set(dir(hl))


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(hl, "no_such_name")


def test_compiling_imports_neither_plots_nor_notebooks():
    loaded = run("import sys, hopperlab as hl; hl.RawModule(code='', backend='emulator'); print(*sys.modules)").split()
    assert not {"matplotlib", "IPython", "ipywidgets", "cupy"} & set(loaded)
