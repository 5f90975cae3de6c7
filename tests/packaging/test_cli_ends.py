# SPDX-License-Identifier: Apache-2.0
"""How the `hopperlab` command ends where it cannot go on: Ctrl-C, a reader that has gone, a course that is not there, options that would be passed over."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE

from hopperlab import cli
from hopperlab.authoring.learner import workspace
from hopperlab.cli import doctor, grading

ROOT = Path(__file__).resolve().parents[2]


def heard():
    """A child hears Ctrl-C though whoever runs the tests does not, as a job in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_is_one_line_and_130(monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt
    monkeypatch.setattr(doctor, "report", stopped)
    assert cli.main(["doctor"]) == 130 and capsys.readouterr().err == "\nhopperlab: stopped\n"


@pytest.mark.skipif(os.name == "nt", reason="signals of a terminal")
def test_ctrl_c_while_a_script_is_sanitized(tmp_path):
    (tmp_path / "slow.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    process = subprocess.Popen([sys.executable, "-m", "hopperlab", "sanitize", "slow.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, preexec_fn=heard, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 130 and said == "\nhopperlab: stopped\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue's server needs Linux")
def test_ctrl_c_ends_the_queue_without_a_traceback(tmp_path):
    path = tmp_path / "queue.sock"
    process = subprocess.Popen([sys.executable, "-m", "hopperlab", "queue", "serve", "--spares", "2", "--socket", str(path)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heard, env={**os.environ, "HOPPERLAB_BACKEND": "emulator"})
    while not path.exists():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)               # as a terminal does: to all of the foreground group
    _, said = process.communicate(timeout=60 * PATIENCE)
    assert process.returncode == 0 and "Traceback" not in said and not path.exists()


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("words, code", [(["ladder"], 141), (["--help"], 0), (["sanitize", "empty.py", "--schedules", "lazy"], 141)])
def test_a_reader_that_has_gone_is_no_error(tmp_path, words, code):
    (tmp_path / "empty.py").write_text("")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "hopperlab", *words], cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120 * PATIENCE,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    os.close(write)
    assert (done.returncode, done.stderr) == (code, "")


def test_another_broken_pipe_is_not_hidden(monkeypatch):
    def broken():
        raise BrokenPipeError("a worker's")
    monkeypatch.setattr(doctor, "report", broken)
    monkeypatch.setattr(cli, "_unread", lambda: False)
    with pytest.raises(BrokenPipeError, match="a worker's"):
        cli.main(["doctor"])


@pytest.mark.parametrize("command", [["restore", "05"], ["check", "05"], ["lab"], ["assign", "--out", "autumn"]])
@pytest.mark.parametrize("folder, says", [("absent", "there is no folder"), ("", "no course at ")])
def test_a_course_that_is_not_there_is_an_error(tmp_path, monkeypatch, capsys, command, folder, says):
    """Not the clone that the package lies in: `restore` would reset another folder."""
    monkeypatch.setattr(workspace, "restore", lambda *given: pytest.fail("another folder was reset"))
    monkeypatch.chdir(tmp_path)
    assert cli.main([*command, "--course", str(tmp_path / folder)]) == 2
    assert says in capsys.readouterr().err


def test_a_working_folder_names_its_course(tmp_path, monkeypatch):
    workspace.lay_out(ROOT, tmp_path / "mine")
    assert workspace.find_root(tmp_path / "mine" / "exercises") == ROOT and workspace.find_root(ROOT / "docs") == ROOT
    with pytest.raises(workspace.WorkspaceError, match="no course at"):
        workspace.find_root(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert workspace.find_root() == ROOT, "without --course: the clone that the package lies in"


def test_restore_says_that_exercises_are_reset_too(tmp_path, capsys):
    workspace.lay_out(ROOT, tmp_path / "mine")
    assert cli.main(["restore", "05", "--course", str(tmp_path / "mine")]) == 0
    lesson, _, exercises, _ = capsys.readouterr().out.splitlines()
    assert lesson.startswith("restored the lesson ") and exercises.startswith("restored the exercises ")
    with pytest.raises(SystemExit):
        cli.main(["restore", "--help"])
    assert "Your answers to the lesson's exercises are reset with it" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("words, says", [
    (["check", "../scale.cu"], "../scale.cu is neither a lesson's number, such as 04, nor an exercise notebook (.ipynb); `hopperlab sanitize ../scale.cu`"),
    (["check", "work/04"], "work/04 is neither"),
    (["queue"], "hopperlab queue: serve or state?"),
    (["restore", "99", "--course", str(ROOT)], "no lesson '99'"),
    (["ladder", "--board", "h300"], "no board 'h300' was recorded: there are h200, h100"),
    (["ladder", "--board", "h100", "--from", "x.json"], "leave --board out"),
    (["ladder", "--estimate", "--json"], "does not take --json"),
    (["ladder", "--plot", "absent/x.png"], "there is no folder"),
    (["estimate", "final", "100000000"], "the arrays of final 100000000 do not fit into this machine's memory"),
    (["estimate", "final", "--define", "STAGS=2"], "final has no macro STAGS, did you mean STAGES? Its macros: BM, BN,"),
    (["estimate", "tma_wgmma", "512", "--define", "STAGES=20"], "tma_wgmma with STAGES=20 does not fit into the shared memory"),
    (["estimate", "final", "--define", "BK=32"], "final has no macro BK. Its macros")])
def test_what_cannot_be_done_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not list(tmp_path.iterdir())


def test_the_ladder_is_told_of_the_board_that_is_asked_for(monkeypatch, capsys):
    for board in ("h100", "H200"):
        assert cli.main(["ladder", "--board", board]) == 0 and f"NVIDIA {board.upper()}" in capsys.readouterr().out.splitlines()[0]


def test_a_macro_that_a_file_does_not_have_is_told(tmp_path, capsys):
    (tmp_path / "size.h").write_text("#ifndef SIZE\n#define SIZE 1\n#endif\n")
    (tmp_path / "one.cu").write_text('#include "size.h"\nextern "C" __global__ void one(float* x) { x[threadIdx.x] = SIZE; }\n')
    words = ["estimate", str(tmp_path / "one.cu"), "--grid", "1", "--block", "32", "--args", "f32[32]"]
    assert cli.main([*words, "--define", "SIZE=2"]) == 0 and capsys.readouterr().err == ""
    assert cli.main([*words, "--define", "SICE=2"]) == 0 and "have no SICE: --define SICE changes nothing there" in capsys.readouterr().err


def test_nothing_launched_is_nothing_judged(tmp_path, capfd):
    (tmp_path / "empty.py").write_text("")
    assert cli.main(["sanitize", str(tmp_path / "empty.py"), "--schedules", "lazy"]) == 2
    assert capfd.readouterr().out.endswith("hopperlab sanitize: nothing judged, no launch under lazy\n")


@pytest.mark.parametrize("there", [True, False])
def test_grading_stopped_says_what_is_kept(tmp_path, monkeypatch, capsys, there):
    def stopped(given):
        raise KeyboardInterrupt
    monkeypatch.setattr(grading, "_grade", stopped)
    out = tmp_path / "out"
    if there:
        out.mkdir()
    assert cli.main(["grade", str(tmp_path), "--out", str(out)]) == 130
    assert (f"is kept in {out}" in capsys.readouterr().err) == there
