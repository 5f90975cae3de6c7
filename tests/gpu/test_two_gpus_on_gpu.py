# SPDX-License-Identifier: Apache-2.0
"""Lesson 19's kernels on two GPUs of one host: exact results, step after step, for the small tile and for the one that is measured."""
import pytest

from hopperlab.measure.launches import across, across_products
from hopperlab.measure.launches.across_products import PARKED, SMALL, Copiers, widest
from hopperlab.measure.launches.operands import bf16_bits
from hopperlab.runtime.errors import BackendError


@pytest.fixture
def here(cupy):
    try:
        return across.world(2, "gpu")
    except BackendError as problem:
        pytest.skip(f"needs two Hopper GPUs that reach each other's memory: {problem}")


@pytest.mark.parametrize("how", across.ALL_REDUCES)
@pytest.mark.parametrize("n", [64, 1 << 15])
def test_all_reduce(here, how, n):
    import numpy as np
    random = np.random.default_rng(n)
    xs, ys = here.put(bf16_bits(random.standard_normal(n).astype(np.float32)) for _ in here.devices), here.zeros(n)
    step = across.all_reduce(here, xs, ys, how)
    step.load()
    for _ in range(100):
        step()
    here.synchronize()
    wanted = across.summed([x.get() for x in xs])
    assert all((y.get() == wanted).all() for y in ys)


@pytest.mark.parametrize("m, n, k, choices", [
    (512, 64, 128, {"tile": SMALL, "copiers": Copiers(2)}), (2048, 512, 1024, {}), (2048, 512, 1024, {"copiers": Copiers(4, dedicated=True, chunk=8192)}),
    (2048, 768, 520, {"order": "as they lie", "piece_rows": 1024})], ids=str)
def test_all_gather_under_a_product(here, m, n, k, choices):
    given = across_products.gather_operands(here, m, n, k)
    step = across_products.gathered(here, given.a, given.b, given.c, **choices)
    step.load()
    for _ in range(3):
        for device, a, c in zip(here.devices, given.a, given.c, strict=True):
            with device:
                rank, rows = device.id, m // here.count
                a[:rank * rows], a[(rank + 1) * rows:], c[...] = 0x7FC0, 0x7FC0, 0x7FC0
                device.synchronize()
        step()
        here.synchronize()
        assert given.right()


@pytest.mark.parametrize("m, n, k, choices", [(512, 64, 128, {"tile": SMALL}), (2048, 512, 1024, {}), (2048, 768, 520, {"order": "own last"}),
                                              (2048, 768, 520, {"order": "in turns"}), (2048, 768, 520, {"tile": widest(1024, **PARKED)})], ids=str)
def test_product_under_a_reduce_scatter(here, m, n, k, choices):
    given = across_products.scatter_operands(here, m, n, k)
    step = across_products.scattered(here, given.a, given.b, given.c, **choices)
    step.load()
    for _ in range(2):
        step()
    here.synchronize()
    assert given.right(steps=2)


def test_flags_go_to_and_fro_and_all_meet(here):
    (first, second), flags = across.round_trips(here, 50)
    for device, launch in zip(here.devices, (first, second), strict=True):
        across.load_on(device, launch.kernel)
    for launch, stream in ((first, here.streams[0]), (second, here.streams[1])):
        launch.kernel(launch.grid, launch.block, launch.args, stream=stream)
    here.synchronize()
    assert [int(flag[0]) for flag in flags] == [50, 50] and int(first.args[-1][0]) > 0
    meet = across.meeting(here)
    meet.load()
    for _ in range(20):
        meet()
    here.synchronize()
    mine, other = (flags.get() for flags in meet.held[0])
    assert (mine[1], other[0]) == (20, 20)


@pytest.mark.parametrize("home", [0, 1])
def test_a_copy_is_pulled_or_pushed(here, home):
    import numpy as np
    data = np.random.default_rng(home).integers(0, 1 << 16, 40008, np.uint16)
    source, target = here.put([data, np.zeros_like(data)])
    launch = across.peer_copy(here, source, target, blocks=3, stages=4, chunk=2048)
    across.load_on(here.devices[home], launch.kernel, launch.shared_mem)
    launch.kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, stream=here.streams[home])
    here.synchronize()
    assert (target.get() == data).all()
