# SPDX-License-Identifier: Apache-2.0
"""The disk cache: damage, several processes, size limit."""
import os
import random
import subprocess
import sys
import time

import pytest
from support.patience import PATIENCE

from hopperlab.runtime.compile import cache, nvrtc, toolchain

KEY = "ab" + "0" * 62


def entry(size: int = 100) -> cache.Entry:
    """Of bytes that deflate no further."""
    noise = random.Random(size).randbytes(3 * size)
    return cache.Entry({"log": "text", "lowered": {"f<1>": "_Z1f"}}, {"ptx": noise[:size], "cubin": noise[size:]})


def test_what_is_written_comes_back():
    cache.write(KEY, entry())
    assert cache.read(KEY) == entry()
    assert cache.size_and_count()[1] == 1


def test_a_missing_key_gives_none():
    assert cache.read(KEY) is None


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:40], lambda data: data[:-1], lambda data: b"x" + data[1:],
    lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], lambda data: os.urandom(len(data)),
], ids=["empty", "head only", "one byte short", "magic", "one bit", "noise"])
def test_a_damaged_file_counts_as_missing_and_is_removed(damage):
    cache.write(KEY, entry())
    path = cache.path_of(KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read(KEY) is None
    assert not path.exists()


def test_the_least_recently_used_entries_go_first(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_CACHE_MB", "0.1")
    keys = [f"{i:02x}" + "0" * 62 for i in range(4)]
    for age, key in zip((400, 300, 200), keys):
        cache.write(key, entry(10_000))
        os.utime(cache.path_of(key), (time.time() - age,) * 2)
    assert cache.read(keys[0]) is not None, "a read makes it the newest"
    cache.write(keys[3], entry(10_000))
    present = [key for key in keys if cache.path_of(key).exists()]
    assert present == [keys[0], keys[2], keys[3]]


def test_kernels_take_a_fraction_of_their_bytes():
    ptx = "\n".join(f"add.s32 %r{i}, %r{i + 1}, {i};" for i in range(5000)).encode()
    cache.write(KEY, cache.Entry({}, {"ptx": ptx}))
    assert cache.size_and_count()[0] < len(ptx) / 3
    assert cache.read(KEY).blobs == {"ptx": ptx}


def test_small_entries_do_not_look_through_the_folder_each_time(monkeypatch):
    looks = []
    monkeypatch.setattr(cache, "evict", looks.append)
    monkeypatch.setenv("HOPPERLAB_CACHE_MB", "1")
    for i in range(60):
        cache.write(f"{i:02x}" + "0" * 62, entry(1000))             # 3 kB of the 1 MB, 15.6 kB of which are a 64th
    assert 9 <= len(looks) <= 13


def test_zero_switches_the_cache_off(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_CACHE_MB", "0")
    cache.write(KEY, entry())
    assert cache.read(KEY) is None and cache.size_and_count() == (0, 0)


def test_a_limit_that_is_no_number_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_CACHE_MB", "lots")
    with pytest.raises(ValueError, match="HOPPERLAB_CACHE_MB='lots'"):
        cache.limit_bytes()


def test_temporary_files_of_dead_processes_are_removed(own_cache):
    cache.write(KEY, entry())
    old, new = own_cache / "ab" / "dead.tmp", own_cache / "ab" / "live.tmp"
    for path in (old, new):
        path.write_bytes(b"half an entry")
    os.utime(old, (1, 1))
    cache.evict(cache.limit_bytes())
    assert not old.exists() and new.exists()


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HOPPERLAB_CACHE_DIR", str(tmp_path / "file"))
    cache.write(KEY, entry())
    assert cache.read(KEY) is None


def test_a_place_that_is_taken_leaves_no_temporary_file(own_cache):
    cache.path_of(KEY).mkdir(parents=True)
    cache.write(KEY, entry())
    assert list(own_cache.glob("*/*.tmp")) == []


def test_copies_of_the_course_share_what_they_compiled(monkeypatch, tmp_path):
    """The folder beside a kernel is searched for headers; where it lies is no part of the key."""
    def key():
        prepared, folders = nvrtc._prepare(nvrtc.Source("", "gemm/naive.cu", ("-DX",)))
        return nvrtc.cache_key(prepared, {}), folders
    here = key()
    (tmp_path / "gemm").mkdir()
    monkeypatch.setattr(toolchain, "KERNELS", tmp_path)
    there = key()
    assert there[1] != here[1] and there[0] == here[0]
    assert nvrtc.cache_key(nvrtc.Source("", "gemm/naive.cu", ("-DX", "-I/elsewhere")), {}) != nvrtc.cache_key(nvrtc.Source("", "gemm/naive.cu", ("-DX", "-I/there")), {})


def test_clear_removes_everything():
    cache.write(KEY, entry())
    assert cache.clear() == 1 and cache.read(KEY) is None


HAMMER = """
import sys
from hopperlab.runtime.compile import cache
for turn in range(60):
    key = f"{turn % 5:02x}" + "0" * 62
    found = cache.read(key)
    assert found is None or found.blobs["ptx"] in (b"1" * 5000, b"2" * 5000), "a torn entry was read"
    cache.write(key, cache.Entry({}, {"ptx": sys.argv[1].encode() * 5000}))
"""


def test_two_processes_share_the_folder(own_cache):
    processes = [subprocess.Popen([sys.executable, "-c", HAMMER, name]) for name in "12"]
    assert [process.wait(timeout=120 * PATIENCE) for process in processes] == [0, 0]
    assert cache.size_and_count()[1] == 5
    assert not list(own_cache.glob("*/*.tmp"))
