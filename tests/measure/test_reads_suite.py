# SPDX-License-Identifier: Apache-2.0
"""The suite of reads beside products of few rows without a GPU: its shapes, and what a record says."""
from types import SimpleNamespace

from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.suites import reads


def test_the_shapes_are_those_of_products_few():
    shapes = reads.shapes()
    assert len(set(shapes)) == 20 and (7, 2240, 13184) in shapes
    assert all(1 <= m <= 64 and 2 * n * k >= 32 << 20 for m, n, k in shapes)


def launch(name):
    kernel = SimpleNamespace(module=SimpleNamespace(options=(f"-D{name}=1", "-lineinfo")), use=SimpleNamespace(registers=32, spill_stores=0, spill_loads=0))
    return SimpleNamespace(kernel=kernel, shared_mem=1000, grid=(132,), block=(384,))


def test_a_product_stands_beside_the_fastest_read():
    products, kernels = {"": launch("A"), "NN": launch("B")}, {"many": launch("C"), "few": launch("D")}
    samples = {name: Sample((ms, ms)) for name, ms in (("", 4.0), ("NN", 2.0), ("many", 3.0), ("few", 1.0))}
    made = reads.records_of((16, 1000, 500), "clean L2", products, kernels, samples)
    assert [(r.kernel, r.note, r.options, r.ratio, r.peer) for r in made] == [
        ("final", "", ("A=1",), 0.25, "bulk_read (few)"), ("final", "NN", ("B=1",), 0.5, "bulk_read (few)"),
        ("bulk_read", "many", ("C=1",), None, None), ("bulk_read", "few", ("D=1",), None, None)]
    assert {r.mode for r in made} == {"clean L2"} and [r.gb_s for r in made] == [0.2, 0.5, 0.3, 1.0]
