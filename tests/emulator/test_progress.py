# SPDX-License-Identifier: Apache-2.0
"""The progress line: only on a terminal, only after two seconds, and gone at the end."""
import io

from hopperlab.emulator.observe import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_quiet_without_a_terminal_and_in_the_first_seconds(monkeypatch):
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        monkeypatch.setattr(progress.sys, "stderr", stream)
        shown = progress.Progress("gemm")
        shown.tick(1, 4)
        shown.closed()
    assert pipe.getvalue() == "" and terminal.getvalue().strip() == ""


def test_a_slow_launch_says_how_far_it_is(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress, "QUIET", 1e-9)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    shown = progress.Progress("gemm")
    shown.tick(3, 64)
    shown.bar.mininterval = 1e9
    shown.tick(4, 64)               # too soon for another line
    assert "emulating gemm: 3 of 64 blocks done, 0 s" in terminal.getvalue() and "4 of 64" not in terminal.getvalue()
    shown.closed()
    assert terminal.getvalue().endswith("\r") and terminal.getvalue().split("\r")[-2].strip() == ""


def test_the_line_lives_on_while_no_block_ends(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress, "QUIET", 1e-9)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    shown = progress.Progress("gemm")
    for _ in range(3):
        shown.tick(0, 64)
    assert terminal.getvalue().count("0 of 64") == 3
    shown.closed()


class Line:
    def __init__(self):
        self.said, self.gone = [], False

    def say(self, text):
        self.said.append(text)

    def close(self):
        self.gone = True


def test_a_line_that_is_given_is_used_after_two_seconds_and_taken_away(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    line = Line()
    shown = progress.Progress("gemm", line=line)
    assert shown.active
    for second, done in ((1.0, 1), (1.9, 2), (2.1, 3), (2.2, 4), (2.7, 5)):
        now[0] = second
        shown.tick(done, 64)
    shown.closed()
    assert line.said == ["emulating gemm: 3 of 64 blocks done, 2 s", "emulating gemm: 5 of 64 blocks done, 3 s"] and line.gone


LOOP = """
extern "C" __global__ void turns(int* y) {
    for (int i = 0; i < 4000; ++i) y[blockIdx.x * blockDim.x + threadIdx.x] += i % 3;
}"""


def launch_turns(blocks=300):
    import numpy as np

    import hopperlab as hl
    y = hl.array_module().zeros(blocks * 128, np.int32)
    hl.RawModule(code=LOOP).get_function("turns")((blocks,), (128,), (y,))


def test_a_launch_in_a_watched_notebook_says_how_far_it_is(monkeypatch):
    from hopperlab.runtime import emulated
    line = Line()
    monkeypatch.setattr(emulated, "watched", lambda: True)
    monkeypatch.setattr(emulated, "NotebookLine", lambda: line)
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    monkeypatch.setattr(progress, "LOOK", 0.0)
    launch_turns(2)
    assert len(line.said) > 100, "also while no block ends"
    assert line.said and line.said[-1].startswith("emulating turns: ") and line.gone


def test_an_interrupt_shows_how_far_the_launch_was_and_none_of_our_frames(monkeypatch):
    import pytest

    from hopperlab.emulator.errors import LaunchInterrupted
    from hopperlab.runtime import emulated

    class Interrupting(Line):
        def say(self, text):
            raise KeyboardInterrupt

    line = Interrupting()
    monkeypatch.setattr(emulated, "watched", lambda: True)
    monkeypatch.setattr(emulated, "NotebookLine", lambda: line)
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.0)
    monkeypatch.setattr(progress, "LOOK", 0.0)
    with pytest.raises(KeyboardInterrupt) as caught:
        launch_turns(2)
    assert isinstance(caught.value, LaunchInterrupted) and caught.value.__suppress_context__ and line.gone
    text, = caught.value._render_traceback_()
    assert text.startswith("KeyboardInterrupt: the launch of turns was interrupted when ") and "of 2 blocks had ended" in text.replace("\n    ", " ")
