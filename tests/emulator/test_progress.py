"""The progress line: only on a terminal, only after two seconds, and gone at the end."""
import io

from hopperlab.emulator import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_quiet_without_a_terminal_and_in_the_first_seconds(monkeypatch):
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        monkeypatch.setattr(progress.sys, "stderr", stream)
        shown = progress.Progress("gemm")
        shown.tick(1, 4)
        shown.close()
    assert pipe.getvalue() == terminal.getvalue() == ""


def test_a_slow_launch_says_how_far_it_is(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    shown = progress.Progress("gemm")
    shown.next = 0
    shown.tick(3, 64)
    shown.tick(4, 64)           # too soon for another line
    assert terminal.getvalue().startswith("\remulating gemm: 3 of 64 blocks done") and "4 of 64" not in terminal.getvalue()
    shown.close()
    assert terminal.getvalue().endswith("\r")
