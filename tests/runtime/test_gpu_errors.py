# SPDX-License-Identifier: Apache-2.0
"""CUDA's errors in words, and when a launch opts in to more shared memory. (Launches on a GPU are in tests/gpu.)"""
import pytest

from hopperlab.runtime.gpu import launch as gpu
from hopperlab.runtime.gpu.cuda_errors import explain


@pytest.mark.parametrize("text", [
    "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
    "cudaErrorIllegalAddress: an illegal memory access was encountered"])
def test_an_illegal_address_is_explained_and_the_way_on_is_named(text):
    message = explain("gemm", text)
    assert message.startswith(f"gemm: {text}\nThe kernel read or wrote outside its arrays.")
    assert "lost to this process" in message and "hl.emulate" in message


def test_a_launch_failure_loses_the_context():
    assert "lost to this process" in explain("k", "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure")
    assert "lost to this process" in explain("k", "cudaErrorLaunchFailure: unspecified launch failure")


def test_an_error_that_loses_nothing_says_so_by_silence():
    message = explain("k", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch")
    assert "more registers or shared memory" in message and "lost" not in message


def test_an_unknown_error_is_passed_on():
    assert explain("k", "CUDA_ERROR_SOMETHING: new") == "k: CUDA_ERROR_SOMETHING: new"


class Kernel:
    """Stands for a cupy.RawKernel: what the driver refuses, it refuses too."""

    def __init__(self, static):
        self.shared_size_bytes, self.asked, self.launched = static, None, []

    @property
    def max_dynamic_shared_size_bytes(self):
        return self.asked or 49152

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size):
        self.asked = size

    def __call__(self, grid, block, args, shared_mem):
        assert self.shared_size_bytes + shared_mem <= 49152 or (self.asked or 0) >= shared_mem, "CUDA_ERROR_INVALID_VALUE"
        self.launched.append(shared_mem)


@pytest.mark.parametrize(("static", "dynamic", "asked"), [(0, 0, None), (40, 1000, None), (0, 49152, None), (40, 49152, 49152), (40960, 20000, 20000),
                                                          (40, 100_000, 100_000)])
def test_static_and_dynamic_shared_memory_are_opted_into_together(static, dynamic, asked, monkeypatch):
    monkeypatch.setattr(gpu, "guarded", lambda what, function, *args, **named: function(*args, **named))
    kernel = Kernel(static)
    for _ in range(2):
        gpu.launch(kernel, "k", (1,), (1,), (), dynamic)
    assert kernel.launched == [dynamic] * 2 and kernel.asked == asked
