"""A kernel that is wrong, crashes or hangs costs its own process and is left out; the others go on."""
import pytest

from hopperlab.measure import checked
from hopperlab.measure.recordings import Record

MODULE = """
import sys, time
name = sys.argv[2]
if name == "hangs": time.sleep(60)
if name == "crashes": sys.exit("Segmentation fault")
print(name + ": " + ("right" if name == "good" else "12% wrong"))
sys.exit(name != "good")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "kernels_tried.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "kernels_tried"


def test_only_what_is_right_in_its_own_process_goes_on(module, capfd):
    assert checked.right(module, ["good", "bad", "crashes", "hangs"], limit=3) == {"good"}
    told = capfd.readouterr().out
    assert "bad: 12% wrong" in told and "crashes: Segmentation fault" in told and "hangs: not done in 3 s" in told


def test_nothing_right_is_nothing_timed(monkeypatch, capsys):
    monkeypatch.setattr(checked, "right", lambda module, names: set())
    assert checked.command("fp8", "Measure.", lambda name: 0, lambda: ["a"], lambda *given: pytest.fail("timed"), str, []) == 1
    assert "nothing to time" in capsys.readouterr().out


def test_the_command_keeps_what_was_measured(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(checked, "right", lambda module, names: set(names))
    monkeypatch.setattr(checked, "header", lambda: {"gpu": "NVIDIA H200"})
    saved = []
    monkeypatch.setattr(checked.recordings, "save", lambda *given: saved.append(given))

    def measure(rounds, right, keep):
        records = [Record("fp8", name) for name in sorted(right)]
        keep(records)
        return records
    assert checked.command("fp8", "Measure.", lambda name: 0, lambda: ["a", "b"], measure, lambda records: f"{len(records)} records", ["--out", str(tmp_path)]) == 0
    assert saved[0][0] == "fp8" and len(saved[0][2]) == 2 and saved[0][3] == tmp_path and "2 records" in capsys.readouterr().out


def test_check_only_checks(monkeypatch):
    monkeypatch.setattr(checked, "right", lambda *given: pytest.fail("others were tried"))
    assert checked.command("fp8", "Measure.", lambda name: 7 if name == "step x" else 0, list, list, str, ["--check", "step x"]) == 7
