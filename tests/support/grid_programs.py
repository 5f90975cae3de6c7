# SPDX-License-Identifier: Apache-2.0
"""Programs of several grids that run through the same calls on GPUs and in the emulator, and must leave the same bytes.

PROGRAMS: name -> (devices it needs, function of a place that returns arrays of the host).
"""
import numpy as np

import hopperlab as hl

THREADS, BLOCKS = 128, 8
N = THREADS * BLOCKS

SOURCE = r"""
#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")
#define LAUNCH_DEPENDENTS asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void raise(int* flag) { asm volatile("st.release.sys.u32 [%0], %1;" :: "l"(flag), "r"(1) : "memory"); }
__device__ void await(int* flag) { int v; do asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (v == 0); }

extern "C" __global__ void scale(const float* x, float* y, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + 1;
}
// A step of a chain of dependent launches: what does not depend on the step before comes first.
extern "C" __global__ void step(const float* x, float* y, const float* table) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    LAUNCH_DEPENDENTS;
    float a = table[i % 8];
    WAIT;
    y[i] = a * x[(i + 129) % (gridDim.x * blockDim.x)] + 1;
}
// Two grids side by side: each block of `put` raises a flag when its piece of `data` is there, each block of `take` awaits one of another block.
extern "C" __global__ void put(float* data, int* flags) {
    data[blockIdx.x * blockDim.x + threadIdx.x] = 3 * threadIdx.x + blockIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) raise(&flags[blockIdx.x]);
}
extern "C" __global__ void take(const float* data, int* flags, float* out) {
    int from = gridDim.x - 1 - blockIdx.x;
    if (threadIdx.x == 0) await(&flags[from]);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 2 * data[from * blockDim.x + threadIdx.x];
}
// The same by bulk copies: out of shared memory into the other device's memory, and from there into shared memory.
extern "C" __global__ void push(float* data, int* flags) {
    __shared__ __align__(16) float tile[128];
    tile[threadIdx.x] = 3 * threadIdx.x + blockIdx.x;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;\n cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;"
                     :: "l"(data + blockIdx.x * 128), "r"(shared_address(tile)) : "memory");
        raise(&flags[blockIdx.x]);
    }
}
extern "C" __global__ void pull(const float* data, int* flags, float* out) {
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned long long full;
    int from = gridDim.x - 1 - blockIdx.x;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" :: "r"(shared_address(&full)) : "memory");
        await(&flags[from]);
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(shared_address(&full)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"(shared_address(tile)), "l"(data + from * 128), "r"(shared_address(&full)) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(shared_address(&full)) : "memory");
    out[blockIdx.x * 128 + threadIdx.x] = 2 * tile[threadIdx.x];
}
extern "C" __global__ void count(int* bins) {
    for (int k = 0; k < 16; k++) atomicAdd_system(&bins[(threadIdx.x + k * blockIdx.x) % 32], 1);
}
"""


class Place:
    """One of the two places: its array module, kernels by name (loaded before anything runs: loading waits for grids that run), and streams."""

    def __init__(self, place, devices=1):
        self.name, self.xp = place, hl.array_module(place)
        self.devices = hl.devices(devices, backend=place) if devices > 1 else ()
        self.module = hl.RawModule(code=SOURCE, backend=place)
        for device in self.devices or (None,):
            if place == "gpu":
                self._load(device)

    def _load(self, device):
        import cupy
        with cupy.cuda.Device(device.id if device else None):
            for name in self.module.kernel_names:
                assert self.module.get_function(name).cupy.num_regs > 0

    def launch(self, name, *args, stream=None, dependent=False, blocks=BLOCKS):
        self.module.get_function(name)((blocks,), (THREADS,), args, stream=stream, dependent=dependent)

    def stream(self, number=0):
        if not self.devices:
            return hl.Stream(backend=self.name)
        with self.devices[number]:
            return hl.Stream(backend=self.name)

    def zeros(self, shape=N, dtype=np.float32, number=0):
        if not self.devices:
            return self.xp.zeros(shape, dtype)
        with self.devices[number]:
            return self.xp.zeros(shape, dtype)

    def ready(self):
        """All arrays are there before streams use them, which do not wait for the default stream."""
        for device in self.devices:
            device.synchronize()
        hl.synchronize(self.name)


def event(name):
    """y on one stream, z from y on another that waits for its event, again and again in the same arrays."""
    place = Place(name)
    x, y, z = place.zeros(), place.zeros(), place.zeros()
    a, b = place.stream(), place.stream()
    place.ready()
    for _ in range(4):
        place.launch("scale", x, y, np.float32(2), stream=a)
        b.wait_event(a.record())
        place.launch("scale", y, z, np.float32(0.5), stream=b)
        place.launch("scale", z, x, np.float32(1), stream=b)
        a.wait_event(b.record())
    b.synchronize()
    return [hl.asnumpy(array) for array in (x, y, z)]


def chain(name):
    """Twelve dependent launches on one stream, back and forth between two arrays."""
    place = Place(name)
    arrays, table = [place.zeros(), place.zeros()], place.xp.arange(8, dtype=np.float32) % 3
    place.ready()
    with place.stream() as s:
        for k in range(12):
            place.launch("step", arrays[k % 2], arrays[1 - k % 2], table, dependent=True)
        s.synchronize()
    return [hl.asnumpy(array) for array in arrays]


def side_by_side(name):
    """A grid awaits flags that another raises, which is launched later, on one device."""
    place = Place(name)
    data, flags, out = place.zeros(), place.zeros(BLOCKS, np.int32), place.zeros()
    a, b = place.stream(), place.stream()
    place.ready()
    place.launch("take", data, flags, out, stream=a)
    place.launch("put", data, flags, stream=b)
    a.synchronize()
    b.synchronize()
    return [hl.asnumpy(array) for array in (data, out)]


def _between(writer, reader, home):
    def program(name):
        place = Place(name, 2)
        data, flags, out = place.zeros(number=home), place.zeros(BLOCKS, np.int32, home), place.zeros(number=1)
        a, b = place.stream(0), place.stream(1)
        place.ready()
        place.launch(reader, data, flags, out, stream=b)
        place.launch(writer, data, flags, stream=a)
        b.synchronize()
        a.synchronize()
        return [hl.asnumpy(array) for array in (data, out)]
    program.__doc__ = f"{writer} on device 0, {reader} on device 1, side by side; the data lie on device {home}."
    return program


def peer_event(name):
    """The second device's stream waits for an event of the first, and reads its memory."""
    place = Place(name, 2)
    x, y, z = place.zeros(), place.zeros(), place.zeros(number=1)
    a, b = place.stream(0), place.stream(1)
    place.ready()
    place.launch("scale", x, y, np.float32(2), stream=a)
    b.wait_event(a.record())
    place.launch("scale", y, z, np.float32(3), stream=b)
    b.synchronize()
    return [hl.asnumpy(z)]


def peer_atomics(name):
    """Both devices add to the same words, which lie on the first."""
    place = Place(name, 2)
    bins = place.zeros(32, np.int32)
    streams = [place.stream(number) for number in (0, 1)]
    place.ready()
    for s in streams:
        place.launch("count", bins, stream=s)
    for s in streams:
        s.synchronize()
    return [hl.asnumpy(bins)]


PROGRAMS = {"event": (1, event), "chain": (1, chain), "side by side": (1, side_by_side), "peer event": (2, peer_event), "peer atomics": (2, peer_atomics),
            **{f"{writer} to {reader}, data on {home}": (2, _between(writer, reader, home)) for writer in ("put", "push") for reader in ("take", "pull")
               for home in (0, 1)}}
