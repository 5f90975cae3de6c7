# SPDX-License-Identifier: Apache-2.0
"""The sandbox: what a process inside can see, reach and use up, and that nothing of it is left; the command lines of all kinds."""
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.patience import PATIENCE

from hopperlab.grading import sandbox, supervise
from hopperlab.grading.sandbox import PACKAGE, Limits, SandboxError

needs_sandbox = pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux")
MOUNTED = [Path(sys.prefix).parts[2]] if Path(sys.prefix).parts[:2] == ("/", "tmp") else []      # Python's own folder, where that is below /tmp
SMALL = Limits(seconds=10.0 * PATIENCE, memory_bytes=1 << 30, processes=16, file_bytes=2 << 20, output_bytes=100_000)


def inside(code, input=b"", limits=SMALL, **how):
    return sandbox.run([sys.executable, "-I", "-c", code], input, limits=limits, **how)


def printed(code, **how):
    done = inside(code, **how)
    assert done.returncode == 0 and not done.killed, done
    return done.stdout.decode().strip()


# --- what is visible --------------------------------------------------------------------------------------------------
@needs_sandbox
def test_home_submissions_and_solutions_are_not_there(tmp_path):
    (tmp_path / "submission.ipynb").write_text("{}")
    root = PACKAGE.parent
    places = [str(tmp_path), str(Path.home() / ".bashrc"), str(root / "solutions"), str(root / "tests"), str(PACKAGE), "/etc/passwd", "/etc/shadow", "/var",
              "/run", "/sys"]
    assert printed(f"import os; print([p for p in {places!r} if os.path.exists(p)])") == "[]"
    assert printed("import os; print(os.listdir('/tmp'), sorted(os.listdir(os.path.expanduser('~'))))") == f"{MOUNTED} {MOUNTED}"


@needs_sandbox
def test_the_package_is_seen_only_where_it_is_asked_for():
    code = f"import importlib.util as u, sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); print(u.find_spec('hopperlab') is not None)"
    assert printed(code) == "False"
    assert printed(code, read_only=[PACKAGE]) == "True"


@needs_sandbox
def test_numpy_and_the_compiler_work_inside():
    code = (f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import hopperlab as hl; "
            "print(len(hl.RawModule(code='__global__ void f() {}', backend='emulator').ptx) > 0)")
    assert printed(code, read_only=[PACKAGE], limits=Limits(seconds=60.0 * PATIENCE)) == "True"


@needs_sandbox
def test_the_environment_is_not_the_callers(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    assert "SECRET_TOKEN" not in printed("import os; print(dict(os.environ))")


@needs_sandbox
@pytest.mark.parametrize("path", ["/x", "/usr/x", "/dev/x", "/proc/sys/kernel/core_pattern", sys.prefix + "/x", sys.base_prefix + "/x"])
def test_the_system_cannot_be_written(path):
    done = inside(f"open({path!r}, 'w').write('bad')")
    assert done.returncode and b"Error" in done.stderr
    assert path.startswith("/proc") or not os.path.exists(path)


@needs_sandbox
def test_tmp_is_private_and_new_each_time():
    assert printed("open('/tmp/left', 'w').write('x'); import os; print(sorted(os.listdir('/tmp')))") == str(sorted(["left", *MOUNTED]))
    assert printed("import os; print(os.listdir('/tmp'))") == str(MOUNTED)
    assert not os.path.exists("/tmp/left")


@needs_sandbox
def test_a_writable_folder_is_shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    sandbox.give(folder)
    inside(f"open({str(folder / 'made')!r}, 'w').write('yes')", writable=folder)
    assert (folder / "made").read_text() == "yes"


# --- what can be reached ----------------------------------------------------------------------------------------------
@needs_sandbox
@pytest.mark.parametrize("address", ["('1.1.1.1', 443)", "('127.0.0.1', PORT)"])
def test_no_network_not_even_this_machine(address):
    import socket
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = inside(f"import socket; socket.create_connection({address.replace('PORT', str(port))}, 2)")
    assert done.returncode and b"Error" in done.stderr


@needs_sandbox
def test_abstract_sockets_of_the_machine_are_out_of_reach():
    import socket
    with socket.socket(socket.AF_UNIX) as server:
        name = f"\0hopperlab-test-{os.getpid()}"
        server.bind(name)
        server.listen()
        assert b"ConnectionRefused" in inside(f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})").stderr


@needs_sandbox
def test_processes_of_the_machine_are_neither_seen_nor_signalled():
    with subprocess.Popen(["sleep", "60"]) as other:
        code = f"import os, glob; print(len(glob.glob('/proc/[0-9]*')) < 8)\ntry: os.kill({other.pid}, 9)\nexcept ProcessLookupError: print('nobody')"
        assert printed(code).split() == ["True", "nobody"]
        assert other.poll() is None
        other.kill()


@needs_sandbox
def test_there_are_no_rights_to_gain():
    status = printed("print(open('/proc/self/status').read())")
    assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
    assert printed("import os; print(os.getuid())") != "0"
    assert b"failed" in inside("import subprocess; subprocess.run(['unshare', '--user', '--map-root-user', 'true'])").stderr


# --- what can be used up ----------------------------------------------------------------------------------------------
@needs_sandbox
def test_time_ends_it_even_when_signals_are_ignored():
    done = inside("import signal\nfor s in (2, 15, 24): signal.signal(s, signal.SIG_IGN)\nwhile True: pass", limits=Limits(seconds=1.0))
    assert done.killed == "time" and 1.0 <= done.seconds < 4.0 * PATIENCE


@needs_sandbox
def test_memory_of_one_process_ends_it():
    done = inside("x = bytearray(2 << 30); x[::4096] = b'1' * len(x[::4096])")
    assert done.returncode and (b"MemoryError" in done.stderr or done.killed == "memory")


@needs_sandbox
def test_memory_of_many_processes_together_ends_them():
    done = inside("import os, time\nfor _ in range(3): os.fork()\nx = b'x' * (1 << 28)\ntime.sleep(30)",
                  limits=Limits(seconds=20.0 * PATIENCE, memory_bytes=1 << 29, processes=16))
    assert done.killed == "memory" and done.seconds < 10 * PATIENCE


@needs_sandbox
def test_processes_are_bounded():
    code = "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(30)\n    n += 1\nexcept BlockingIOError: print(n, flush=True)\nos._exit(0)"
    assert 5 <= int(printed(code)) <= 16


@needs_sandbox
def test_files_are_bounded_one_by_one_and_together():
    assert b"File too large" in inside("open('/tmp/x', 'wb').write(bytes(3 << 20))").stderr
    code = "import os\nfor i in range(50): open(f'%s/{i}', 'wb').write(bytes(1 << 20))"
    for folder in ("/tmp", "/dev/shm"):
        assert b"No space left" in inside(code % folder).stderr


@needs_sandbox
@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_flood_of_output_ends_it_and_is_not_kept(descriptor):
    done = inside(f"import os\nwhile True: os.write({descriptor}, b'x' * 65536)")
    assert done.killed == "output" and len(done.stdout) + len(done.stderr) == SMALL.output_bytes and done.seconds < 5 * PATIENCE


@needs_sandbox
def test_core_files_and_open_files_are_bounded():
    limits = printed("import resource as r; print(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_NOFILE))")
    assert limits == "(0, 0) (256, 256)"


@needs_sandbox
def test_nothing_is_left_when_it_ends():
    unique = str(10**8 + os.getpid())
    code = f"import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: os.execvp('sleep', ['sleep', '{unique}'])\n    os._exit(0)\nos.wait()"
    done = inside(code)
    assert done.seconds < 8 * PATIENCE and unique not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


@needs_sandbox
def test_it_dies_with_its_parent():
    unique = str(2 * 10**8 + os.getpid())
    code = f"from hopperlab.grading import sandbox; sandbox.run(['sleep', '{unique}'], limits=sandbox.Limits(seconds=60))"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)}) as parent:
        _wait_for(lambda: f"sleep {unique}" in _running())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _wait_for(lambda: f"sleep {unique}" not in _running())


def _running() -> str:
    return "\n".join(line for line in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout.splitlines() if line.startswith("sleep"))


def _wait_for(holds) -> None:
    until = time.monotonic() + 10 * PATIENCE
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


# --- pipes ------------------------------------------------------------------------------------------------------------
@needs_sandbox
def test_large_input_and_large_output_at_once_do_not_wait_for_each_other():
    data = os.urandom(1 << 20)
    done = inside("import sys\nwhile data := sys.stdin.buffer.read(5000): sys.stdout.buffer.write(data); sys.stderr.buffer.write(data)", data,
                  limits=Limits(seconds=20.0 * PATIENCE, output_bytes=1 << 22))
    assert done.stdout == data and done.stderr == data and not done.killed


@needs_sandbox
@pytest.mark.parametrize("code", ["pass", "import time; time.sleep(0.5)", "import os; os.close(0)"])
def test_input_that_nobody_reads_holds_nothing_up(code):
    done = inside(code, b"x" * (4 << 20))
    assert not done.killed and done.returncode == 0 and done.seconds < 8 * PATIENCE


@needs_sandbox
def test_exit_status_and_output_come_back():
    done = inside("import sys; print('a'); print('b', file=sys.stderr); sys.exit(7)")
    assert (done.returncode, done.stdout, done.stderr, done.killed) == (7, b"a\n", b"b\n", "")


# --- where nothing isolates -------------------------------------------------------------------------------------------
def test_without_isolation_nothing_runs(monkeypatch):
    monkeypatch.setattr(sandbox, "kind", lambda: None)
    for call in (sandbox.command, sandbox.run):
        with pytest.raises(SandboxError, match="apt install bubblewrap"):
            call(["true"])


def test_unsafe_keeps_the_limits(monkeypatch):
    monkeypatch.setattr(sandbox, "kind", lambda: None)
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    done = inside("import os, resource as r; print(r.getrlimit(r.RLIMIT_AS)[0], r.getrlimit(r.RLIMIT_CPU)[0], 'SECRET_TOKEN' in os.environ)", unsafe=True)
    assert done.stdout.split() == [str(1 << 30).encode(), str(2 * math.ceil(SMALL.seconds)).encode(), b"False"]
    unique = str(3 * 10**8 + os.getpid())
    done = inside(f"import os\nif os.fork() == 0: os.execvp('sleep', ['sleep', '{unique}'])\nwhile True: pass", unsafe=True, limits=Limits(seconds=1.0))
    assert done.killed == "time" and unique not in _running()


def test_descendants_are_found_across_sessions():
    with subprocess.Popen(["sh", "-c", "setsid sleep 77 & sleep 78"]) as process:
        _wait_for(lambda: len(supervise.descendants(process.pid)) == 3)
        supervise.end(process)
        assert supervise.descendants(process.pid) == []


# --- command lines ----------------------------------------------------------------------------------------------------
def test_bubblewrap_shares_no_namespace_and_binds_nothing_writable():
    line = sandbox.BUILDERS["bubblewrap"](["python"], (PACKAGE,), None, SMALL)
    inner = line[max(i for i, word in enumerate(line) if word == "bwrap"):]
    assert {"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"} <= set(inner)
    assert not {"--share-net", "--bind", "--dev-bind", "--bind-try"} & set(inner)
    bound = [inner[i + 1] for i, word in enumerate(inner) if word == "--ro-bind"]
    assert str(PACKAGE) in bound and not {"/", "/etc", "/home", "/root", "/var", "/tmp", str(Path.home()), str(PACKAGE.parent)} & set(bound)
    after = inner[inner.index("prlimit"):]
    assert after[1:7] == [f"--cpu={2 * math.ceil(SMALL.seconds)}", f"--as={1 << 30}", "--nproc=16", f"--fsize={2 << 20}", "--nofile=256",
                          "--core=0"] and after[-1] == "python"


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_containers_get_the_same_limits(name, tmp_path, monkeypatch):
    monkeypatch.delenv("HOPPERLAB_SANDBOX_IMAGE", raising=False)
    line = sandbox.BUILDERS[name]([sys.executable, "-c", "pass"], (PACKAGE,), tmp_path, SMALL)
    assert line[:3] == [name, "run", "--rm"]
    assert {"--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--init", f"--memory={1 << 30}", f"--memory-swap={1 << 30}",
            f"--volume={PACKAGE}:{PACKAGE}:ro", f"--volume={tmp_path}:{tmp_path}", "--ulimit=core=0", f"--pids-limit={16 + sandbox.OWN_PROCESSES}",
            f"--tmpfs=/tmp:rw,mode=1777,size={2 << 20}", "--tmpfs=/home/learner/hopperlab:ro,size=4096"} <= set(line)
    assert "--privileged" not in line and ("--userns=keep-id" in line) == (name == "podman")
    assert line[line.index("hopperlab"):] == ["hopperlab", "--signal=KILL", str(math.ceil(SMALL.seconds)), "python", "-c", "pass"]
    monkeypatch.setenv("HOPPERLAB_SANDBOX_IMAGE", "school/course:2")
    assert "school/course:2" in sandbox.BUILDERS[name](["true"], (), None, SMALL)


def test_the_first_kind_that_works_is_taken(monkeypatch):
    monkeypatch.setattr(sandbox, "_works", lambda name: name == "docker")
    assert sandbox.kind.__wrapped__() == "docker"
    monkeypatch.setattr(sandbox, "_works", lambda name: False)
    assert sandbox.kind.__wrapped__() is None
