# SPDX-License-Identifier: Apache-2.0
"""Programs that measure on a GPU: --help is help, and a machine without one is told in a line, before anything is made."""
import importlib
import sys
from pathlib import Path

import pytest

from hopperlab.measure.machine import here
from hopperlab.measure.profile import ncu
from hopperlab.measure.suites import bugs

pytest.importorskip("benchmarks.counts", reason="a checkout of the repository has it, an installed package not")
ROOT = Path(__file__).resolve().parents[2]
PLAIN = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if "begin(__doc__" in path.read_text(encoding="utf-8"))
COUNTED = ("counted", "drift", "merged_products", "merged_requests")


def test_all_that_need_a_gpu_are_here():
    assert {*COUNTED, "beside_products", "out_of_bounds", "products_in_turn", "repeated_boxes", "rows_and_stores", "runtime", "waits", "wgmma_ahead"} <= set(PLAIN)


@pytest.mark.parametrize("module", [*(f"benchmarks.{name}" for name in PLAIN), "tests.gpu.proxy_facts"])
def test_help_is_what_the_program_says_of_itself(module, monkeypatch, capsys):
    program = importlib.import_module(module)
    monkeypatch.setattr(sys, "argv", ["x.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 0 and (program.__doc__ or "").split("\n")[0] in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["x.py", "--rows"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2 and "unrecognized arguments: --rows" in capsys.readouterr().err


@pytest.mark.parametrize("module", [*(f"benchmarks.{name}" for name in PLAIN if name != "runtime"), "benchmarks.lanes", "tests.gpu.proxy_facts"])
def test_without_a_gpu_they_say_so_in_a_line(module, monkeypatch, capsys):
    monkeypatch.setattr(here, "gpu", lambda: None)
    monkeypatch.setattr(sys, "argv", ["x.py"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{module}: it needs a Hopper GPU (H100, H200), and there is no NVIDIA GPU here\n"


@pytest.mark.parametrize("name", COUNTED)
def test_without_nsight_compute_they_say_so_in_a_line(name, monkeypatch, capsys):
    def missing():
        raise ncu.ProfileError("ncu is not on the PATH")
    monkeypatch.setattr(here, "no_gpu", lambda what: None)
    monkeypatch.setattr(ncu, "find", missing)
    monkeypatch.setattr(sys, "argv", ["x.py"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert ended.value.code == 2 and capsys.readouterr().err == f"benchmarks.{name}: ncu is not on the PATH\n"


def test_missing_bugs_need_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(here, "gpu", lambda: None)
    with pytest.raises(SystemExit) as ended:
        bugs.main(["--missing"])
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("hopperlab.measure.suites.bugs --missing: it needs a Hopper GPU")
