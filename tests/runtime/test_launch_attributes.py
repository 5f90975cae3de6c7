# SPDX-License-Identifier: Apache-2.0
"""Clusters and cooperative launches as the launch asks for them: what runs, what is refused, and that they reach every way to launch."""
import numpy as np
import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.runtime import launch_attributes
from hopperlab.runtime.compile.ptxas import KernelUse
from hopperlab.runtime.compile.signature import Signature, read_signatures
from hopperlab.runtime.errors import LaunchError
from hopperlab.runtime.launch_attributes import LaunchAttributes
from hopperlab.runtime.watching import watching

CODE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ void ranks(int* y) {
    cg::cluster_group cluster = cg::this_cluster();
    __shared__ int mine;
    if (threadIdx.x == 0) mine = 100 * blockIdx.x;
    cluster.sync();
    int next = (cluster.block_rank() + 1) % cluster.num_blocks();
    if (threadIdx.x == 0) y[blockIdx.x] = *cluster.map_shared_rank(&mine, next) + cluster.num_blocks();
    cluster.sync();
}
extern "C" __global__ void free_size(int* y) { ranks(y); }
extern "C" __global__ void __cluster_dims__(2) fixed(int* y) { ranks(y); }
extern "C" __global__ void meet(int* y) {
    if (threadIdx.x == 0) y[blockIdx.x] = 1;
    cg::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) { int s = 0; for (int i = 0; i < gridDim.x; i++) s += y[i]; y[gridDim.x] = s; }
}
"""


@pytest.fixture(scope="module")
def module():
    return hl.RawModule(code=CODE, backend="emulator", name="clusters.cu")


def expected(ctas, size):
    return [100 * (first + (rank + 1) % size) + size for first in range(0, ctas, size) for rank in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 16])
def test_the_launch_says_how_large_clusters_are(module, size):
    y = np.zeros(48, np.int32)
    module.get_function("free_size")((48,), (32,), (y,), cluster=(size, 1, 1))
    assert y.tolist() == expected(48, size)


def test_without_it_a_cta_is_alone(module):
    y = np.zeros(4, np.int32)
    module.get_function("free_size")((4,), (32,), (y,))
    assert y.tolist() == expected(4, 1)


def test_a_kernel_with_cluster_dims_takes_its_own_size_and_no_other(module):
    y, kernel = np.zeros(4, np.int32), module.get_function("fixed")
    for cluster in (None, 2, (2,), (2, 1, 1)):
        y[:] = 0
        kernel((4,), (32,), (y,), cluster=cluster)
        assert y.tolist() == expected(4, 2)
    with pytest.raises(LaunchError, match=r"cluster \(4, 1, 1\) given, but the kernel was compiled for clusters of \(2, 1, 1\)"):
        kernel((4,), (32,), (y,), cluster=(4, 1, 1))


@pytest.mark.parametrize("grid, cluster, words", [
    ((6,), (4, 1, 1), "grid (6, 1, 1) is not a multiple of its cluster (4, 1, 1) (cluster=); the grid counts CTAs, not clusters"),
    ((32,), (17,), "has 17 CTAs; a cluster has at most 16 (8 on every GPU that has clusters)"),
    ((4,), (0, 1, 1), "every edge is at least 1"),
    ((4,), (-2,), "every edge is at least 1"),
    ((4,), (2.5,), "cluster must be a tuple of one to three whole numbers"),
    ((4,), (2, 1, 1, 1), "cluster must have one to three numbers, not 4"),
    ((4, 2), (2, 4), "not a multiple of its cluster (2, 4, 1)"),
])
def test_impossible_clusters(module, grid, cluster, words):
    y = np.zeros(64, np.int32)
    with pytest.raises(LaunchError) as caught:
        module.get_function("free_size")(grid, (32,), (y,), cluster=cluster)
    assert words in str(caught.value) and not y.any()


def attributes(grid=(8, 1, 1), block=(32, 1, 1), asked=None, cooperative=False, shared=0, use=KernelUse("k"), **more):
    return launch_attributes.checked(Signature("k", (), **more), use, grid, block, shared, asked, cooperative)


def test_what_the_ptx_says_of_clusters_counts():
    with pytest.raises(LaunchError, match=r"compiled for clusters whose size the launch gives: pass cluster=\(2, 1, 1\)"):
        attributes(explicit_cluster=True)
    assert attributes(explicit_cluster=True, asked=2).cluster == (2, 1, 1)
    assert attributes(explicit_cluster=True, cluster=(2, 1, 1)) == LaunchAttributes()
    with pytest.raises(LaunchError, match="has 4 CTAs, but the kernel was compiled for at most 2"):
        attributes(max_cluster=2, asked=4)
    found = read_signatures(".entry k() .explicitcluster .maxclusterrank 4 .maxnreg 128 .minnctapersm 2 .maxntid 64 { ret; } .entry none() .reqnctapercluster "
                            "0, 1, 1 { ret; }")
    assert (found["k"].explicit_cluster, found["k"].max_cluster, found["k"].cluster) == (True, 4, None) and found["none"].cluster is None
    assert (found["k"].max_registers, found["k"].min_blocks) == (128, 2)


def test_more_than_eight_ctas_are_opted_into():
    assert attributes(grid=(16, 1, 1), asked=16).non_portable and not attributes(asked=8).non_portable
    assert attributes(grid=(16, 1, 1), cluster=(16, 1, 1)) == LaunchAttributes(non_portable=True)
    assert LaunchAttributes.read({"cluster": [2, 1, 1], "cooperative": True, "non_portable": False}) == LaunchAttributes(cluster=(2, 1, 1), cooperative=True)
    assert LaunchAttributes.read({}) == LaunchAttributes()


def test_a_grid_that_meets_fits_on_the_gpu(module):
    y, kernel = np.zeros(9, np.int32), module.get_function("meet")
    for cooperative in (None, True):
        y[:] = 0
        kernel((8,), (32,), (y,), cooperative=cooperative)
        assert y[8] == 8
    with pytest.raises(LaunchError, match=r"needs all 1000 CTAs on the GPU at once, but an H200 holds 132 of 32 threads"):
        kernel((1000,), (32,), (y,), shared_mem=200_000)
    assert attributes(grid=(264, 1, 1), block=(1024, 1, 1), cooperative=True).cooperative
    with pytest.raises(LaunchError, match="an H200 holds 132 of 1024 threads, 64 registers"):
        attributes(grid=(264, 1, 1), block=(1024, 1, 1), cooperative=True, use=KernelUse("k", 64))


def test_they_reach_watchers_and_the_worker_process(module):
    seen, y = [], np.zeros(4, np.int32)
    with watching(seen.append):
        module.get_function("free_size")((4,), (32,), (y,), cluster=4)
    assert seen[0].attributes == LaunchAttributes(cluster=(4, 1, 1)) and y.tolist() == expected(4, 4)
    y[:] = 0
    hl.run_isolated(module.get_function("free_size"), (4,), (32,), (y,), cluster=2, timeout=60 * PATIENCE)
    assert y.tolist() == expected(4, 2)


@pytest.mark.usefixtures("own_memory")
def test_explore_and_hazards_see_them(module):
    y = np.zeros(8, np.int32)
    assert hl.explore(lambda: module.get_function("free_size")((8,), (32,), (y,), cluster=(4, 1, 1)), seeds=2).clean
    broken = hl.RawModule(code=CODE.replace("    cluster.sync();\n}", "}"), backend="emulator", name="broken.cu").get_function("free_size")
    with hl.emulate(hazards="collect") as run:
        broken((8,), (32,), (y,), cluster=(4, 1, 1))
    assert {hazard.kind for hazard in run.hazards} == {"cluster-lifetime"}


def test_the_drivers_structures_hold_what_was_asked():
    """As far as that goes without a driver."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings does not exist for macOS")
    from hopperlab.runtime.gpu import launch_ex
    listed = launch_ex._attributes(driver, LaunchAttributes(dependent=True, cluster=(2, 3, 1), cooperative=True))
    assert [attribute.id.name.removeprefix("CU_LAUNCH_ATTRIBUTE_") for attribute in listed] == ["PROGRAMMATIC_STREAM_SERIALIZATION", "CLUSTER_DIMENSION", "COOPERATIVE"]
    shape = listed[1].value.clusterDim
    assert (shape.x, shape.y, shape.z) == (2, 3, 1) and listed[2].value.cooperative == 1 and listed[0].value.programmaticStreamSerializationAllowed == 1
    assert launch_ex._attributes(driver, LaunchAttributes()) == [] and bytes(launch_ex._bytes(np.int16(5))) == b"\x05\x00"
    config = driver.CUlaunchConfig()
    config.attrs = listed
    config.numAttrs = len(listed)
    assert [attribute.id for attribute in config.attrs] == [attribute.id for attribute in listed]
