# SPDX-License-Identifier: Apache-2.0
"""Which headers count towards the cache key."""
from hopperlab.runtime.compile.headers import included_files, uses_libcudacxx


def test_nested_quoted_and_angled_includes(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.cuh").write_text('#include "b.cuh"\n  #  include <c.cuh>\n')
    (tmp_path / "sub" / "b.cuh").write_text("// beside a.cuh\n")
    (tmp_path / "c.cuh").write_text("#include <a_toolkit_header.h>\n")
    found = included_files('#include "sub/a.cuh"', [str(tmp_path)])
    assert sorted(p.rsplit("/", 1)[1] for p in found) == ["a.cuh", "b.cuh", "c.cuh"]


def test_a_circle_ends(tmp_path):
    (tmp_path / "a.cuh").write_text('#include "a.cuh"\n')
    assert len(included_files('#include "a.cuh"', [str(tmp_path)])) == 1


def test_conditions_are_not_evaluated(tmp_path):
    (tmp_path / "a.cuh").write_text("")
    assert included_files('#if 0\n#include "a.cuh"\n#endif', [str(tmp_path)])


def test_a_macro_name_counts_every_header(tmp_path):
    for name in ("a.cuh", "b.h", "notes.md"):
        (tmp_path / name).write_text(name)
    found = included_files("#include WHICH", [str(tmp_path)])
    assert sorted(found.values()) == ["a.cuh", "b.h"]


def test_libcudacxx_is_noticed():
    assert uses_libcudacxx(["int x;", "#include <cuda/barrier>"])
    assert not uses_libcudacxx(["#include <cuda_bf16.h>", "// #include <cuda/barrier>"])
