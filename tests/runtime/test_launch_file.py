# SPDX-License-Identifier: Apache-2.0
"""`hopperlab sanitize FILE.cu|FILE.ptx`: arguments as words, and an error of one line, with exit code 2, for every fault a stranger makes."""
import os

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab import cli
from hopperlab.runtime import launch_file, sanitize
from hopperlab.runtime.argument_words import argument
from hopperlab.runtime.errors import LaunchError

SOURCE = """
__global__ void add(const float* a, float* b, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] += a[i]; }
extern "C" __global__ void dynamic(float* y) { extern __shared__ float tile[]; tile[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = tile[threadIdx.x ^ 1]; }
template <int N> __global__ void fill(int* y) { y[threadIdx.x] = N; }
namespace ours { __global__ void twice(int* y) { y[threadIdx.x] *= FACTOR; } }
int main() { add<<<1, 32>>>(nullptr, nullptr, 3); }
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "mine.cu"
    path.write_text("#ifndef FACTOR\n#define FACTOR 2\n#endif\n" + SOURCE)
    monkeypatch.chdir(tmp_path)
    return "mine.cu"


def test_launches_run(file):
    launch = launch_file.prepare([file, "--kernel", "add", "--grid", "2", "--block", "32", "--args", "f32[64]", "f32[64]=zeros", "i32=40"])
    launch()
    assert launch.kernel.mangled.startswith("_Z3add") and (launch.args[1] == np.where(np.arange(64) < 40, launch.args[0], 0)).all()
    launch = launch_file.prepare([file, "--kernel", "fill<7>", "--grid=1", "--block=4,2", "--args", "i32[8]=zeros"])
    launch()
    launch = launch_file.prepare([file, "--kernel", "ours::twice", "-D", "FACTOR=5", "--grid", "1", "--block", "4", "--args", "i32[4]=arange", "--cluster", "1"])
    launch()
    assert launch.args[0].tolist() == [0, 5, 10, 15]


@pytest.mark.parametrize("words, message", [
    ("", "mine.cu has 3 kernels, so --kernel NAME has to choose: "),
    ("--kernel nothing", "mine.cu has no kernel 'nothing'; it has: "),
    ("--kernel add", "add: --grid and --block missing"),
    ("--kernel add --block 32", "add: --grid missing"),
    ("--kernel add --grid 1 --block 32", "takes 3 arguments, 0 given. It takes: 8 bytes (.u64), 8 bytes (.u64), 4 bytes (.u32)"),
    ("--kernel add --grid 1 --block 32 --args f32[4] f32[4]", "takes 3 arguments, 2 given"),
    ("--kernel add --grid 1 --block 32 --args f32[4] f32[4] f32=2", "is float32, but the parameter is a whole number"),
    ("--kernel add --grid 1 --block 32 --args f32[4] f32[4] i64=2", "is int64 of 8 bytes, but the parameter is 4 bytes"),
    ("--kernel add --grid 1 --block 2048 --args f32[4] f32[4] i32=2", "2048 threads along x; 1 to 1024"),
    ("--kernel add --grid 3 --block 32 --cluster 2 --args f32[4] f32[4] i32=2", "is not a multiple of its cluster (2, 1, 1)"),
    ("--kernel dynamic --grid 1 --block 32 --args f32[32]", "dynamic has dynamic shared memory (tile): --shared BYTES says how much"),
    ("--kernel dynamic --grid 1 --block 32 --shared 300000 --args f32[32]", "300000 bytes of shared memory asked for"),
    ("--kernel fill<x> --grid 1 --block 32 --args i32[32]", "mine.cu does not compile"),
    ("--kernel add --grid 1 --block 32 --args f32[4", "argument 1, 'f32[4', is not understood"),
    ("--kernel add --grid 1 --block 32 --args q32[4]", "there is no type 'q32'"),
    ("--kernel add --grid 1 --block 32 --args f32[4]=many", "an array is filled with zeros, ones"),
    ("--kernel add --grid 1 --block 32 --args i32[4]=nan", "an array of whole numbers is filled with"),
    ("--kernel add --grid 1 --block 32 --args f32[4]=@absent.npy", "absent.npy cannot be read"),
    ("--kernel add --grid 1 --block 32 --args i8=300", "out of bounds"),
    ("--kernel add --grid 1 --block 32 --args map:f32[64,64]", "a tensor map is map:ARRAY:BOX or map:ARRAY:BOX:SWIZZLE"),
    ("--kernel add --grid 1 --block 32 --args map:f32[64,64]:64x64:128B", "box_dim[0] = 64 elements x 4 bytes = 256 bytes: swizzle 128B holds"),
    ("--schedules never", "schedule 'never': choose from lazy"),
    ("--seeds 0", "--seeds 0: at least 1"),
])
def test_faults_are_one_message_and_exit_code_2(file, words, message, capfd):
    assert cli.main(["sanitize", file, *words.split()]) == 2
    found = capfd.readouterr()
    assert message in found.err and "Traceback" not in found.err and not found.out, found.err


@pytest.mark.parametrize("words, message", [("--grid x", "one to three whole numbers, such as 4 or 4,2"), ("--nonsense 3", "unrecognized arguments: --nonsense"),
                                            ("--shared much", "invalid int value")])
def test_options_that_are_none_end_with_code_2(file, words, message, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["sanitize", file, *words.split()])
    assert end.value.code == 2 and message in capsys.readouterr().err


def test_a_file_that_is_no_source(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.cubin").write_bytes(b"\x7fELF")
    (tmp_path / "b.ptx").write_text("this is no PTX")
    (tmp_path / "c.ptx").write_text(".version 8.0\n.target sm_90a\n.address_size 64\n.func f() { ret; }\n")
    (tmp_path / "d.cu").write_text("template <int N> __global__ void fill(int* y) { y[0] = N; }\n")
    (tmp_path / "e.cu").write_text("#if defined(__NVCC__)\nextern \"C\" __global__ void only(int* y) { y[0] = 1; }\n#endif\n")
    for name, message in (("a.cubin", "the emulator runs PTX, not machine code"), ("b.ptx", "b.ptx has no kernel"), ("c.ptx", "c.ptx has no kernel"),
                          ("e.cu", "the source asks for __NVCC__, which NVRTC does not define: -D__NVCC__ does"),
                          ("d.cu", 'Its source writes fill: a template\'s instance is named, --kernel "fill<4>"')):
        assert cli.main(["sanitize", name, "--grid", "1", "--block", "1"]) == 2
        assert message in capfd.readouterr().err, name


@pytest.mark.parametrize("place, why", [("absent/out.json", "there is no folder"), (".", "it is a folder")])
def test_json_that_cannot_be_written_is_said_before_anything_runs(file, place, why, capfd, monkeypatch):
    monkeypatch.setattr(sanitize, "sanitize", lambda *given, **more: pytest.fail("it ran"))
    assert cli.main(["sanitize", file, "--kernel", "add", "--grid", "1", "--block", "1", "--json", place]) == 2
    assert f"cannot be written: {why}" in capfd.readouterr().err


def test_json_that_turns_out_unwritable_afterwards(file, capfd, monkeypatch):
    monkeypatch.setattr(sanitize, "writable", lambda path: None)
    monkeypatch.setattr(sanitize, "sanitize_any", lambda *given, **more: sanitize.Report("mine", [sanitize.Run("lazy", 1)]))
    assert cli.main(["sanitize", file, "--json", os.path.join("absent", "x.json")]) == 2
    found = capfd.readouterr()
    assert "clean in 1 launch" in found.out and "hopperlab sanitize: [Errno 2]" in found.err


def test_words(tmp_path):
    assert argument("f16[2,3]=ones", 1).shape == (2, 3) and argument("bf16[4]", 1).dtype == ml_dtypes.bfloat16
    assert (argument("i32[4x2]", 3) == argument("i32[4,2]", 3)).all() and (argument("f32[64]", 1) != argument("f32[64]", 2)).any()
    assert np.isnan(argument("f32[3]=nan", 1)).all() and argument("e4m3[2]=ones", 1).dtype == ml_dtypes.float8_e4m3fn
    assert argument("u64=0x10", 1) == np.uint64(16) and argument("f32=-1.5", 1) == np.float32(-1.5) and argument("null", 1) == 0 and argument("bytes=0a0b",
            1).tobytes() == b"\x0a\x0b"
    assert argument("map:bf16[64,64]:64x32:64B", 1).fields.swizzle == "64B"
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3))
    assert argument(f"f32[2,3]=@{tmp_path / 'x.npy'}", 1)[1, 2] == 5
    for word in (f"f32[3]=@{tmp_path / 'x.npy'}", "bytes=xyz", "bytes=", "i32=1.5", "f32[]", "f32[ ]"):
        with pytest.raises(LaunchError):
            argument(word, 1)


def test_findings_have_lines_of_the_file(file):
    report = sanitize.sanitize_any([file, "--kernel", "add", "--grid", "2", "--block", "32", "--args", "f32[32]", "f32[64]", "i32=64"], ["lazy"])
    assert report.exit_code == 1 and report.findings[0].where == "mine.cu:5" and report.script.startswith("mine.cu --kernel add")
    assert isinstance(report, sanitize.Report) and hl.SourceError
