# SPDX-License-Identifier: Apache-2.0
"""Launches that follow one another on the GPU: decoding over a paged cache in every configuration, a token appended first, and the chain of products and a norm.

The emulator's tests launch these on streams, which --differential does not repeat.
"""
import numpy as np
import pytest

from hopperlab.measure.launches import chain as chains
from hopperlab.measure.launches import decoding
from hopperlab.measure.launches.decoding import Choice
from hopperlab.measure.launches.operands import bf16_bits

CASES = {                               # lengths, operands, choice (None: the course's own)
    "one key": ([1], {}, Choice()),
    "two sequences, cut anywhere": ([200, 70], {}, Choice(blocks=3)),
    "three splits": ([300, 17], {"heads": 16, "kv_heads": 2, "page": 16}, Choice(blocks=4, splits=3)),
    "sixteen heads, pages of 32": ([97, 64], {"heads": 16, "page": 32, "d": 64}, Choice(blocks=2)),
    "pages of 128, one group": ([290], {"page": 128}, Choice(blocks=2, groups=1, stages=2)),
    "twelve heads, gathered from pages of 5": ([83, 140], {"heads": 12, "page": 5}, Choice(blocks=3, gather=1)),
    "gathered from pages of 1": ([66], {"page": 1, "heads": 1}, Choice(blocks=1, gather=1, groups=1)),
    "latent": ([100, 33, 1], {"latent": True, "heads": 16}, Choice(blocks=2)),
    "latent, two blocks of heads": ([70], {"latent": True, "heads": 32, "page": 32}, Choice(blocks=3, stages=2)),
    "a batch as it is measured": ([4096, 1, 777, 2048], {"heads": 64, "kv_heads": 8}, None),
    "a latent batch as it is measured": ([2048, 333], {"latent": True, "heads": 128}, None)}


@pytest.mark.parametrize("name", CASES)
def test_decoding_is_right(cupy, name):
    lengths, chosen, choice = CASES[name]
    step = decoding.decode(decoding.operands(cupy, lengths, seed=len(name), **chosen), choice, backend="gpu")
    for dependent in (False, True):
        step.given.o.view(np.uint16)[...] = decoding.NAN
        step(dependent)
        assert step.right(cupy)


def test_a_token_is_appended_first(cupy):
    rng = np.random.default_rng(3)
    given = decoding.operands(cupy, [64, 70], heads=4, kv_heads=2, page=64)
    k, v = (cupy.asarray(bf16_bits(rng.standard_normal((2, 2, 128), np.float32))) for _ in range(2))
    fresh = cupy.asarray(np.zeros(2, np.int32))
    decoding.appended(decoding.decode(given, Choice(blocks=2), backend="gpu"), k, v, fresh, backend="gpu")()
    for pages, new in zip(given.pages, (k, v), strict=True):
        for row, length in enumerate(given.lengths):
            page, token = divmod(length - 1, 64)
            assert bool((pages[int(given.table[row, page]), :, token] == new[row]).all())
    assert decoding.wrong(given, cupy) == 0


@pytest.mark.parametrize("shape", [(64, 128, 2), (100, 64, 1), (128, 192, 3)], ids=str)
def test_a_chain_is_right_in_every_way(cupy, shape):
    given = chains.operands(cupy, *shape, seed=sum(shape))
    made = chains.chain(given, stages=2, backend="gpu")
    for dependent in (False, True):
        given.clear()
        made(dependent)
        assert made.right(cupy)


@pytest.mark.parametrize("shape", [(64, 128, 2), (128, 64, 1), (256, 192, 3)], ids=str)
def test_one_kernel_leaves_its_flags_as_it_found_them(cupy, shape):
    given = chains.operands(cupy, *shape, seed=sum(shape))
    flags = chains.flags_for(cupy, given)
    one = chains.persistent(given, flags, stages=3, blocks=3, backend="gpu")
    for _ in range(2):
        given.clear()
        one()
        assert one.right(cupy) and not flags.any()
