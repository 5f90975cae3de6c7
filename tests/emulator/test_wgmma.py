# SPDX-License-Identifier: Apache-2.0
"""wgmma against NumPy: shapes, types, layouts of both operands, A from registers, scales and signs, groups and hazards.

Operands are small integers, so that every sum is exact. The host lays a matrix out in shared memory by the formulas of
the PTX ISA (9.7.15.5.1), written here anew; the kernel copies the image in, multiplies and gives the fragments back.
"""
import ml_dtypes
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, run, told

WIDTH = {"none": 1, "32B": 2, "64B": 4, "128B": 8}
CODE = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
XOR = {"none": 0, "32B": 0x080, "64B": 0x180, "128B": 0x380}
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
         "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}
K_OF = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


def image(matrix, mode, major):
    """(bytes of one k-step's operand tile, leading bytes, stride bytes) of a (rows, k) matrix."""
    rows, k = matrix.shape
    es, w = matrix.itemsize, WIDTH[mode]
    out = np.zeros(65536, np.uint8)
    r, c = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
    kb = c * es
    if major == "K" and mode == "none":
        leading, stride = 128 * (rows // 8), 128
        at = r // 8 * stride + r % 8 * 16 + kb // 16 * leading + kb % 16
    elif major == "K":
        leading, stride = 16, 8 * 16 * w
        at = r // 8 * stride + r % 8 * 16 * w + kb
    elif mode == "none":
        stride, leading = 128, 128 * (rows // 8)
        at = r % 8 * 2 + r // 8 * stride + c % 8 * 16 + c // 8 * leading
    else:
        leading, stride = 16 * w * 16, 8 * 16 * w          # bytes between chunks of 8w rows; between groups of 8 k
        at = r % (8 * w) * 2 + r // (8 * w) * leading + c % 8 * 16 * w + c // 8 * stride
    at = at ^ ((at & XOR[mode]) >> 3)
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows, k, es)
    for byte in range(es):
        out[(at + byte).reshape(-1)] = raw[:, :, byte].reshape(-1)
    return out[:32768], leading, stride


def descriptor(leading, stride, mode):
    return leading >> 4 << 16 | stride >> 4 << 32 | CODE[mode] << 62


def kernel(n, kind, other, k, trans, signs, a_registers, regs, integer):
    """CUDA source: `steps` wgmma with the given descriptors; A from shared memory or registers."""
    d_type = "s32" if integer else "f32"
    c_type, constraint = ("int", "r") if integer else ("float", "f")
    count = n // 2
    listed = ", ".join(f"%{i}" for i in range(count))
    a = "{" + ", ".join(f"%{count + i}" for i in range(regs)) + "}" if a_registers else f"%{count}"
    used = regs if a_registers else 1
    b, scale = f"%{count + used}", f"%{count + used + 1}"
    tail = "" if integer else f", {signs[0]}, {signs[1]}"
    if kind in ("bf16", "f16"):
        tail += f", {trans[1]}" if a_registers else f", {trans[0]}, {trans[1]}"
    outs = ", ".join(f'"+{constraint}"(d[{i}])' for i in range(count))
    ins = ", ".join(f'"r"(ra[{i}])' for i in range(regs)) if a_registers else '"l"(da)'
    return f"""
    extern "C" __global__ void __launch_bounds__(128) k(const uint4* a, const uint4* b, const unsigned* fragments, {c_type}* out,
                                                       unsigned long long da0, unsigned long long db0, int accumulate, int start) {{
        extern __shared__ __align__(1024) unsigned char s[];
        int t = threadIdx.x;
        for (int i = t; i < 2048; i += 128) {{ ((uint4*)s)[i] = a[i]; ((uint4*)(s + 32768))[i] = b[i]; }}
        fence_proxy_async_shared_cta();
        __syncthreads();
        {c_type} d[{count}];
        for (int i = 0; i < {count}; i++) d[i] = start;
        unsigned ra[{max(regs, 1)}];
        for (int i = 0; i < {regs}; i++) ra[i] = fragments[i * 128 + t];
        unsigned long long da = da0 | (shared_address(s) >> 4), db = db0 | (shared_address(s + 32768) >> 4);
        wgmma_fence();
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, {scale}, 0;\\n"
            "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d_type}.{kind}.{other} {{{listed}}}, {a}, {b}, p{tail}; }}"
            : {outs} : {ins}, "l"(db), "r"(accumulate) : "memory");
        wgmma_commit_group();
        wgmma_wait_group<0>();
        for (int i = 0; i < {count}; i++) out[i * 128 + t] = d[i];
    }}"""


def a_fragment(a):
    """The A registers of 128 threads for a (64, k) matrix: uint32 (registers, 128). PTX ISA 9.7.15.5.1."""
    es = a.itemsize
    per = 4 // es                                        # elements a register
    out = np.zeros((4, 128, per), a.dtype)
    for t in range(128):
        w, g, q = t // 32, t % 32 // 4, t % 4
        for r in range(4):
            for e in range(per):
                out[r, t, e] = a[16 * w + g + 8 * (r & 1), per * q + e + 4 * per * (r >> 1)]
    return out.view(np.uint32)[:, :, 0]


def tile(out, n):
    """(64, n) matrix from the D registers: reg i of thread t is row 16w+g+8*(i/2%2), column 8*(i/4)+2q+i%2."""
    result = np.zeros((64, n), out.dtype)
    i, t = np.meshgrid(np.arange(n // 2), np.arange(128), indexing="ij")
    result[16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (t % 4) + i % 2] = out.reshape(n // 2, 128)
    return result


def integers(shape, kind, rng):
    low, high = (0, 7) if kind == "u8" else (-5, 6)
    if kind in ("e4m3", "e5m2"):
        low, high = -3, 4
    return rng.integers(low, high, shape).astype(TYPES[kind])


def multiply(n, kind, other=None, modes=("128B", "128B"), majors="KK", signs=(1, 1), registers=False, accumulate=1, start=0,
             schedule="lazy"):
    other = other or kind
    k, rng = K_OF[kind], np.random.default_rng(n + len(kind))
    a, b = integers((64, k), kind, rng), integers((n, k), other, rng)
    raw_a, la, sa = image(a, modes[0], "K" if majors[0] == "K" else "MN")
    raw_b, lb, sb = image(b, modes[1], "K" if majors[1] == "K" else "MN")
    integer = kind in ("s8", "u8")
    regs = 4 if registers else 0
    source = kernel(n, kind, other, k, [int(m == "M") for m in majors], signs, registers, regs, integer)
    out = np.zeros((n // 2, 128), np.int32 if integer else np.float32)
    fragments = a_fragment(a) if registers else np.zeros((4, 128), np.uint32)
    session = run(source, (raw_a, raw_b, np.ascontiguousarray(fragments), out, np.uint64(descriptor(la, sa, modes[0])),
                           np.uint64(descriptor(lb, sb, modes[1])), np.int32(accumulate), np.int32(start)),
                  block=(128,), shared_mem=65536, schedule=schedule)
    assert not session.hazards, told(session)
    product = a.astype(np.float64) @ b.astype(np.float64).T * signs[0] * signs[1]
    assert (tile(out, n) == product + (start if accumulate else 0)).all()


@pytest.mark.parametrize("n", [8, 16, 24, 64, 128, 200, 256])
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_widths(kind, n):
    multiply(n, kind)


@pytest.mark.parametrize("mode_a", WIDTH)
@pytest.mark.parametrize("mode_b", WIDTH)
def test_every_pair_of_swizzles(mode_a, mode_b):
    multiply(64, "bf16", modes=(mode_a, mode_b))


@pytest.mark.parametrize("mode", WIDTH)
@pytest.mark.parametrize("majors", ["KM", "MK", "MM"])
def test_transposed_operands(majors, mode):
    multiply(64 if mode != "128B" else 128, "f16", modes=(mode, mode), majors=majors)


@pytest.mark.parametrize("kind, other", [("tf32", None), ("e4m3", None), ("e5m2", None), ("e4m3", "e5m2"), ("s8", None), ("u8", None),
                                         ("s8", "u8"), ("u8", "s8")])
@pytest.mark.parametrize("mode", ["none", "32B", "128B"])
def test_other_types(kind, other, mode):
    multiply(32, kind, other, modes=(mode, mode))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", ["bf16", "f16", "tf32", "e4m3", "s8"])
def test_a_from_registers(kind, schedule):
    multiply(64, kind, registers=True, schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("accumulate, start, signs", [(1, 7, (1, 1)), (0, 7, (1, 1)), (1, 3, (-1, 1)), (1, -3, (1, -1)), (0, 5, (-1, -1))])
def test_scales_and_signs(accumulate, start, signs, schedule):
    multiply(40, "bf16", accumulate=accumulate, start=start, signs=signs, schedule=schedule)


PIPELINE = r"""
extern "C" __global__ void __launch_bounds__(128) k(const uint4* x, float* out) {
    extern __shared__ __align__(1024) unsigned char s[];            // 4 tiles of 64x64 bf16, 128B-swizzled
    int t = threadIdx.x;
    for (int i = t; i < 2048; i += 128) ((uint4*)s)[i ^ (i & 0x38) >> 3] = x[i];
    fence_proxy_async_shared_cta();
    __syncthreads();
    float c[32], d[32];
    for (int i = 0; i < 32; i++) { c[i] = 0; d[i] = 0; }
    unsigned base = shared_address(s);
    wgmma_fence();
    for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(c, wgmma_descriptor_128B(base + k * 32), wgmma_descriptor_128B(base + 8192 + k * 32), 1);
    wgmma_commit_group();
    for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(base + 16384 + k * 32), wgmma_descriptor_128B(base + 24576 + k * 32), 1);
    wgmma_commit_group();
    wgmma_wait_group<FIRST>();
    float early = c[5] * 2;                                         // use of c
    if (OVERWRITE) ((uint4*)(s + OVERWRITE - 1))[t] = x[t];         // overwrite
    wgmma_wait_group<0>();
    out[t] = early;
    for (int i = 0; i < 32; i++) { out[128 + i * 128 + t] = c[i]; out[128 + (32 + i) * 128 + t] = d[i]; }
}"""


def pipeline(first, overwrite, schedule):
    rng = np.random.default_rng(8)
    x = rng.integers(-4, 5, (4, 64, 64)).astype(ml_dtypes.bfloat16)
    out = np.zeros((65, 128), np.float32)
    session = run(PIPELINE, (x, out), block=(128,), shared_mem=32768, schedule=schedule,
                  options=(f"-DFIRST={first}", f"-DOVERWRITE={overwrite}"))
    y = x.astype(np.float32)
    return out, y[0] @ y[1].T, y[2] @ y[3].T, session


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_groups_in_flight(schedule):
    out, c, d, session = pipeline(1, 0, schedule)
    assert (tile(out[1:33], 64) == c).all() and (tile(out[33:], 64) == d).all() and not session.hazards, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_accumulator_used_too_early(schedule):
    _, _, _, session = pipeline(2, 0, schedule)
    assert kinds(session) == ["register-in-flight"], told(session)
    assert session.hazards[0].where.line in lines_with("// use of c", source=PIPELINE)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("first, overwrite, clean", [(1, 1, True), (1, 8193, True), (1, 16385, False), (0, 16385, True), (0, 24577, True)])
def test_operands_overwritten_between_groups(first, overwrite, clean, schedule):
    _, _, _, session = pipeline(first, overwrite, schedule)
    assert kinds(session) == ([] if clean else ["overwrite-in-flight"]), told(session)
    for h in session.hazards:
        assert h.where.line in lines_with("// overwrite", source=PIPELINE)


@pytest.mark.filterwarnings("ignore:.*C7515")          # ptxas would serialise this one; the values stay the same
def test_accumulators_survive_divergence_and_copies():
    """Branches between issue and wait, and renames of accumulators, change no value and are no use of it."""
    source = r"""
    extern "C" __global__ void __launch_bounds__(128) k(const uint4* x, float* out, int flip) {
        extern __shared__ __align__(1024) unsigned char s[];
        int t = threadIdx.x;
        for (int i = t; i < 1024; i += 128) ((uint4*)s)[i ^ (i & 0x38) >> 3] = x[i];
        fence_proxy_async_shared_cta();
        __syncthreads();
        float a[32], b[32];
        for (int i = 0; i < 32; i++) { a[i] = 1; b[i] = 2; }
        unsigned base = shared_address(s);
        for (int round = 0; round < 3; round++) {
            wgmma_fence();
            if (flip) {
                for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(a, wgmma_descriptor_128B(base + k * 32), wgmma_descriptor_128B(base + 8192 + k * 32), 1);
            } else {
                for (int k = 0; k < 4; k++) wgmma_m64n64k16_bf16(b, wgmma_descriptor_128B(base + k * 32), wgmma_descriptor_128B(base + 8192 + k * 32), 1);
            }
            wgmma_commit_group();
            int noise = t;
            while (noise > 3) noise = noise % 2 ? noise - 3 : noise / 2;        // lanes part and meet again
            wgmma_wait_group<0>();
            flip ^= 1;
            if (noise == 100) out[0] = 0;
        }
        for (int i = 0; i < 32; i++) { out[i * 128 + t] = a[i]; out[(32 + i) * 128 + t] = b[i]; }
    }"""
    rng = np.random.default_rng(9)
    x = rng.integers(-2, 3, (2, 64, 64)).astype(ml_dtypes.bfloat16)
    out = np.zeros((64, 128), np.float32)
    y = x.astype(np.float32)
    p = y[0] @ y[1].T
    for flip, times in ((1, (2, 1)), (0, (1, 2))):
        session = run(source, (x, out, np.int32(flip)), block=(128,), shared_mem=16384)
        assert (tile(out[:32], 64) == 1 + times[0] * p).all() and (tile(out[32:], 64) == 2 + times[1] * p).all()
        assert not session.hazards, told(session)


MEETING = r"""
extern "C" __global__ void __launch_bounds__(256) k(const uint4* x, float* out) {
    extern __shared__ __align__(1024) unsigned char s[];            // A of 2 rounds, then B: 64x64 bf16 each, 128B-swizzled
    __shared__ mbarrier_t go[4], went;
    int t = threadIdx.x;
    for (int i = t; i < 1536; i += 256) ((uint4*)s)[i ^ (i & 0x38) >> 3] = x[i];
    fence_proxy_async_shared_cta();
    if (t == 0) { for (int w = 0; w < 4; w++) mbarrier_init(&go[w], 1); mbarrier_init(&went, 1); }
    __syncthreads();
    unsigned base = shared_address(s);
    if (t >= 128) {
        if (t > 128) return;
        mbarrier_arrive(&go[0]);                                    // warp 0 first
        if (AFTER_FENCE || TOO_LATE) mbarrier_wait_parity(&went, 0);
        for (int w = 1; w < 4; w++) mbarrier_arrive(&go[w]);
        return;
    }
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int round = 0; round < 2; round++) {
        if (round == 0) mbarrier_wait_parity(&go[t / 32], 0);
        wgmma_fence();
        if (AFTER_FENCE && t == 0 && round == 0) mbarrier_arrive(&went);
        for (int k = 0; k < 4; k++)
            wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(base + round * 8192 + k * 32), wgmma_descriptor_128B(base + 16384 + k * 32), 1);
        wgmma_commit_group();
        if (TOO_LATE && t == 0 && round == 0) mbarrier_arrive(&went);
        wgmma_wait_group<1>();
    }
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; i++) out[i * 128 + t] = d[i];
}"""


def meeting(schedule, **choices):
    x = np.random.default_rng(10).integers(-3, 4, (3, 64, 64)).astype(ml_dtypes.bfloat16)
    out = np.zeros((32, 128), np.float32)
    options = tuple(f"-D{name}={choices.get(name, 0)}" for name in ("AFTER_FENCE", "TOO_LATE"))
    session = run(MEETING, (x, out), block=(256,), shared_mem=24576, schedule=schedule, options=options)
    y = x.astype(np.float32)
    return session, (tile(out, 64) == (y[0] + y[1]) @ y[2].T).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("after_fence", [0, 1])
def test_the_warps_of_a_warpgroup_meet_at_their_first_wgmma(after_fence, schedule):
    """A warp passes wgmma.fence alone, and may even then be the one that lets the others come."""
    session, right = meeting(schedule, AFTER_FENCE=after_fence)
    assert not session.hazards, told(session)
    assert right


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warp_cannot_run_a_wgmma_before_the_others_come(schedule):
    """The same kernel hangs an H200: warp 0 waits in its first wgmma, the others for an arrival that follows it."""
    session, _ = meeting(schedule, TOO_LATE=1)
    assert kinds(session) == ["deadlock"], told(session)
    assert "threads 0 to 31: waits in wgmma.mma_async" in session.hazards[0].message
    assert "all four run a wgmma together" in session.hazards[0].message
