# SPDX-License-Identifier: Apache-2.0
"""run.counters: the profiler's numbers, by name, line, instruction and launch."""
import re
from pathlib import Path

import numpy as np
import pytest
from emulator.coverage import run as run_forms
from emulator.coverage.kernel import text
from support.emulated import run
from support.gemms import warp_specialized

import hopperlab as hl
from hopperlab import emulator
from hopperlab.emulator import isa, ops
from hopperlab.emulator.observe import classes
from hopperlab.emulator.observe.counters import CLASSES, COUNTERS, Counters
from hopperlab.emulator.ptx.instructions import INSTRUCTIONS, REFUSED
from hopperlab.emulator.ptx.ir import Instr
from hopperlab.emulator.ptx.parser import parse
from hopperlab.hopper import banks

LANE = np.arange(32)

TRANSPOSE = r"""
extern "C" __global__ void k(const float* in, float* out) {
    __shared__ float tile[32][PITCH];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];       // the column
}"""


@pytest.mark.parametrize("pitch, wavefronts", [(32, 32), (33, 1), (34, 2), (36, 4)])
def test_padding_removes_the_conflicts_of_a_column(pitch, wavefronts):
    x, y = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    counters = run(TRANSPOSE, (x, y), block=(32, 32), options=(f"-DPITCH={pitch}",)).counters
    assert (y == x.T).all()
    assert counters["shared_load_requests"] == counters["shared_store_requests"] == 32
    assert counters["shared_load_wavefronts"] == 32 * wavefronts
    assert counters["shared_load_conflicts"] == 32 * (wavefronts - 1)
    assert counters["shared_store_wavefronts"] == 32 and counters["shared_store_conflicts"] == 0
    assert counters["shared_load_bytes"] == counters["shared_store_bytes"] == 4096


STRIDED = r"""
extern "C" __global__ void k(const float* in, float* out, int stride) {
    out[threadIdx.x] = in[threadIdx.x * stride];
}"""


@pytest.mark.parametrize("stride, sectors", [(1, 4), (2, 8), (4, 16), (8, 32), (100, 32), (0, 1)])
def test_global_sectors_a_request(stride, sectors):
    x, y = np.zeros(32 * 128, np.float32), np.zeros(64, np.float32)
    counters = run(STRIDED, (x[:64 * max(1, stride)], y, np.int32(stride)), block=(32,)).counters
    assert counters["global_load_requests"] == 1 and counters["global_load_sectors"] == sectors
    assert counters["global_store_sectors"] == 4 and counters["global_store_bytes"] == 128


def test_only_lanes_that_take_part_count():
    source = r"""extern "C" __global__ void k(const float* in, float* out) {
    __shared__ float s[1024];
    if (threadIdx.x % 2) s[threadIdx.x * 32] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x % 2) out[threadIdx.x] = s[threadIdx.x * 32];
}"""
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    counters = run(source, (x, y)).counters
    active = LANE % 2 == 1
    assert counters["shared_store_wavefronts"] == banks.wavefronts(LANE * 128, 4, active, True) == 16
    assert counters["shared_load_conflicts"] == banks.conflicts(LANE * 128, 4, active) == 15
    assert counters["global_load_sectors"] == 4 and counters["global_load_bytes"] == 64


def test_every_warp_of_a_batch_counts_even_where_patterns_differ():
    source = r"""extern "C" __global__ void k(float* out) {
    __shared__ float s[4096];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s[lane << warp] = 1;                                            // strides 1, 2, 4, 8
    __syncthreads();
    out[threadIdx.x] = s[lane << warp];
}"""
    counters = run(source, (np.zeros(128, np.float32),), block=(128,)).counters
    assert counters["shared_store_wavefronts"] == counters["shared_load_wavefronts"] == 1 + 2 + 4 + 8


def test_many_warps_are_counted_in_pieces():
    source = r"""extern "C" __global__ void k(float* out) { out[blockIdx.x * 1024 + threadIdx.x] = 1; }"""
    counters = run(source, (np.zeros(1024 * 40, np.float32),), block=(1024,), grid=(40,)).counters
    assert counters["global_store_requests"] == 40 * 32 and counters["global_store_sectors"] == 40 * 32 * 4


def test_counters_by_line_and_instruction_add_up_to_the_totals():
    _, _, session = warp_specialized(128, 128, 128)
    counters = session.counters
    for name in ("tma_load_bytes", "wgmma", "warp_instructions", "global_store_bytes", "mbarrier_arrivals", "mbarrier_waits"):
        assert sum(counters.by_line(name).values()) == counters[name] == sum(c[name] for c in counters.by_instruction(name)), name
    assert all(place.rpartition(":")[0].endswith("warp_specialized.cu") for place in counters.by_line("tma_load_bytes"))
    (kernel, totals), = counters.by_launch()
    assert kernel == "gemm" and totals == {name: amount for name, amount in counters.items() if amount}


def test_an_instruction_tells_the_constants_among_its_operands():
    """wgmma.wait_group leaves 0 groups, or 1, under way; bar.sync names its barrier and its threads."""
    source = r"""#include <hopperlab/fence.cuh>
extern "C" __global__ void k(float* out) {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    asm volatile("bar.sync 3, 128;" ::: "memory");
    out[threadIdx.x] = 1;
}"""
    counted = run(source, (np.zeros(128, np.float32),), block=(128,)).counters.by_instruction()
    assert [c.constants for c in counted if c.opcode.startswith(("wgmma.wait_group", "bar.sync"))] == [(1,), (0,), (3, 128)]


def test_classes_of_instructions_add_up():
    counters = warp_specialized(128, 128, 128)[2].counters
    classes = {name: amount for name, amount in counters.items() if name.startswith("warp_instructions_")}
    assert sum(classes.values()) == counters["warp_instructions"]
    assert classes["warp_instructions_tensor"] >= 4 * counters["wgmma"]


def test_mbarrier_traffic_of_a_ring():
    counters = warp_specialized(128, 128, 256)[2].counters
    tiles = 256 // 64
    assert counters["mbarrier_expected_bytes"] == counters["mbarrier_completed_bytes"] == counters["tma_load_bytes"] == tiles * 32768
    assert counters["mbarrier_phases"] >= tiles and counters["mbarrier_blocked"] <= counters["mbarrier_waits"]


@pytest.mark.assembled
def test_a_counter_that_saw_nothing_is_zero_and_a_wrong_name_lists_the_right_ones():
    counters = run(STRIDED, (np.zeros(32, np.float32), np.zeros(32, np.float32), np.int32(1))).counters
    assert counters["tma_load_bytes"] == 0 and "tma_load_bytes" not in counters
    with pytest.raises(KeyError, match="tma_load_bytes"):
        counters["tma_bytes"]
    assert counters["peak_registers"] > 0 and "global_load_bytes" in counters.table()


def test_the_swizzle_removes_the_conflicts_of_ldmatrix():
    x = np.zeros((64, 64), np.float16)
    source = r"""
extern "C" __global__ void k(const __grid_constant__ TensorMap map, unsigned* out, int swizzled) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ mbarrier_t bar;
    unsigned base = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        mbarrier_init(&bar, 1);
        mbarrier_arrive_expect_tx(&bar, 8192);
        cp_async_bulk_tensor_2d_load(tile, &map, &bar, 0, 0);
    }
    __syncthreads();
    mbarrier_wait_parity(&bar, 0);
    unsigned at = base + threadIdx.x % 8 * 128 + threadIdx.x / 8 * 16;
    if (swizzled) at ^= (at & 0x380) >> 3;
    unsigned r0, r1, r2, r3;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at));
    out[threadIdx.x] = r0 ^ r1 ^ r2 ^ r3;
}"""
    found = {}
    for swizzle in ("none", "128B"):
        map_ = hl.TensorMap.tiled(x, box=(64, 64), swizzle=swizzle)
        counters = run(source, (map_, np.zeros(32, np.uint32), np.int32(swizzle == "128B")), shared_mem=8192).counters
        assert counters["matrix_load_requests"] == 1 and counters["tma_load_bytes"] == 8192
        found[swizzle] = (counters["shared_load_wavefronts"], counters["shared_load_conflicts"])
    assert found == {"none": (32, 28), "128B": (4, 0)}


def test_bytes_between_the_ctas_of_a_cluster():
    source = r"""
#include <hopperlab/cluster.cuh>
extern "C" __global__ void __cluster_dims__(2) k(float* out) {
    __shared__ float mine[32];
    mine[threadIdx.x] = threadIdx.x;
    barrier_cluster_arrive();
    barrier_cluster_wait();
    float theirs;
    unsigned from = mapa_shared_cluster(&mine[threadIdx.x], cluster_ctarank() ^ 1);
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(theirs) : "r"(from) : "memory");
    out[blockIdx.x * 32 + threadIdx.x] = theirs;
    barrier_cluster_arrive();
    barrier_cluster_wait();
}"""
    session = run(source, (np.zeros(64, np.float32),), grid=(2,))
    assert session.counters["dsmem_load_bytes"] == 256 and session.counters["dsmem_store_bytes"] == 0 and not session.hazards


def test_every_counter_of_the_code_is_explained():
    """Names in calls of add and operation have a row in COUNTERS, and one that has none is an error when it is counted."""
    found = set()
    for path in Path(emulator.__file__).parent.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'self\.add\("([a-z_]+)"', code))
        found |= {f"{name}{end}" for name in re.findall(r'self\.operation\("([a-z_]+)"', code) for end in ("s", "_bytes")}
    assert {"tma_load_bytes", "wgmma", "bulk_loads"} <= found <= set(COUNTERS), found - set(COUNTERS)
    with pytest.raises(KeyError, match="no row"):
        Counters().add("strange", 1)


ACCEPTED = [form for where, form in run_forms.table() if where == "sm_90a"]


def test_every_instruction_has_a_class():
    """Words that a resolver or the arithmetic takes, and every form that runs, each in one of CLASSES."""
    implemented = isa.covered() | set(ops.RESOLVERS) - set(REFUSED) | {"bra", "brx", "ret", "exit"}
    assert implemented == set(INSTRUCTIONS) and not implemented & set(REFUSED)
    assert {row.counts or "float" for row in INSTRUCTIONS.values()} == set(CLASSES)
    forms = [form for form in ACCEPTED if form.split(".")[0] not in REFUSED]
    body = parse(text({"k": forms}, bare=True)[0]).functions["k"].body
    assert len(body) >= len(forms) > 7000 and {classes.instruction_class(instr) for instr in body} <= set(CLASSES)


@pytest.mark.parametrize("words", ["add", "add.strange", "strange.u32", "tex.1d.v4.f32.s32"])
def test_an_instruction_without_a_class_is_an_error(words):
    op, *mods = words.split(".")
    with pytest.raises(emulator.UnsupportedInstruction, match="no class"):
        classes.instruction_class(Instr(op, tuple(mods), (), None, None, 1, 0))

