"""CUDA's errors in words. (Launches on a GPU are in tests/gpu.)"""
import pytest

from hopperlab.runtime.gpu import explain


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
