# SPDX-License-Identifier: Apache-2.0
"""cp.reduce.async.bulk and its tensor form: every operation and type of sm_90a, against NumPy."""
import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from hopperlab import emulator
from hopperlab.emulator.ptx.ir import PtxSyntaxError

DTYPES = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "f32": np.float32, "f64": np.float64, "f16": np.float16,
          "bf16": ml_dtypes.bfloat16, "b32": np.uint32, "b64": np.uint64}
CASES = ([("add", k) for k in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")]
         + [(op, k) for op in ("min", "max") for k in ("u32", "s32", "u64", "s64", "f16", "bf16")]
         + [("inc", "u32"), ("dec", "u32")] + [(op, k) for op in ("and", "or", "xor") for k in ("b32", "b64")])


def operands(kind, shape, seed):
    rng = np.random.default_rng(seed)
    if kind in ("f32", "f64", "f16", "bf16"):
        return rng.normal(size=shape).astype(DTYPES[kind])
    return rng.integers(0, 1 << 63, shape, dtype=np.uint64).astype(DTYPES[kind])


def reduced(op, kind, old, value):
    """NumPy's idea of one reduction."""
    if op == "inc":
        return np.where(old >= value, 0, old + 1).astype(old.dtype)
    if op == "dec":
        return np.where((old == 0) | (old > value), value, old - 1).astype(old.dtype)
    fn = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
    if kind in ("f16", "bf16"):
        return fn(old.astype(np.float32), value.astype(np.float32)).astype(old.dtype)
    return fn(old, value)


BULK = r"""
extern "C" __global__ void kernel(const uint4* in, char* out, int vectors) {
    extern __shared__ __align__(128) uint4 tile[];
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) tile[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned s = (unsigned)__cvta_generic_to_shared(tile);
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%0], [%1], %2;" :: "l"(out), "r"(s), "r"(vectors * 16) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


@pytest.mark.parametrize("op, kind", CASES)
def test_bulk_reduction_in_global_memory(op, kind):
    value, memory = operands(kind, 64, 61), operands(kind, 64, 67)
    expected = reduced(op, kind, memory, value)
    name = op + (".noftz." if op == "add" and kind in ("f16", "bf16") else ".") + kind
    kernel = hl.RawModule(code=BULK.replace("OP", name), backend="emulator").get_function("kernel")
    kernel((1,), (32,), (value.view(np.uint8), memory, np.int32(value.nbytes // 16)), shared_mem=2048)
    assert memory.tobytes() == expected.tobytes()


def test_float_sums_flush_subnormals():
    value, memory = np.full(64, 1e-40, np.float32), np.zeros(64, np.float32)
    memory[0] = 1
    hl.RawModule(code=BULK.replace("OP", "add.f32"), backend="emulator").get_function("kernel")(
        (1,), (32,), (value.view(np.uint8), memory, np.int32(16)), shared_mem=2048)
    assert memory[0] == 1 and not memory[1:].any()


@pytest.mark.parametrize("name", ["add.s64", "inc.s32", "min.f32", "and.u32x", "add.f16"])
def test_reductions_that_do_not_exist(name):
    module = hl.RawModule(ptx=""".version 8.6
.target sm_90a
.address_size 64
.visible .entry kernel() {
  .reg .b64 %a; .reg .b32 %s;
  mov.u64 %a, 0; mov.u32 %s, 1024;
  cp.reduce.async.bulk.global.shared::cta.bulk_group.""" + name + """ [%a], [%s], 16;
  ret;
}
""", backend="emulator")
    with pytest.raises((emulator.UnsupportedInstruction, PtxSyntaxError)):
        module.get_function("kernel")((1,), (1,), ())


TENSOR = r"""
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void kernel(const __grid_constant__ Map map, const uint4* in, int vectors, int x, int y) {
    extern __shared__ __align__(1024) uint4 tile[];
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) tile[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned s = (unsigned)__cvta_generic_to_shared(tile);
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.OP.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&map), "r"(x), "r"(y), "r"(s) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
@pytest.mark.parametrize("op, kind", [c for c in CASES if c[1] not in ("f64", "b32", "b64")] + [("xor", "u32"), ("and", "u64")])
def test_tensor_reduction_clips_at_the_edges(op, kind, schedule):
    dtype = np.dtype(DTYPES[kind])
    box, shape = (8, 32 // dtype.itemsize), (20, 3 * 32 // dtype.itemsize)
    value, memory = operands(kind, box, 71), operands(kind, shape, 73)
    expected, y, x = memory.copy(), 15, box[1]
    rows = shape[0] - y
    part = expected[y:, x:x + box[1]]
    part[:] = reduced(op, kind, part.copy(), value[:rows])
    kernel = hl.RawModule(code=TENSOR.replace("OP", op), backend="emulator").get_function("kernel")
    with hl.emulate(schedule=schedule):
        kernel((1,), (32,), (hl.TensorMap.tiled(memory, box=box), value.view(np.uint8), np.int32(value.nbytes // 16), np.int32(x), np.int32(y)),
               shared_mem=2048)
    assert memory.tobytes() == expected.tobytes()


def test_many_blocks_add_into_one_tile():
    memory, value = np.zeros((8, 8), np.float32), np.arange(64, dtype=np.float32).reshape(8, 8)
    kernel = hl.RawModule(code=TENSOR.replace("OP", "add"), backend="emulator").get_function("kernel")
    kernel((9,), (32,), (hl.TensorMap.tiled(memory, box=(8, 8)), value.view(np.uint8), np.int32(16), np.int32(0), np.int32(0)), shared_mem=2048)
    assert (memory == 9 * value).all()


def test_a_type_the_operation_does_not_have_is_a_fault():
    memory = np.zeros((8, 4), np.float64)
    kernel = hl.RawModule(code=TENSOR.replace("OP", "add"), backend="emulator").get_function("kernel")
    with pytest.raises(emulator.MemoryFault, match="float64"):
        kernel((1,), (32,), (hl.TensorMap.tiled(memory, box=(8, 4)), memory.view(np.uint8), np.int32(16), np.int32(0), np.int32(0)),
               shared_mem=2048)


CLUSTER = r"""
extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(const unsigned* in, unsigned* out) {
    __shared__ __align__(128) unsigned mine[32], sum[32];
    __shared__ __align__(8) unsigned long long bar;
    unsigned rank, t = threadIdx.x;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar), m = (unsigned)__cvta_generic_to_shared(mine), s = (unsigned)__cvta_generic_to_shared(sum);
    if (t == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(b) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    mine[t] = in[rank * 32 + t];
    sum[t] = 1000 * (rank + 1);
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
    if (t == 0) {
        unsigned rs, rb, other = rank ^ 1;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(rs) : "r"(s), "r"(other));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(rb) : "r"(b), "r"(other));
        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.OP.u32 [%0], [%1], 128, [%2];"
                     :: "r"(rs), "r"(m), "r"(rb) : "memory");
    }
    asm volatile("{ .reg .pred p;\n W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n @!p bra W; }" :: "r"(b) : "memory");
    out[rank * 32 + t] = sum[t];
    asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}"""


@pytest.mark.parametrize("op", ["add", "min", "max", "inc", "dec"])
def test_reduction_into_another_ctas_shared_memory(op):
    x, out = np.random.default_rng(79).integers(0, 3000, 64).astype(np.uint32), np.zeros(64, np.uint32)
    hl.RawModule(code=CLUSTER.replace("OP", op), backend="emulator").get_function("kernel")((2,), (32,), (x, out))
    old = np.repeat(np.array([1000, 2000], np.uint32), 32)
    assert (out == reduced(op, "u32", old, np.roll(x, 32))).all()


# Three CTAs: the adders reduce their tiles into `sum` and raise a flag once the group is complete; the last CTA waits for the flags it is told to, and then USES the sum.
ADDERS = r"""
__device__ void raise(unsigned* flag) { asm volatile("st.release.gpu.global.u32 [%0], 1;" :: "l"(flag) : "memory"); }
__device__ void await(unsigned* flag) {
    unsigned seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (!seen);
}
extern "C" __global__ void kernel(float* sum, unsigned* flags, float* out, unsigned awaited, int adders) {
    __shared__ alignas(128) float tile[32];
    if (blockIdx.x < adders) {
        tile[threadIdx.x] = 1.0f;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (threadIdx.x == 0) {
            unsigned s = (unsigned)__cvta_generic_to_shared(tile);
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 128;" :: "l"(sum), "r"(s) : "memory");
            asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
            raise(flags + blockIdx.x);
        }
    } else if (threadIdx.x == 0) {
        for (int k = 0; k < adders; ++k)
            if (awaited >> k & 1) await(flags + k);
        USE
    }
}"""
USES = {"read": "out[0] = sum[3];", "store": "sum[3] = 0;", "copied in": r"""
        __shared__ alignas(8) unsigned long long full;
        unsigned b = (unsigned)__cvta_generic_to_shared(&full), s = (unsigned)__cvta_generic_to_shared(tile);
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" :: "r"(b) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(b) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" :: "r"(s), "l"(sum), "r"(b) : "memory");
        asm volatile("{ .reg .pred p;\n again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n @!p bra again; }" :: "r"(b) : "memory");
        out[0] = tile[3];""", "stored over by a copy": r"""
        unsigned s = (unsigned)__cvta_generic_to_shared(tile);
        for (int i = 0; i < 4; ++i) tile[i] = 5;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;" :: "l"(sum), "r"(s) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");"""}


def adders(use, awaited, count=3):
    total, out = np.zeros(32, np.float32), np.zeros(1, np.float32)
    with hl.emulate(hazards="collect") as run:
        hl.RawModule(code=ADDERS.replace("USE", USES[use]), backend="emulator").get_function("kernel")(
            (count + 1,), (32,), (total, np.zeros(count, np.uint32), out, np.uint32(awaited), np.int32(count)))
    return [h.kind for h in run.hazards], out[0]


@pytest.mark.parametrize("awaited", range(7))
@pytest.mark.parametrize("use", USES)
def test_who_uses_a_sum_waits_for_all_who_add(use, awaited):
    """Whichever of them is not waited for, also where it is not the last to add."""
    kinds, _ = adders(use, awaited)
    assert kinds and set(kinds) <= {"race", "read-before-arrival", "overwrite-in-flight"}


@pytest.mark.parametrize("use", USES)
def test_who_has_waited_for_all_may_use_the_sum(use):
    kinds, value = adders(use, 7)
    assert kinds == [] and (use not in ("read", "copied in") or value == 3)


OTHERS = r"""
extern "C" __global__ void kernel(float* sum, float* out, int waits) {
    __shared__ alignas(128) float tile[128];
    tile[threadIdx.x] = 1.0f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    unsigned s = (unsigned)__cvta_generic_to_shared(tile + threadIdx.x / 32 * 32);
    if (threadIdx.x % 32 == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 128;" :: "l"(sum), "r"(s) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (waits >> threadIdx.x / 32 & 1) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) out[0] = sum[5];
    if (threadIdx.x % 32 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}"""


@pytest.mark.parametrize("waits", range(16))
def test_every_warp_waits_for_its_own_reduction(waits):
    total, out = np.zeros(32, np.float32), np.zeros(1, np.float32)
    with hl.emulate(hazards="collect") as run:
        hl.RawModule(code=OTHERS, backend="emulator").get_function("kernel")((1,), (128,), (total, out, np.int32(waits)))
    assert bool(run.hazards) == (waits != 15) and (waits != 15 or out[0] == 4)


def test_reductions_into_different_places_are_apart():
    """Of a tensor map's boxes too: who reads one tile waits for those who add to it."""
    code = TENSOR.replace("OP", "add").replace("int x, int y", "float* all, float* out, int x, int y").replace("if (threadIdx.x == 0) {",
            "if (threadIdx.x == 0 && blockIdx.x < 2) {", 1)
    code = code.replace('"r"(x), "r"(y), "r"(s)', '"r"(x + (int)blockIdx.x * 8), "r"(y), "r"(s)')
    code = code.rstrip()[:-1] + "if (blockIdx.x == 2 && threadIdx.x == 0) out[0] = all[PLACE];\n}"
    value, seen = np.ones((8, 8), np.float32), {}
    for place in (0, 8, 16, 8 * 24 - 1):
        memory = np.zeros((8, 24), np.float32)
        with hl.emulate(hazards="collect") as run:
            hl.RawModule(code=code.replace("PLACE", str(place)), backend="emulator").get_function("kernel")(
                (3,), (32,), (hl.TensorMap.tiled(memory, box=(8, 8)), value.view(np.uint8), np.int32(16), memory, np.zeros(1, np.float32), np.int32(0), np.int32(0)),
                shared_mem=2048)
        seen[place] = bool(run.hazards)
    assert seen == {0: True, 8: True, 16: False, 8 * 24 - 1: False}
