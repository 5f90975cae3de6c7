# SPDX-License-Identifier: Apache-2.0
"""%%cuda in a real IPython shell."""
import pytest

pytest.importorskip("IPython", reason="IPython comes with the lab extra")
from hopperlab.runtime.errors import CompileError, NoteError
from hopperlab.runtime.magic import MagicError, cuda

KERNEL = 'extern "C" __global__ void f(int* a) { *a = N; }\n'


def test_the_module_is_bound_and_its_table_shown(capsys):
    namespace = {}
    cuda("mod -DN=3 --backend emulator", KERNEL, namespace)
    assert namespace["mod"].kernel_names == ("f",) and namespace["mod"].name == "mod.cu"
    assert "registers" in capsys.readouterr().out


def test_lines_are_the_cells():
    with pytest.raises(CompileError, match=r"mod\.cu\(2\): error: identifier \"N\" is undefined"):
        cuda("mod --backend emulator", "// first line\n" + KERNEL, {})


def test_warnings_are_shown(capsys):
    cuda("mod --backend emulator", 'extern "C" __global__ void f() { int unused; }', {})
    assert 'mod.cu(1): warning' in capsys.readouterr().out


def test_a_serious_note_is_an_error_and_binds_nothing():
    namespace = {}
    with pytest.raises(NoteError, match="C7508"):
        cuda("mod --backend emulator", 'extern "C" __global__ void f() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }', namespace)
    assert namespace == {}


@pytest.mark.parametrize("broken", ["int f( {\n", 'extern "C" __global__ void f() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }'], ids=["typo", "note"])
def test_a_cell_that_fails_leaves_nothing_older_bound(broken):
    namespace = {}
    cuda("mod --backend emulator", KERNEL.replace("N", "1"), namespace)
    with pytest.raises(CompileError, match="mod is bound to nothing until this cell compiles"):
        cuda("mod --backend emulator", broken, namespace)
    assert "mod" not in namespace


def test_what_was_no_module_is_not_spoken_of():
    with pytest.raises(CompileError) as raised:
        cuda("mod --backend emulator", "int f( {\n", {"mod": 3})
    assert "bound" not in str(raised.value)


@pytest.mark.parametrize("line", ["", "3", "my-module", "mod --backend tpu", "mod --backend"])
def test_a_line_that_is_not_understood(line):
    with pytest.raises(MagicError, match="Usage: %%cuda NAME"):
        cuda(line, KERNEL, {})


def test_template_instances():
    namespace = {}
    cuda("mod --backend emulator --instance 'g<4>'", "template <int N> __global__ void g(int* a) { *a = N; }", namespace)
    assert namespace["mod"].get_function("g<4>")


def test_errors_in_a_shell_show_no_frames(capsys):
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "hopperlab")
    result = shell.run_cell("%%cuda mod --backend emulator\nint f( {\n")
    shown = capsys.readouterr().out
    assert isinstance(result.error_in_exec, CompileError)
    assert "mod.cu(1): error" in shown and "Traceback" not in shown and "magic.py" not in shown
    shell.run_cell("%%cuda mod --backend emulator\n" + KERNEL.replace("N", "1"))
    assert shell.user_ns["mod"].kernel_names == ("f",)
