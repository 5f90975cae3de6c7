# SPDX-License-Identifier: Apache-2.0
"""Several grids at once, and two devices: the programs of support/grid_programs.py leave the same bytes on GPUs and in the emulator."""
import numpy as np
import pytest

import hopperlab as hl
from support.grid_programs import PROGRAMS


def hopper_gpus() -> int:
    """GPUs of compute capability 9.0 on this machine, of which each reaches the memory of every other."""
    import cupy
    count = cupy.cuda.runtime.getDeviceCount()
    found = [k for k in range(count) if cupy.cuda.Device(k).compute_capability == "90"]
    return len(found) if found == list(range(len(found))) and all(cupy.cuda.runtime.deviceCanAccessPeer(a, b) for a in found[:2] for b in found[:2] if a != b) else 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bytes_in_both_places(cupy, name):
    devices, program = PROGRAMS[name]
    if devices > 1 and hopper_gpus() < devices:
        pytest.skip(f"needs {devices} Hopper GPUs that reach each other's memory")
    for real, emulated in zip(program("gpu"), program("emulator"), strict=True):
        assert real.dtype == emulated.dtype and (real == emulated).all()


def test_streams_overlap_and_events_tell_when_they_have_come(cupy):
    """A grid that awaits a flag is not done, and its stream goes on once the flag is raised on another."""
    source = r"""
    extern "C" __global__ void await(volatile int* flag, int* out) { while (*flag == 0) {} __threadfence(); *out = 5; }
    extern "C" __global__ void raise(volatile int* flag) { __threadfence(); *flag = 1; }"""
    module = hl.RawModule(code=source, backend="gpu")
    kernels = {name: module.get_function(name) for name in ("await", "raise")}
    assert all(kernel.cupy.num_regs > 0 for kernel in kernels.values())             # loaded before one of them runs
    flag, out = cupy.zeros(1, np.int32), cupy.zeros(1, np.int32)
    a, b = hl.Stream(backend="gpu"), hl.Stream(backend="gpu")
    hl.synchronize("gpu")
    kernels["await"]((1,), (1,), (flag, out), stream=a)
    event = a.record()
    assert not event.done and not a.done and b.done
    with b:
        kernels["raise"]((1,), (1,), (flag,))
    event.synchronize()
    a.synchronize()
    assert event.done and a.done and int(out.get()[0]) == 5


def test_a_dependent_launch_may_start_early(cupy):
    """The second grid runs its part before griddepcontrol.wait while the first is still busy: without that, the first would wait for ever."""
    source = r"""
    extern "C" __global__ void first(volatile int* flag, int* out, long long patience) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        long long start = clock64();
        while (*flag == 0 && clock64() - start < patience) {}
        *out = *flag;
    }
    extern "C" __global__ void second(volatile int* flag, const int* out, int* seen) {
        *flag = 1;
        asm volatile("griddepcontrol.wait;" ::: "memory");
        *seen = 10 + *out;
    }"""
    module = hl.RawModule(code=source, backend="gpu")
    first, second = module.get_function("first"), module.get_function("second")
    assert first.cupy.num_regs > 0 and second.cupy.num_regs > 0
    results = {}
    for dependent in (True, False):
        flag, out, seen = (cupy.zeros(1, np.int32) for _ in range(3))
        hl.synchronize("gpu")
        with hl.Stream(backend="gpu") as s:
            first((1,), (1,), (flag, out, np.int64(1 << 27)))
            second((1,), (1,), (flag, out, seen), dependent=dependent)
            s.synchronize()
        results[dependent] = int(out.get()[0]), int(seen.get()[0])
    assert results == {True: (1, 11), False: (0, 10)}


def test_devices_that_this_machine_has_not(cupy):
    count = cupy.cuda.runtime.getDeviceCount()
    if count >= 8:
        pytest.skip("this machine has as many as the emulator")
    with pytest.raises(hl.BackendError, match=f"this machine shows {count} GPU"):
        hl.devices(count + 1, backend="gpu")
