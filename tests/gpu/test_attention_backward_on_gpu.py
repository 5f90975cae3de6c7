# SPDX-License-Identifier: Apache-2.0
"""Attention's backward pass on the GPU: every kernel that is measured is right against float64, ordered ones are the same to the bit, and peers agree."""
import pytest

from hopperlab.measure.launches import attention_backward
from hopperlab.measure.suites import backward
from hopperlab.measure.suites.backward_peers import PEERS

torch = pytest.importorskip("torch", reason="PyTorch makes the operands")
OPTIONAL = ("FlashAttention 3",)                # of PEERS: what PyTorch does not bring


@pytest.mark.parametrize("name", list(backward._named()))
def test_backward_is_right(name):
    assert backward.check(name) == 0


@pytest.mark.parametrize("d", attention_backward.HEAD_SIZES)
@pytest.mark.parametrize("name", PEERS)
def test_peers_compute_the_same_gradients(name, d):
    given = backward.operands(2 * 512, 512, 4, d, True, seed=d)
    run = PEERS[name](given)
    if run is None and name in OPTIONAL:
        pytest.skip(f"the package of {name} is not installed")
    assert run is not None, f"{name} comes with PyTorch, which found no kernel of it for heads of {d}"
    backward.make(given, attention_backward.Backward())()
    for made, got in zip(attention_backward.MADE, run(), strict=True):
        mine = given["tensors"][made].unflatten(0, (2, 512)).transpose(1, 2).float()
        assert (mine - got.float()).abs().max() <= 0.03 * mine.abs().max()
