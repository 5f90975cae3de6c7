# SPDX-License-Identifier: Apache-2.0
"""Finding NVRTC and the headers, and precompiled headers."""
import sys

import pytest

from hopperlab.runtime.compile import precompiled_headers, toolchain
from hopperlab.runtime.errors import ToolchainError


def test_the_compiler_and_its_version():
    assert toolchain.nvrtc_version()[0] == toolchain.cuda_major()
    assert toolchain.compiler_version().startswith(f"{toolchain.cuda_major()}.")


def test_our_headers_come_first_and_libcudacxx_is_found():
    folders = toolchain.include_directories()
    assert folders[0] == str(toolchain.OWN_INCLUDE)
    assert any(folder.endswith("cccl") for folder in folders)


def test_a_missing_nvrtc_names_the_command_that_installs_it(monkeypatch):
    toolchain.nvrtc.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    try:
        with pytest.raises(ToolchainError, match="pip install -c constraints.txt"):
            toolchain.nvrtc()
        monkeypatch.setattr(sys, "platform", "darwin")
        with pytest.raises(ToolchainError, match="does not exist for macOS"):
            toolchain.nvrtc()
    finally:
        toolchain.nvrtc.cache_clear()


@pytest.mark.parametrize("code, expected", [
    ("#include <a>\n// words\n#define X 1 // one\n\nint y;\n#include <b>", "#include <a>\n#define X 1"),
    ("/* a\n b */\n#include <a>\nextern", "#include <a>"), ("int x;", "")])
def test_the_preamble_ends_at_the_first_declaration(code, expected):
    assert precompiled_headers.preamble(code) == expected


def test_equal_preambles_share_a_header_and_few_are_kept():
    first = precompiled_headers.options("#include <a>\nint x;", [])
    assert precompiled_headers.options("#include <a>\nfloat y;", []) == first
    assert precompiled_headers.options("#include <a>\n", ["-DX"]) != first
    for number in range(precompiled_headers.MOST):
        precompiled_headers.options(f"#include <h{number}>\n", [])
    assert len(precompiled_headers._kept) == precompiled_headers.MOST


def test_short_disks_get_no_precompiled_header(monkeypatch):
    monkeypatch.setattr(precompiled_headers.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    assert precompiled_headers.options("#include <a>\n", []) == []


@pytest.mark.parametrize(("version", "expected"), [((12, 8), ()), ((12, 9), ("--no-cache",)), ((13, 0), ("--no-cache",))])
def test_the_drivers_cache_is_not_used(monkeypatch, version, expected):
    monkeypatch.setattr(toolchain, "nvrtc_version", lambda: version)
    assert toolchain.no_driver_cache() == expected
