# SPDX-License-Identifier: Apache-2.0
"""tensormap.replace, cp_fenceproxy, and tensor maps that live in global, constant and parameter memory."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab import emulator
from hopperlab.hopper import tensormap

pytestmark = pytest.mark.emulator_only       # the kernels get the emulator's own images of tensor maps

HEAD = r"""
struct __align__(128) Map { unsigned long long words[16]; };
__device__ void load(const Map* map, float* tile, unsigned long long* bar, int x, int y, int bytes) {
    unsigned s = (unsigned)__cvta_generic_to_shared(tile), b = (unsigned)__cvta_generic_to_shared(bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                     :: "r"(s), "l"(map), "r"(b), "r"(x), "r"(y) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p;\n W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n @!p bra W; }" :: "r"(b) : "memory");
}
"""
EDIT = HEAD + r"""
extern "C" __global__ void kernel(const __grid_constant__ Map start, Map* global, const float* other, float* out) {
    __shared__ __align__(128) Map edited;
    __shared__ __align__(256) float tile[64];
    __shared__ __align__(8) unsigned long long bar;
    int t = threadIdx.x;
    if (t < 16) edited.words[t] = start.words[t];
    __syncwarp();
    unsigned m = (unsigned)__cvta_generic_to_shared(&edited);
    if (t == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(m), "l"(other) : "memory");
        asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;" :: "r"(m) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" :: "r"(m), "r"(12) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" :: "r"(m), "r"(10) : "memory");
        asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" :: "r"(m), "l"(64ull) : "memory");
        asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %1;" :: "r"(m), "r"(8) : "memory");
        asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %1;" :: "r"(m), "r"(8) : "memory");
        asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, %1;" :: "r"(m), "r"(1) : "memory");
        asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;" :: "r"(m) : "memory");
        asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" :: "r"(m) : "memory");
        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 1;" :: "r"(m) : "memory");
        asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" :: "r"(m) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" :: "l"(global), "r"(m) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(global) : "memory");
    load(global, tile, &bar, 8, 4, 256);
    for (int i = t; i < 64; i += 32) out[i] = tile[i];
}"""


def swizzled32(rows):
    """8 rows of 32 bytes as SWIZZLE_32B stores them: the two 16-byte halves of a row change places where row & 4."""
    return np.array([np.roll(r, 4) if k & 4 else r for k, r in enumerate(rows)])


def test_every_field_edited_in_shared_memory_and_published():
    first, other = np.zeros((4, 16), np.float16), np.arange(1, 161, dtype=np.float32).reshape(10, 16)
    copy, out = np.zeros(128, np.uint8), np.zeros((8, 8), np.float32)
    kernel = hl.RawModule(code=EDIT, backend="emulator").get_function("kernel")
    kernel((1,), (32,), (hl.TensorMap.tiled(first, box=(2, 16)), copy, other, out))
    expected = np.zeros((8, 8), np.float32)
    expected[:6, :4] = other[4:10, 8:12]
    assert (out == swizzled32(expected)).all()
    assert tensormap.unpack(copy.tobytes()).global_dim == (12, 10)


def test_edited_in_place_in_global_memory_by_many_blocks():
    source = HEAD + r"""
    extern "C" __global__ void kernel(Map* maps, float* data, float* out) {
        __shared__ __align__(128) float tile[32];
        __shared__ __align__(8) unsigned long long bar;
        Map* mine = maps + blockIdx.x;
        if (threadIdx.x == 0) {
            asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" :: "l"(mine), "l"(data + 64 * blockIdx.x) : "memory");
            asm volatile("tensormap.replace.tile.global_dim.b1024.b32 [%0], 1, %1;" :: "l"(mine), "r"(2 + blockIdx.x) : "memory");
            asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
            asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(mine) : "memory");
        }
        __syncthreads();
        load(mine, tile, &bar, 0, 0, 128);
        out[32 * blockIdx.x + threadIdx.x] = tile[threadIdx.x];
    }"""
    data, out = np.arange(1, 257, dtype=np.float32).reshape(4, 8, 8), np.zeros((4, 4, 8), np.float32)
    one = bytes(hl.TensorMap.tiled(data[0], box=(4, 8)))
    maps = np.frombuffer(one * 4, np.uint8).copy()
    hl.RawModule(code=source, backend="emulator").get_function("kernel")((4,), (32,), (maps, data, out))
    for b in range(4):
        rows = min(4, 2 + b)
        assert (out[b, :rows] == data[b, :rows]).all() and not out[b, rows:].any()


def test_maps_inside_a_parameter_struct_and_in_constant_memory():
    source = HEAD + r"""
    struct Params { int before; Map maps[2]; int after; };
    __constant__ Map fixed[2];
    extern "C" __global__ void kernel(const __grid_constant__ Params p, float* out) {
        __shared__ __align__(128) float tile[32];
        __shared__ __align__(8) unsigned long long bar;
        load(blockIdx.x < 2 ? &p.maps[blockIdx.x] : &fixed[blockIdx.x - 2], tile, &bar, 0, 0, 128);
        out[32 * blockIdx.x + threadIdx.x] = tile[threadIdx.x];
    }"""
    arrays = [np.full((4, 8), k + 1, np.float32) for k in range(4)]
    maps = [bytes(hl.TensorMap.tiled(a, box=(4, 8))) for a in arrays]
    module, out = hl.RawModule(code=source, backend="emulator"), np.zeros((4, 32), np.float32)
    params = bytes(128) + maps[0] + maps[1] + bytes(128)
    fixed = module.program.variables(emulator.memory.default()).arrays["fixed"]
    fixed[:] = np.frombuffer(maps[2] + maps[3], np.uint8)
    module.get_function("kernel")((4,), (32,), (np.frombuffer(params, np.dtype(("V", len(params))))[0], out))
    assert out.tolist() == [[k + 1.0] * 32 for k in range(4)]


@pytest.mark.parametrize("instruction, message", [
    ("tensormap.replace.tile.swizzle_atomicity.global.b1024.b32 [%m], 0;", "sm_100a"), ("tensormap.replace.tile.colour.global.b1024.b32 [%m], 0;", "no such field"),
    ("tensormap.replace.tile.rank.global.b1024.b64 [%m], %m;", "b32"), ("tensormap.replace.tile.box_dim.global.b1024.b32 [%m], 1;", "ordinal"),
    ("tensormap.replace.tile.fill_mode.global.b1024.b32 [%m], %r;", "immediates"), ("tensormap.replace.tile.elemtype.global.b1024.b32 [%m], 40;", "elemtype is 0 to 12"),
    ("tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%m], 4;", "sm_103a")])
def test_forms_that_do_not_exist(instruction, message):
    ptx = f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 p) {{ .reg .b64 %m; .reg .b32 %r; ld.param.u64 %m, [p]; mov.u32 %r, 0; {instruction} ret; }}
"""
    with pytest.raises(emulator.UnsupportedInstruction, match=message):
        hl.RawModule(ptx=ptx, backend="emulator").get_function("kernel")((1,), (1,), (np.zeros(128, np.uint8),))


@pytest.mark.parametrize("instruction", ["tensormap.replace.tile.rank.global.b1024.b32 [%m], 7;"])
def test_values_that_no_map_can_hold(instruction):
    ptx = f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 p) {{ .reg .b64 %m; ld.param.u64 %m, [p]; {instruction} ret; }}
"""
    image = np.frombuffer(bytes(hl.TensorMap.tiled(np.zeros((8, 8), np.float32), box=(4, 4))), np.uint8).copy()
    with pytest.raises(emulator.MemoryFault, match="tensormap.replace"):
        hl.RawModule(ptx=ptx, backend="emulator").get_function("kernel")((1,), (1,), (image,))


FIELDS = ("global_address", "rank", "global_dim 0", "global_dim 1", "global_stride 0", "box_dim 0", "box_dim 1", "element_stride 0", "element_stride 1", "elemtype",
          "interleave_layout", "swizzle_mode", "fill_mode")
VALUES = {"rank": 1, "global_dim 0": 16, "global_dim 1": 10, "global_stride 0": "64ull", "box_dim 0": 8, "box_dim 1": 8, "elemtype": 7, "element_stride 0": 1,
          "element_stride 1": 1}


def from_zeros(fields, start="if (t < 16) edited.words[t] = 0;"):
    """EDIT's kernel, whose map begins with `start` and gets these fields, one after the other."""
    lines = []
    for field in fields:
        name, _, ordinal = field.partition(" ")
        bits = 64 if name in ("global_address", "global_stride") else 32
        value = "%1" if name == "global_address" else str(VALUES.get(field, 0)).removesuffix("ull")
        lines.append(f'asm volatile("tensormap.replace.tile.{name}.shared::cta.b1024.b{bits} [%0], {ordinal + ", " if ordinal else ""}{value};" :: "r"(m), '
                     f'"l"(other) : "memory");')
    before, _, rest = EDIT.partition("    if (t < 16) edited.words[t] = start.words[t];")
    middle, _, after = rest.partition("    if (t == 0) {")
    return before + start + middle + "    if (t == 0) {\n" + "\n".join(lines) + after[after.index("\n    }\n"):]


def launch_from_zeros(fields, **how):
    other, out = np.arange(1, 161, dtype=np.float32).reshape(10, 16), np.zeros((8, 8), np.float32)
    kernel = hl.RawModule(code=from_zeros(fields, **how), backend="emulator").get_function("kernel")
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (32,), (hl.TensorMap.tiled(other, box=(2, 16)), np.zeros(128, np.uint8), other, out))
    return run, out, other


@pytest.mark.parametrize("order", (1, -1))
def test_a_map_that_begins_as_zeros_and_gets_every_field(order):
    """As Triton's tl.make_tensor_descriptor makes its maps; recorded on an H100."""
    run, out, other = launch_from_zeros(FIELDS[::order])
    expected = np.zeros((8, 8), np.float32)
    expected[:6] = other[4:10, 8:16]
    assert not run.hazards and not run.warnings and (out == expected).all()


@pytest.mark.parametrize("field", FIELDS)
def test_what_is_unset_when_the_map_is_used_is_named(field):
    run, out, _ = launch_from_zeros([f for f in FIELDS if f != field])
    found, = run.hazards
    assert found.kind == "illegal-descriptor" and f"has not set {field}:" in found.message and "cp.async.bulk.tensor" in found.message
    assert not out.any()


def test_ranks_need_their_own_dimensions_and_the_rest_may_stay_unset():
    image = bytes(128)
    for field in FIELDS:
        name, _, ordinal = field.partition(" ")
        image = tensormap.replace(image, name, int(ordinal) if ordinal else None, 16 if name == "global_address" else int(str(VALUES.get(field, 0)).removesuffix("ull")))
    fields = tensormap.unpack(image)
    assert fields.rank == 2 and fields.box_dim == (8, 8) and fields.global_dim == (16, 10) and fields.dtype == "float32"
    with pytest.raises(tensormap.TensorMapError, match="has not set box_dim 2, global_dim 2, global_stride 1, element_stride 2"):
        tensormap.unpack(tensormap.replace(image, "rank", None, 2))
    one = tensormap.replace(image, "rank", None, 0)
    assert tensormap.unpack(one).global_strides == () and tensormap.unpack(tensormap.replace(one, "global_stride", 3, 32)).rank == 1
    with pytest.raises(tensormap.TensorMapError, match="has not set rank, elemtype"):
        tensormap.unpack(tensormap.replace(bytes(128), "global_address", None, 64))
    for broken in (b"", bytes(64), bytes(127) + b"1"):
        with pytest.raises(tensormap.TensorMapError):
            tensormap.replace(broken, "rank", None, 1)


def test_a_map_made_in_shared_memory_that_nobody_cleared():
    """Its other bytes are leftovers: zeros here, anything on a GPU."""
    run, _, _ = launch_from_zeros(FIELDS, start="")
    assert [h.kind for h in run.hazards] == ["uninitialised-read"] and "tensormap.replace" in run.hazards[0].message


def test_half_of_a_map_is_no_map():
    run, _, _ = launch_from_zeros(FIELDS, start="if (t < 8) edited.words[t] = start.words[t]; else if (t < 16) edited.words[t] = 0;")
    assert [h.kind for h in run.hazards] == ["illegal-descriptor"] and "partly overwritten" in run.hazards[0].message
