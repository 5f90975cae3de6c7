# SPDX-License-Identifier: Apache-2.0
"""Small kernels on streams, for tests: a producer and a consumer, how the one is made to wait for the other, and what a session found."""
import hopperlab as hl
import numpy as np

SCHEDULES = ("lazy", "eager", "random")
N = 256
xp = hl.array_module("emulator")

TWO = r"""
extern "C" __global__ void produce(float* y) { int i = blockIdx.x * 128 + threadIdx.x; y[i] = i + 1; }              // WRITE
extern "C" __global__ void consume(const float* y, float* z) { int i = blockIdx.x * 128 + threadIdx.x; z[i] = 2 * y[(i + 7) % 256]; }   // READ
extern "C" __global__ void produce_bulk(float* y) {
    __shared__ __align__(16) float tile[128];
    tile[threadIdx.x] = blockIdx.x * 128 + threadIdx.x + 1;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                     :: "l"(y + blockIdx.x * 128), "r"((unsigned)__cvta_generic_to_shared(tile)) : "memory");
    }
}
extern "C" __global__ void consume_bulk(const float* y, float* z) {
    __shared__ __align__(16) float tile[128];
    __shared__ unsigned long long full;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\n mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                     :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(y + blockIdx.x * 128), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }" :: "r"(bar) : "memory");
    z[blockIdx.x * 128 + threadIdx.x] = 2 * tile[threadIdx.x];
}
"""


def stream(**more):
    return hl.Stream(backend="emulator", **more)


def kernels(source=TWO, *options):
    module = hl.RawModule(code=source, options=options, backend="emulator")
    return [module.get_function(name) for name in module.kernel_names]


def found(run):
    """What a session found, as (kind, case), each once."""
    return sorted({(str(h.kind), h.case) for h in run.hazards})


def line(source, text):
    return next(k for k, row in enumerate(source.splitlines(), 1) if text in row)


def zeros(*shape, dtype=np.float32):
    return xp.zeros(shape or N, dtype)


def after_event(a, b):
    b.wait_event(a.record())


def after_host(a, b):
    a.synchronize()


def after_device(a, b):
    hl.synchronize("emulator")


def after_event_on_host(a, b):
    a.record().synchronize()


def early_event(a, b):
    """Recorded before the launch: it stands for nothing."""
    b.wait_event(a.early)


def other_way_round(a, b):
    a.wait_event(b.record())


ORDERED = [after_event, after_host, after_device, after_event_on_host]
UNORDERED = [None, early_event, other_way_round]
