# SPDX-License-Identifier: Apache-2.0
"""Shared by the PTX tests: wrap statements in a kernel, and compile CUDA with NVRTC."""

import importlib.util
from pathlib import Path

import pytest

from hopperlab.emulator.ptx.parser import parse

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>, p, q; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .f32 %f<140>; .reg .b16 %rs<4>;\n"


@pytest.fixture
def module():
    """Parse module-level text under the usual header."""
    return lambda text: parse(HEADER + text)


@pytest.fixture
def kernel():
    """Parse statements as the body of an entry `k` with a stock of registers; returns the Function."""

    def make(body, params=".param .u64 a", directives="", top=""):
        text = f"{HEADER}{top}\n.visible .entry k({params})\n{directives}\n{{\n{REGISTERS}{body}\nret;\n}}\n"
        return parse(text).functions["k"]

    return make


@pytest.fixture
def one(kernel):
    """Parse one instruction in the stock kernel; returns the Instr."""
    return lambda text, **more: kernel(text, **more).body[0]


def _include() -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations if spec else ():
        if (Path(place) / "cu13" / "include").is_dir():
            return Path(place) / "cu13" / "include"
    return None


@pytest.fixture(scope="session")
def compile_ptx():
    """NVRTC with -lineinfo for sm_90a: CUDA source in, PTX out. headers: text of further ones by the name they are included by."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel here")
    include = _include()
    if include is None:
        pytest.skip("the CUDA 13 headers are not installed")

    def compile_source(source: str, *options: str, lineinfo: bool = True, headers: dict[str, str] | None = None) -> str:
        given = ["--gpu-architecture=sm_90a", "-std=c++17", f"-I{include}", f"-I{include}/cccl", *options]
        given = [o.encode() for o in given + ["-lineinfo"] * lineinfo]
        more = {name.encode(): text.encode() for name, text in (headers or {}).items()}
        error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"sample.cu", len(more), list(more.values()), list(more))
        assert int(error) == 0
        (error,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        if int(error):
            size = nvrtc.nvrtcGetProgramLogSize(program)[1]
            log = bytes(size + 1)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise AssertionError(log.decode().rstrip("\0"))
        text = bytes(nvrtc.nvrtcGetPTXSize(program)[1] + 1)
        nvrtc.nvrtcGetPTX(program, text)
        nvrtc.nvrtcDestroyProgram(program)
        return text.decode().rstrip("\0")

    return compile_source
