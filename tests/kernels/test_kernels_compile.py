# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the course compiles for sm_90a, within its register budget, without spills, and no note changes what runs."""
import re

import pytest

from hopperlab.measure.launches.article import REPAIRS
from hopperlab.measure.launches.fp8_grouped import FEW, LOW, MANY, SMALL, SOME
from hopperlab.runtime.library import kernel_source
from hopperlab.runtime.module import RawModule
from hopperlab.runtime.compile.toolchain import KERNELS

# file, options, {kernel: registers per thread at most}. 128 keeps two blocks of 256 on an SM; 168 is 65536 / 384, what
# setmaxnreg starts from; 255 is the architecture's limit.
BUDGETS = [
    ("gemm/mma_multistage.cu", (), {"gemm": 128}),
    ("gemm/mma_multistage.cu", ("-DSTAGES=2",), {"gemm": 128}),
    ("gemm/mma_multistage.cu", ("-DSTAGES=7",), {"gemm": 128}),
    ("gemm/mma_multistage.cu", ("-DBN=256",), {"gemm": 255}),
    ("gemm/mma_multistage.cu", ("-DBM=256",), {"gemm": 255}),
    ("gemm/mma_multistage.cu", ("-DBM=64", "-DBN=64"), {"gemm": 128}),
    ("gemm/mma_multistage.cu", ("-DBM=64", "-DBN=256"), {"gemm": 255}),
    ("gemm/mma_multistage.cu", ("-DCACHE_ALL",), {"gemm": 128}),
    ("gemm/tma_wgmma.cu", (), {"gemm": 128}),
    ("gemm/warp_specialized.cu", (), {"gemm": 168}),
    ("gemm/warp_specialized.cu", ("-DSTAGES=6",), {"gemm": 168}),
    ("gemm/naive.cu", (), {"gemm": 32}),
    ("gemm/shared_tile.cu", (), {"gemm": 64}),
    ("gemm/register_double_buffer.cu", (), {"gemm": 128}),
    ("gemm/tma_mma.cu", (), {"gemm": 128}),
    ("gemm/two_consumers_128x256.cu", (), {"gemm": 168}),
    ("gemm/cluster_multicast.cu", (), {"gemm": 168}),
    ("gemm/persistent.cu", (), {"gemm": 168}),
    ("gemm/pingpong.cu", (), {"gemm": 168}),
    ("gemm/overlapped_store.cu", (), {"gemm": 168}),
    ("gemm/stream_k.cu", (), {"gemm": 168}),
    ("gemm/stream_k.cu", ("-DBN=128", "-DSTAGES=5"), {"gemm": 168}),
    ("gemm/cooperative.cu", (), {"gemm": 168}),
    ("gemm/reads_c.cu", (), {"gemm": 168}),
    ("clusters/shared_tiles.cu", (), {"shared_tiles": 64}),
    *(("clusters/handed_tiles.cu", (f"-DHOW={how}",), {"handed_tiles": 64}) for how in range(3)),
    ("registers/roles.cu", (), {"gemm": 168}),
    ("article/listing.cu", tuple(f"-DFIX_{name}=1" for name in REPAIRS), {"pipeline": 128}),
    ("registers/roles.cu", ("-DROW_BLOCKS=3", "-DBN=128"), {"gemm": 168}),
    ("gemm/final.cu", (), {"gemm": 168}),
    ("gemm/final.cu", ("-DSTAGES=3", "-DC_SLOTS=4", "-DIN_FLIGHT=0", "-DSTAGGER=0", "-DCLUSTER_M=1", "-DIN_STEP=1"), {"gemm": 168}),
    ("gemm/final.cu", ("-DBM=256", "-DBN=128", "-DCLUSTER_M=1", "-DCLUSTER_N=2"), {"gemm": 168}),
    ("gemm/final.cu", ("-DBM=256", "-DBN=192", "-DSTAGES=3", "-DC_SLOTS=1", "-DCLUSTER_M=1", "-DSTAGGER=0"), {"gemm": 168}),
    ("gemm/final.cu", ("-DSTREAM=1",), {"gemm": 168}),
    ("gemm/final.cu", ("-DBN=64", "-DSTAGES=8", "-DC_SLOTS=1", "-DCLUSTER_M=1"), {"gemm": 168}),
    ("gemm/final.cu", ("-DBM=64", "-DBN=128", "-DCONSUMERS=1", "-DSTAGES=8", "-DSTAGGER=0", "-DGROUP=0"), {"gemm": 96}),
    ("gemm/final.cu", ("-DGROUP=0",), {"gemm": 168}),
    ("gemm/final.cu", ("-DTMA_STORE=0", "-DSTAGES=4"), {"gemm": 168}),
    ("gemm/split_k.cu", (), {"gemm": 168}),
    ("gemm/split_k.cu", ("-DBN=256", "-DSPLIT=4", "-DSTAGES=4", "-DSTREAM_B=1"), {"gemm": 168}),
    ("gemm/cp_async_mma.cu", (), {"gemm": 128}),
    ("gemm/cp_async_wgmma.cu", (), {"gemm": 128}),
    ("gemm/multistage.cu", (), {"gemm": 128}),
    ("gemm/multistage.cu", ("-DSTAGES=3", "-DBLOCKS_PER_SM=2"), {"gemm": 128}),
    ("gemm/multistage.cu", ("-DSTAGES=8", "-DBK=32"), {"gemm": 128}),
    ("gemm/multistage.cu", ("-DSTAGES=3", "-DBK=128"), {"gemm": 128}),
    ("gemm/cp_async_barriers.cu", (), {"gemm": 128}),
    ("gemm/cuda_pipeline.cu", (), {"gemm": 128}),
    ("gemm/cuda_pipeline.cu", ("-DSCOPE=1",), {"gemm": 128}),
    ("gemm/producer_warp.cu", (), {"gemm": 224}),
    ("gemm/producer_warp.cu", ("-DPRODUCER_WARPS=4",), {"gemm": 168}),
    *[("gemm/wgmma_operands.cu", (f"-DINPUT={kind}", f"-DA_SOURCE={source}"), {"gemm": 224}) for kind in range(5) for source in (0, 1)],
    *[("gemm/wgmma_operands.cu", ("-DA_MN=1", "-DB_MN=1", f"-DA_SOURCE={source}"), {"gemm": 224}) for source in (0, 1)],
    ("copy/tma_copy.cu", (), {"tma_copy": 32, "tma_copy_ring": 32, "tma_landing": 40}),
    ("copy/tma_copy.cu", ("-DRANK=5",), {"tma_landing": 40}),
    ("copy/tma_scale.cu", (), {"tma_scale": 40}),
    ("copy/bulk_copy.cu", (), {"bulk_copy": 32}),
    ("copy/cp_async_copy.cu", (), {"cp_async_copy": 40}),
    ("copy/vector_copy.cu", (), {"vector_copy": 40}),
    *[("copy/tensor_copy.cu", (f"-DRANK={rank}",), {"tensor_copy": 40}) for rank in (1, 2, 3, 4, 5)],
    *[("copy/tma_reduce.cu", (f"-DREDUCE={op}",), {"tma_reduce": 32}) for op in ("add", "inc", "xor")],
    ("copy/bulk_reduce.cu", (), {"bulk_reduce": 32}),
    ("copy/bulk_reduce.cu", ("-DINTO_SHARED",), {"dsmem_reduce": 32}),
    *[("copy/im2col_load.cu", (f"-DRANK={rank}",), {"im2col_load": 40}) for rank in (3, 4, 5)],
    ("copy/multicast_copy.cu", ("-DCLUSTER=4",), {"multicast_copy": 32}),
    ("copy/multicast_copy.cu", ("-DMULTICAST=0",), {"multicast_copy": 32}),
    *[("copy/dsmem_copy.cu", (f"-DMETHOD={method}",), {"dsmem_copy": 48}) for method in (0, 1, 2)],
    ("copy/bulk_read.cu", (), {"bulk_read": 40}),
    *[("copy/stream_copy.cu", (f"-DHINTS={hints}",), {"stream_copy": 32}) for hints in (0, 1, 2)],
    ("micro/traced_ring.cu", (), {"traced_ring": 64}),
    ("micro/traced_ring.cu", ("-DHOPPERLAB_TRACE",), {"traced_ring": 64}),
    ("micro/barriers.cu", (), dict.fromkeys(("mbarrier_round_trip", "named_round_trip", "syncthreads", "mbarrier_meeting", "cluster_meeting", "remote_round_trip"), 32)),
    ("micro/tma_latency.cu", (), {"tma_latency": 32, "tma_issue": 32}),
    ("micro/tma_latency.cu", ("-DHOW=3",), {"tma_issue": 40}),
    *[("micro/descriptor_fetch.cu", (f"-DPLACE={place}",), {"descriptor_fetch": 32}) for place in (0, 1, 2)],
    ("micro/map_cache.cu", (), {"map_cache": 32}),
    ("micro/early_opening.cu", (), {"early_opening": 32}),
    *[("micro/memory_latency.cu", (f"-DSPACE={space}",), {"chase": 32, "stream": 40, "bulk_stream": 32}) for space in (0, 1, 2)],
    *[("micro/exchange.cu", (f"-DHOW={how}",), {"exchange": 32}) for how in (0, 1, 2, 3)],
    *[("micro/wgmma_rate.cu", (f"-DN={n}", f"-DA_SOURCE={source}"), {"wgmma_rate": 255}) for n in (8, 64, 256) for source in (0, 1)],
    *[("micro/wgmma_beside_copies.cu", (f"-DN={n}",), {"wgmma_beside_copies": registers}) for n, registers in ((32, 48), (256, 160))],
    *[("micro/mma_rate.cu", (f"-DILP={ilp}",), {"mma_rate": 128}) for ilp in (1, 8, 16)],
    ("micro/multicast_load.cu", (), {"multicast_load": 40}),
    ("micro/setmaxnreg_cost.cu", (), {"setmaxnreg_cost": 168}),
    ("micro/swizzle_reads.cu", (), {"swizzle_reads": 64}),
    ("micro/cluster_launch.cu", (), {"cluster_launch": 32}),
    *[("launches/product.cu", (f"-DSTAGES={stages}", f"-DLAUNCH_AT={launch}", f"-DWAIT_AT={wait}"), {"product": 80}) for stages, launch,
      wait in ((4, 2, 3), (6, 1, 1), (8, 3, 2))],
    ("launches/product.cu", ("-DHOPPERLAB_TRACE", "-DLAYER=2"), {"product": 96}),
    *[("launches/rms_norm.cu", (f"-DVECTORS={vectors}",), {"rms_norm": 80}) for vectors in (1, 4)],
    *[("launches/persistent_chain.cu", (f"-DVECTORS={vectors}",), {"persistent_chain": 112}) for vectors in (1, 4)],
    ("launches/start.cu", (), {"start": 16, "spin": 16}),
    *[("decoding/decode.cu", (f"-DGROUP={group}", f"-DSTAGES={stages}", *more), {"decode": 168}) for group, stages, more in (
        (8, 6, ()), (1, 6, ("-DPAGE=16",)), (16, 4, ("-DPAGE=128",)), (8, 12, ("-DD=64",)), (8, 6, ("-DGATHER=1", "-DPAGE=1")), (8, 6, ("-DGROUPS=1",)))],
    ("decoding/latent.cu", (), {"latent": 168}),
    *[("decoding/combine.cu", options, {"combine": 48}) for options in ((), ("-DDV=512", "-DCOLUMNS=4", "-DGROUP=16"))],
    ("decoding/append.cu", (), {"append": 40}),
    ("layouts/columns.cu", (), {"columns": 40}),
    ("layouts/gather_rows.cu", (), {"gather_rows": 40}),
    ("layouts/scatter_rows.cu", (), {"scatter_rows": 40}),
    ("stores/fence_places.cu", (), {"doubled": 40}),
    ("stores/grouped.cu", (), {"grouped": 40}),
    *[("mixed/int_weights.cu", (f"-DBITS={bits}", *options), {"int_weights": 168}) for bits in (4, 8)
      for options in ((), ("-DBM=16", "-DBK=128", "-DSPLIT=2", "-DSTAGES=12"), ("-DROWS=2", "-DSPLIT=4", "-DSTAGES=8"), ("-DBM=256",))],
    *[("mixed/sparse.cu", options, {"sparse": 168}) for options in ((), ("-DBM=16", "-DBK=128", "-DSPLIT=2"), ("-DROWS=2", "-DSPLIT=4"), ("-DBM=256",))],
    *[("mixed/int_weights.cu", (f"-DBITS={bits}", "-DCTAS=2", f"-DBM={bm}", f"-DBK={bk}", "-DSTAGES=4"), {"int_weights": 80}) for bits in (4, 8)
      for bm, bk in ((16, 128), (32, 64), (64, 64))],
    ("mixed/sparse.cu", ("-DCTAS=2", "-DBM=16", "-DBK=128"), {"sparse": 80}),
    ("mixed/fp8_kinds.cu", (), {"fp8_kinds": 64}),
    ("peers/gathered_product.cu", (), {"gathered_product": 168}), ("peers/scattered_product.cu", (), {"scattered_product": 168}),
    ("peers/flags.cu", (), {"meet": 24, "round_trip": 24}), ("peers/all_reduce.cu", (), {"two_shot": 64, "one_words": 64, "one_shot": 64}),
    ("fp8/tensor_scale.cu", (), {"gemm": 168}),
    ("fp8/promoted.cu", (), {"gemm": 168}),
    ("fp8/block_scaled.cu", (), {"gemm": 168}),
    *[("fp8/block_scaled.cu", ("-DROWS=2", "-DPARTS=1", "-DSTAGES=3", "-DC_SLOTS=4", f"-DUNROLL={unroll}"), {"gemm": 168}) for unroll in (1, 8)],
    ("fp8/block_scaled.cu", ("-DCONSUMERS=3", "-DPARTS=1", "-DSTAGES=4", "-DC_SLOTS=2", "-DUNROLL=8"), {"gemm": 128}),
    ("fp8/block_scaled.cu", ("-DCLUSTER_N=1", "-DGROUP=0", "-DSPLIT=4"), {"gemm": 168}),
    ("fp8/grouped.cu", (), {"gemm": 168}),
    *[("fp8/grouped_tall.cu", tiles.options, {"gemm": 168}) for tiles in (FEW, SMALL, LOW, SOME, MANY)],
    ("attention/forward.cu", ("-DD=64", "-DCONSUMERS=3"), {"attention": 128}),
    ("attention/forward.cu", ("-DD=64", "-DCONSUMERS=1", "-DTURNS=0", "-DQ_SLOTS=2", "-DBN=64", "-DPER_SM=3"), {"attention": 80}),
    ("attention/forward_fp8.cu", (), {"attention": 168}),
    ("attention/forward_fp8.cu", ("-DD=64", "-DBN=192"), {"attention": 168}),
    ("attention/forward_fp8.cu", ("-DD=256", "-DOVERLAP=0", "-DWIDE=64"), {"attention": 168}),
    *[("attention_backward/backward.cu", (f"-DD={d}", f"-DDQ={dq}"), {"attention_backward": 168}) for d, dq in ((64, 1), (128, 0), (128, 2))],
    ("attention_backward/begin.cu", (), {"attention_backward_begin": 64}),
    ("attention_backward/end.cu", (), {"attention_backward_end": 64}),
    ("stores/split_k.cu", (), {"split_k": 64}),
    ("stores/handover.cu", (), {"handover": 40}),
    ("wgmma/one_tile.cu", (), {"one_tile": 64}),
    ("wgmma/one_tile.cu", ("-DN=256", "-DBLOCKS=3", "-DIN_FLIGHT=1"), {"one_tile": 168}),
    ("micro/tma_vs_cp_async.cu", (), {"tma_load": 40, "cp_async_load": 40}),
    ("gemm/shared_tile.cu", ("-DBM=128", "-DBN=128", "-DBK=8"), {"gemm": 128}),
    ("banks/clobber.cu", (), {"load_twice": 32}),
    ("banks/transpose.cu", (), {"transpose": 32}),
    ("banks/access.cu", ("-DWIDTH=0", "-DMASK=896"), {"access": 32}),
    ("banks/mma_warp.cu", (), {"product": 80}),
    ("mbarrier/ring.cu", (), {"fold": 40}),
    ("program/three_rows.cu", (), {"three_rows": 40}),
    ("mbarrier/named_ring.cu", (), {"fold": 40}),
    ("mbarrier/two_slots.cu", (), {"fold": 40}),
    *[(f"start_here/kernel_{number}.cu", (), {"fold": 40}) for number in (1, 2, 3, 4)],
]


def compiled(path: str, options: tuple[str, ...] = ()) -> RawModule:
    return RawModule(code=kernel_source(path), options=options, name=path, backend="emulator")


FIRST = {path: options for path, options, _ in reversed(BUDGETS)}          # of each file, the choice that other tests compile too


@pytest.mark.parametrize(("path", "options", "budget"), [pytest.param(*row, marks=() if FIRST[row[0]] == row[1] else pytest.mark.thorough) for row in BUDGETS],
                         ids=lambda value: value if isinstance(value, str) else None)
@pytest.mark.sampled(ci=1)
def test_kernel_compiles_within_its_budget(path, options, budget):
    info = compiled(path, options).ptxas_info
    assert not [note for note in info.notes if note.serious]
    for name, registers in budget.items():
        use = info.kernels[name]
        assert use.registers <= registers
        assert (use.spill_stores, use.spill_loads, use.stack) == (0, 0, 0)


def test_every_kernel_file_has_a_budget():
    files = {path.relative_to(KERNELS).as_posix() for path in KERNELS.rglob("*.cu")}
    assert files == {path for path, _, _ in BUDGETS}


def test_headers_name_the_instruction_and_its_section():
    for header in (KERNELS / "include" / "hopperlab").glob("*.cuh"):
        text = header.read_text()
        assert "#pragma once" in text
        if "asm volatile" in text:
            assert re.search(r"\[(PTX ISA )?\d+\.\d+", text), header.name


@pytest.mark.parametrize("header", sorted(path.name for path in (KERNELS / "include" / "hopperlab").glob("*.cuh")))
@pytest.mark.sampled(every=3, ci=1)
def test_header_compiles_on_its_own(header):
    code = f'#include <hopperlab/{header}>\nextern "C" __global__ void nothing() {{}}\n'
    assert RawModule(code=code, backend="emulator").kernel_names == ("nothing",)


def test_every_wrapper_assembles():
    """One kernel that calls every wrapper of the headers: ptxas accepts each instruction as written."""
    module = RawModule(code=EVERY_WRAPPER, backend="emulator")
    assert set(module.kernel_names) == {"copies", "ampere", "wgmma_64", "wgmma_128", "wgmma_256"}
    for opcode in ("cp.async.bulk.tensor.5d.global", "mbarrier.test_wait.parity", "wgmma.mma_async.sync.aligned.m64n256k16", "ldmatrix"):
        assert opcode in module.ptx


EVERY_WRAPPER = r"""
#include <hopperlab/cluster.cuh>
#include <hopperlab/cp_async.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mma.cuh>
#include <hopperlab/setmaxnreg.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma.cuh>
extern "C" __global__ void copies(const __grid_constant__ TensorMap map, uint4* global, int n) {
    extern __shared__ __align__(1024) unsigned char tile[];
    mbarrier_t* bar = reinterpret_cast<mbarrier_t*>(tile);
    prefetch_tensormap(&map);
    mbarrier_init(bar, 1); fence_mbarrier_init_release_cluster(); barrier_cluster_arrive(); barrier_cluster_wait();
    mbarrier_expect_tx(bar, n); mbarrier_complete_tx(bar, n); mbarrier_arrive(bar); mbarrier_arrive_expect_tx(bar, n);
    mbarrier_arrive_drop(bar); mbarrier_arrive_remote(mapa_shared_cluster(bar, cluster_ctarank()));
    cp_async_bulk_tensor_1d_load(tile, &map, bar, n); cp_async_bulk_tensor_2d_load(tile, &map, bar, n, n);
    cp_async_bulk_tensor_3d_load(tile, &map, bar, n, n, n); cp_async_bulk_tensor_4d_load(tile, &map, bar, n, n, n, n);
    cp_async_bulk_tensor_5d_load(tile, &map, bar, n, n, n, n, n);
    cp_async_bulk_tensor_1d_store(&map, tile, n); cp_async_bulk_tensor_2d_store(&map, tile, n, n);
    cp_async_bulk_tensor_3d_store(&map, tile, n, n, n); cp_async_bulk_tensor_4d_store(&map, tile, n, n, n, n);
    cp_async_bulk_tensor_5d_store(&map, tile, n, n, n, n, n);
    cp_async_bulk_load(tile, global, n, bar); cp_async_bulk_store(global, tile, n); cp_async_bulk_prefetch_l2(global, n);
    cp_async_bulk_commit_group(); cp_async_bulk_wait_group<1>(); cp_async_bulk_wait_group_read<0>();
    cp_async_cg_16(tile, global); cp_async_cg_16_l2_128(tile, global); cp_async_cg_16_zfill(tile, global, n);
    cp_async_ca_16(tile, global); cp_async_ca_16_zfill(tile, global, n); cp_async_ca_4(tile, global);
    cp_async_commit_group(); cp_async_wait_group<2>(); cp_async_wait_all(); cp_async_mbarrier_arrive_noinc(bar);
    fence_proxy_async(); fence_proxy_async_shared_cta(); bar_sync(1, 64); bar_arrive(2, 64);
    if (elect_sync() && mbarrier_test_wait_parity(bar, 0)) mbarrier_wait_parity(bar, 0);
    mbarrier_inval(bar);
}
extern "C" __global__ void __launch_bounds__(256, 1) ampere(float* out) {
    extern __shared__ __align__(1024) unsigned char tile[];
    unsigned a[4], b[4];
    float d[4] = {};
    ldmatrix_x4(a, shared_address(tile)); ldmatrix_x4_trans(b, shared_address(tile));
    mma_m16n8k16_bf16(d, a, b[0], b[1]);
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
#define TENSOR_CORE(N) extern "C" __global__ void __launch_bounds__(256, 1) wgmma_##N(float* out) {       \
    extern __shared__ __align__(1024) unsigned char tile[];                                              \
    if (threadIdx.x < 128) setmaxnreg_dec<24>(); else {                                                  \
        setmaxnreg_inc<240>();                                                                           \
        float d[N / 2] = {};                                                                             \
        unsigned long long k = wgmma_descriptor_128B(shared_address(tile));                              \
        wgmma_fence(); wgmma_m64n##N##k16_bf16(d, k, k, 1); wgmma_commit_group(); wgmma_wait_group<0>(); \
        for (int i = 0; i < N / 2; i++) out[threadIdx.x * N / 2 + i] = d[i];                             \
    } }
TENSOR_CORE(64) TENSOR_CORE(128) TENSOR_CORE(256)
"""
