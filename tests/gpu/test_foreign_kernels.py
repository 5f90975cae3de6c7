# SPDX-License-Identifier: Apache-2.0
"""The kernels of tests/emulator/hazards/foreign on the GPU: what the emulator calls clean gives the right values there too."""
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from support import hazard_cases

import hopperlab as hl

ROOM = Path(__file__).parents[1] / "emulator" / "hazards" / "foreign"
spec = importlib.util.spec_from_file_location("foreign_kernels", ROOM / "test_foreign.py")
foreign = importlib.util.module_from_spec(spec)
spec.loader.exec_module(foreign)


def on_gpu(cupy, kernel):
    """(arguments, arrays on the GPU, their host dtypes) as hazard_cases.arguments makes them on the host."""
    values, arrays, dtypes = [], [], []
    for word, value in zip(kernel.args, hazard_cases.arguments(kernel)[0], strict=True):
        if word.startswith("int:"):
            values.append(value)
            continue
        host = value.array if isinstance(value, hl.TensorMap) else value
        bits = host.view(np.uint16) if host.dtype.name == "bfloat16" else host
        arrays.append(cupy.asarray(bits))
        dtypes.append(host.dtype)
        if isinstance(value, hl.TensorMap):
            _, dtype, _, box, swizzle = word.split(":")
            values.append(hl.TensorMap.tiled(arrays[-1], box=tuple(int(n) for n in box.split("x")), swizzle=swizzle,
                                            dtype="bfloat16" if dtype == "bf16" else None))
        else:
            values.append(arrays[-1])
    return values, arrays, dtypes


@pytest.mark.parametrize("kernel", foreign.KERNELS, ids=lambda k: k.name)
def test_it_gives_the_right_values(cupy, kernel):
    prelude = "" if "plain" in kernel.flags else foreign.COMMON
    text = "\n".join(line.replace("//~", "//") for line in kernel.lines)
    entry = hl.RawModule(code=f'{prelude}#line 1 "{kernel.name}.cu"\n{text}\n', backend="gpu", name="common.cuh").get_function("k")
    for _ in range(20):
        values, arrays, dtypes = on_gpu(cupy, kernel)
        entry((kernel.launch.get("grid", 1),), (kernel.launch["block"],), values, shared_mem=kernel.launch.get("shared", 0))
        hl.synchronize("gpu")
        host = [cupy.asnumpy(array).view(dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
        for check in kernel.checks:
            assert eval(check, {"np": np, "a": host}), check
