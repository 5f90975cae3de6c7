# SPDX-License-Identifier: Apache-2.0
"""Every source of lessons, exercises and solutions compiles with clang, for the same launches, and what is asynchronous or synchronises stands at the lines
that NVRTC names.

NVRTC's side is the stored PTX. Of each source one set of macros is compiled.
"""
import re

import pytest

from hopperlab.emulator import Program
from hopperlab.runtime.compile import precompiled_ptx
from hopperlab.runtime.compile.clang import compiler
from hopperlab.runtime.compile.nvrtc import Source, compile_source
from hopperlab.runtime.compile.signature import read_signatures
from hopperlab.runtime.compile.toolchain import KERNELS, read_source

pytestmark = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")
PARTS = {path: 4 if path.stem == "exercises" else 1 for path in sorted(precompiled_ptx.FOLDER.glob("*.xz"))}      # which many processes share
QUICK = ("00_start_here", "doctor")
OPCODES = ("cp", "mbarrier", "wgmma", "bar", "fence", "setmaxnreg", "ldmatrix", "stmatrix", "mma", "mapa", "multimem", "red", "tensormap", "griddepcontrol")
LIBRARY = re.compile(r"^(?:cuda/|cuda_|cooperative_groups)")


def sources(archive) -> list[tuple[dict, Source]]:
    """(what NVRTC made of it, source) of each text in an archive, with the first of its sets of macros."""
    found = {}
    for entry in precompiled_ptx.read(archive)["entries"].values():
        code = entry["code"] or read_source(KERNELS / entry["name"])
        found.setdefault((entry["name"], code), (entry, Source(code, entry["name"], tuple(entry["options"]), tuple(entry["name_expressions"]), entry["arch"])))
    return list(found.values())


def places(ptx: str) -> dict[str, set]:
    """Opcode -> (file, line) of every frame of its instructions, outermost first, without those inside a library."""
    program, found = Program(ptx), {}
    for name in program.kernels:
        for instr in program.function(name).body:
            if instr.op.startswith(OPCODES) and instr.site:
                chain = tuple((site.file, site.line) for site in instr.site.chain if not LIBRARY.match(site.file))
                found.setdefault(".".join([instr.op, *instr.mods]), set()).add(chain)
    return found


def launches(ptx: str) -> dict[str, tuple]:
    return {name: ([(p.size, p.align) for p in s.parameters], s.max_threads, s.min_blocks, s.cluster) for name, s in read_signatures(ptx).items()}


@pytest.mark.parametrize("archive, part", [pytest.param(path, part, marks=() if path.stem in QUICK else pytest.mark.thorough, id=f"{path.stem}-{part}")
                                           for path, parts in PARTS.items() for part in range(parts)])
def test_sources_compile_and_their_instructions_stand_where_nvrtc_says(archive, part, monkeypatch):
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")
    wrong = {}
    for entry, source in sources(archive)[part::PARTS[archive]]:
        ptx = compile_source(source).ptx
        assert "LLVM" in ptx and launches(ptx) == launches(entry["ptx"]), source.name
        theirs, ours = places(entry["ptx"]), places(ptx)
        differ = {opcode: (theirs.get(opcode, set()) ^ ours.get(opcode, set())) for opcode in theirs.keys() | ours.keys()}
        wrong |= {f"{source.name}: {opcode}": chains for opcode, chains in differ.items() if chains}
    assert not wrong
