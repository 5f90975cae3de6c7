# SPDX-License-Identifier: Apache-2.0
"""Launch functions refuse what their kernels would misread, and name the rule: dtype, shape, layout, alignment, size."""
import numpy as np
import pytest

from hopperlab.hopper.tensormap import TensorMapError
from hopperlab.measure.launches import launch, gemm
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.runtime import library

PRODUCTS = {**launch.GEMMS, **gemm.LADDER}
PITCHED = ("final", "split_k", "stream_k")                  # these take operands whose rows lie apart


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    """Every check comes before the kernel is loaded."""
    def loaded(path, *args, **kwargs):
        raise AssertionError(f"{path} was loaded before the arrays were checked")
    for module in (library, launch, gemm):
        monkeypatch.setattr(module, "load_kernel", loaded)


def bits(*shape):
    return np.zeros(shape, np.uint16)


BROKEN = {
    "a list": (lambda: ([[1.0]], bits(8, 16), bits(8, 8)), "array", "a is a list; launch functions take NumPy or CuPy arrays"),
    "float32 operand": (lambda: (np.zeros((8, 16), np.float32), bits(8, 16), bits(8, 8)), "dtype", "a has dtype float32; this kernel takes bfloat16 or uint16"),
    "float32 result": (lambda: (bits(8, 16), bits(8, 16), np.zeros((8, 8), np.float32)), "dtype", "c has dtype float32"),
    "one dimension": (lambda: (bits(8, 16), bits(16), bits(8, 8)), "shape", r"b has shape \(16,\); this kernel takes 2-dimensional arrays"),
    "no row": (lambda: (bits(0, 16), bits(8, 16), bits(0, 8)), "size", "no element"),
    "b as k x n": (lambda: (bits(8, 16), bits(16, 24), bits(8, 24)), "shape", "they must be m x k, n x k and m x n"),
    "c transposed": (lambda: (bits(8, 16), bits(24, 16), bits(24, 8)), "shape", "they must be m x k, n x k and m x n"),
    "a transposed view": (lambda: (bits(16, 8).T, bits(8, 16), bits(8, 8)), "layout", "row-major arrays without gaps"),
    "rows left out": (lambda: (bits(16, 16)[::2], bits(8, 16), bits(8, 8)), "layout", "row-major arrays without gaps"),
    "c's rows left out": (lambda: (bits(8, 16), bits(8, 16), bits(16, 8)[::2]), "layout", "c has shape .* row-major arrays without gaps"),
    "a view off by 2 bytes": (lambda: (bits(8 * 16 + 1)[1:].reshape(8, 16), bits(8, 16), bits(8, 8)), "alignment", "2 bytes past a multiple of 16"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_products_name_the_broken_rule(name, case):
    make, rule, message = BROKEN["c's rows left out" if case == "rows left out" and name in PITCHED else case]
    with pytest.raises(OperandError, match=message) as caught:
        PRODUCTS[name](*make(), backend="emulator")
    assert caught.value.rule == rule


@pytest.mark.parametrize("name", sorted(set(PRODUCTS) - {"naive", "shared_tile"}))
def test_products_need_rows_of_16_bytes(name, monkeypatch):
    """TMA's rule (its own error) or that of 16-byte loads: k is a multiple of 8."""
    if name in gemm.LADDER and name not in launch.GEMMS:
        monkeypatch.setattr(gemm, "load_kernel", lambda *args, **kwargs: None)     # the map is made after it
    with pytest.raises(ValueError, match=r"multiple of (8|16)"):
        PRODUCTS[name](bits(8, 12), bits(8, 12), bits(8, 8), backend="emulator")


@pytest.mark.parametrize("make", [launch.bulk_copy, launch.cp_async_copy, launch.vector_copy])
def test_flat_copies_name_the_broken_rule(make):
    data = np.zeros(64, np.uint8)
    for source, target, rule, message in ((data, data[:48].copy(), "size", "source has 64 bytes and target 48"),
                                          (data[:20].copy(), data[:20].copy(), "size", "source has 20 bytes; this kernel copies 16"),
                                          (data[8:56], data[:48], "alignment", "source starts 8 bytes past a multiple of 16"),
                                          (data, data[::2], "layout", "without gaps")):
        with pytest.raises(OperandError, match=message) as caught:
            make(source, target, backend="emulator")
        assert caught.value.rule == rule


@pytest.mark.parametrize(("name", "stages"), [("warp_specialized", 0), ("tma_wgmma", 33), ("mma_multistage", 1)])
def test_rings_need_their_least_number_of_stages(name, stages):
    """What does not fit into shared memory is a LaunchError of the launch, with the bytes."""
    with pytest.raises(OperandError, match=f"stages is {stages}; this kernel takes [12] to 32"):
        launch.GEMMS[name](bits(8, 16), bits(8, 16), bits(8, 8), stages, backend="emulator")


def test_a_landing_needs_as_many_edges_and_coordinates_as_dimensions():
    out = np.zeros(1024, np.uint8)
    for box, at in (((8, 8), (0,)), ((8,), (0,)), ((8, 8, 8), (0, 0, 0))):
        with pytest.raises(OperandError, match="all three are the same"):
            launch.tma_landing(bits(16, 16), out, box, at, 128)
    with pytest.raises(OperandError, match="out has dtype uint16"):
        launch.tma_landing(bits(16, 16), bits(64), (8, 8), (0, 0), 128)


def test_bulk_copies_need_chunks_of_16_bytes():
    data = np.zeros(64, np.uint8)
    with pytest.raises(OperandError, match="chunk is 24; this kernel takes 16 to 58112, a multiple of 16"):
        launch.bulk_copy(data, data.copy(), chunk=24)


@pytest.mark.parametrize("make", [launch.tma_copy, launch.tma_copy_ring])
def test_tensor_copies_need_two_arrays_alike(make):
    with pytest.raises(OperandError, match="one shape and dtype"):
        make(bits(64, 64), bits(64, 128), backend="emulator")
    with pytest.raises(OperandError, match="one shape and dtype"):
        make(bits(64, 64), np.zeros((64, 64), np.float32), backend="emulator")
    with pytest.raises(OperandError, match="2-dimensional"):
        make(bits(64), bits(64), backend="emulator")


def test_tensor_copies_take_views_of_wider_arrays(monkeypatch):
    """Rows that lie apart are what a tensor map describes; columns that do are not."""
    monkeypatch.setattr(launch, "load_kernel", lambda *args, **kwargs: None)
    wide = bits(64, 128)
    assert launch.tma_copy(wide[:, :64], wide[:, 64:], backend="emulator").grid == (1, 1)
    with pytest.raises(OperandError, match="without gaps"):
        launch.tma_copy(wide[:, ::2], wide[:, 1::2], backend="emulator")


def test_tensor_copies_leave_the_box_to_the_tensor_maps_rules(monkeypatch):
    monkeypatch.setattr(launch, "load_kernel", lambda *args, **kwargs: None)
    with pytest.raises(TensorMapError) as caught:
        launch.tma_copy(bits(64, 64), bits(64, 64), (512, 64), backend="emulator")
    assert caught.value.rule == "box_dim"


def test_scaling_folding_and_loading_take_their_own_dtypes():
    single, wrong = np.zeros((8, 64), np.float32), np.zeros((8, 64), np.float64)
    with pytest.raises(OperandError, match="float64; this kernel takes float32"):
        launch.tma_scale(wrong, wrong, 2.0)
    with pytest.raises(OperandError, match="number is 5; this kernel takes 1 to 4"):
        launch.fold(5, single, single)
    with pytest.raises(OperandError, match="needs a multiple"):
        launch.fold(1, single.reshape(-1)[:500].copy(), single.reshape(-1)[:500].copy())
    out = np.zeros(132, np.uint32)
    with pytest.raises(OperandError, match="whole number of boxes"):
        launch.box_load("tma", bits(60, 64), out, (8, 64))
    with pytest.raises(OperandError, match="out has a number a block"):
        launch.box_load("cp_async", bits(64, 64), out[:4].copy(), (8, 64))
    with pytest.raises(OperandError, match="how is 'magic'"):
        launch.box_load("magic", bits(64, 64), out, (8, 64))
