# SPDX-License-Identifier: Apache-2.0
"""Lesson 18: what Triton's compiler made of a product, run in the emulator beside ours; and a copy in Gluon that forgets to wait.

The PTX in triton_ptx/ is Triton 3.6's, so that nobody needs Triton here; where it is installed, hl.from_triton makes it anew (docs/your-kernels.md).
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...measure.launches import launch
from ...runtime.tables import text_table

STORED = Path(__file__).with_name("triton_ptx")
SHARED = {"product": 49176, "tma_copy_without_wait": 8200, "product_without_roles": 49176, "product_with_roles": 65632,
          "product_with_roles_128": 90336}              # bytes, as Triton's compiler says
SIZE = (128, 128, 128)                                                  # m, n, k of the product
COUNTED = (("TMA loads", "tma_loads"), ("bytes they bring", "tma_load_bytes"), ("wgmma", "wgmma"), ("bytes stored by TMA", "tma_store_bytes"))
WRITTEN = (("barriers that are initialised", "mbarrier.init"), ("waits on a barrier", "mbarrier.try_wait"), ("loads", "cp.async.bulk.tensor.2d.shared"),
           ("wgmma", "wgmma.mma_async"),
           ("wgmma.wait_group", "wgmma.wait_group"), ("proxy fences", "fence.proxy.async"))


def _kernel(name: str, entry: str) -> Any:
    import hopperlab as hl

    return hl.RawModule(ptx=(STORED / f"{name}.ptx").read_text(), name=f"{name}.ptx", backend="emulator").get_function(entry)


def _descriptor(array: np.ndarray, box: tuple[int, int] = (64, 64)) -> tuple[Any, ...]:
    """A tensor descriptor as Triton passes it: the map, the shape, the strides in elements."""
    import hopperlab as hl

    rows, columns = array.shape
    return hl.TensorMap.tiled(array, box=box, swizzle="128B"), np.int32(rows), np.int32(columns), np.int64(columns), np.int64(1)


def _scratch() -> tuple[np.uint64, np.uint64]:
    return np.uint64(0), np.uint64(0)                                   # for the compiler's own use; these kernels have none


def triton_product() -> tuple[bool, Any, str]:
    """(right, session, PTX) of Triton's product of SIZE, bf16, on tiles of 64 x 64 x 64."""
    import hopperlab as hl
    from ml_dtypes import bfloat16

    m, n, k = SIZE
    random = np.random.default_rng(18)
    a, b = (random.integers(-3, 4, (rows, k)).astype(bfloat16) for rows in (m, n))
    c = np.zeros((m, n), bfloat16)
    kernel = _kernel("product", "product")
    with hl.emulate(hazards="collect") as run:
        kernel((m // 64, n // 64), (128,), (*_descriptor(a), *_descriptor(b), *_descriptor(c), np.int32(k), *_scratch()), shared_mem=SHARED["product"])
    return bool((c == (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)).all()), run, (STORED / "product.ptx").read_text()


def our_product() -> tuple[bool, Any, str]:
    """The same of gemm/tma_wgmma.cu, on one tile of 128 x 128, 64 columns of k at a time, two stages."""
    import hopperlab as hl

    from ...measure.launches.operands import bf16_bits, bf16_values, integer_bf16

    m, n, k = SIZE
    a, b = integer_bf16(np, (m, k), seed=18), integer_bf16(np, (n, k), seed=19)
    c = np.zeros((m, n), np.uint16)
    made = launch.tma_wgmma(a, b, c, stages=2, backend="emulator")
    with hl.emulate(hazards="collect") as run:
        made()
    return bool((c == bf16_bits(bf16_values(a) @ bf16_values(b).T)).all()), run, made.kernel.module.ptx


def products_beside() -> str:
    """Triton's product and ours: what ran (the emulator's counts) and what stands in the PTX (instructions as written)."""
    triton, ours = triton_product(), our_product()
    rows: list[tuple[Any, ...]] = [("right, without a hazard", *(f"{right and not run.hazards}" for right, run, _ in (triton, ours)))]
    rows += [(f"ran: {words}", *(str(run.counters.get(name, 0)) for _, run, _ in (triton, ours))) for words, name in COUNTED]
    rows += [(f"in the PTX: {words}", *(str(text.count(instruction)) for _, _, text in (triton, ours))) for words, instruction in WRITTEN]
    m, n, k = SIZE
    head = (f"{m} x {n} x {k}, bf16", "Triton", "tma_wgmma.cu")
    return "\n".join(text_table("{:42} {:>8} {:>14}", rows, head))


THREADS = {"product_without_roles": 128, "product_with_roles": 384}    # of a CTA, as Triton's compiler says
ROLES = (("barriers that are initialised", "mbarrier.init"), ("waits on a barrier", "mbarrier.try_wait"), ("arrivals on a barrier", "mbarrier.arrive.shared"),
         ("loads", "cp.async.bulk.tensor.2d.shared"), ("wgmma", "wgmma.mma_async"), ("setmaxnreg", "setmaxnreg"))


def triton_with_roles(roles: bool = True) -> tuple[bool, Any, str]:
    """(right, session, PTX) of Triton's product of SIZE on tiles of 64 x 64 x 64, C stored by pointers, with `warp_specialize` or without."""
    import hopperlab as hl
    from ml_dtypes import bfloat16

    m, n, k = SIZE
    name = "product_with_roles" if roles else "product_without_roles"
    random = np.random.default_rng(18)
    a, b = (random.integers(-3, 4, (rows, k)).astype(bfloat16) for rows in (m, n))
    c = np.zeros((m, n), bfloat16)
    kernel = _kernel(name, "product_with_roles")
    with hl.emulate(hazards="collect") as run:
        kernel((m // 64, n // 64), (THREADS[name],), (*_descriptor(a), *_descriptor(b), c, *map(np.int32, SIZE), *_scratch()), shared_mem=SHARED[name])
    return bool((c == (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)).all()), run, (STORED / f"{name}.ptx").read_text()


def roles_on_tall_tile() -> Any:
    """The session of the same with roles on one tile of 128 x 64 and one step of k, which hangs on a GPU: the first of its hazards that says why."""
    import hopperlab as hl
    from ml_dtypes import bfloat16

    a, b, c = (np.ones((rows, 64), bfloat16) for rows in (128, 64, 128))
    kernel = _kernel("product_with_roles_128", "product_with_roles")
    with hl.emulate(hazards="collect") as run:
        kernel((1, 1), (384,), (*_descriptor(a, (128, 64)), *_descriptor(b), c, np.int32(128), np.int32(64), np.int32(64), *_scratch()),
               shared_mem=SHARED["product_with_roles_128"])
    return next(hazard for hazard in run.hazards if "never announced" in str(hazard))


def roles_beside() -> str:
    """Triton's product without roles and with them: what ran, and what stands in the PTX."""
    found = [triton_with_roles(roles) for roles in (False, True)]
    rows: list[tuple[Any, ...]] = [("threads of a CTA", *map(str, THREADS.values())), ("right", *(str(right) for right, _, _ in found)),
                                   ("hazards named", *(str(len(run.hazards)) for _, run, _ in found))]
    rows += [(f"ran: {words}", *(str(run.counters.get(name, 0)) for _, run, _ in found)) for words, name in COUNTED[:3]]
    rows += [(f"in the PTX: {words}", *(str(text.count(instruction)) for _, _, text in found)) for words, instruction in ROLES]
    m, n, k = SIZE
    return "\n".join(text_table("{:42} {:>8} {:>16}", rows, (f"{m} x {n} x {k}, bf16", "as it is", "warp_specialize")))


def recorded_roles(recording: Any) -> str:
    """From the recording `triton_roles`: each product without and with `warp_specialize`, whether it is right, and its speed beside cuBLAS."""
    rows = []
    for kernel, word in (("product", "a tile per program"), ("persistent", "persistent")):
        tiles: dict[tuple[str, str], dict[tuple[str, str], Any]] = {}
        for record in recording.where(kernel=kernel):
            tile, stages, warps, roles = (option.split("=")[1] for option in record.options)
            tiles.setdefault((tile, stages), {})[warps, roles] = record
        for (tile, stages), found in tiles.items():
            rows.append((word, tile, stages, *(_outcome(found.get(key)) for key in (("4", "0"), ("8", "0"), ("4", "1")))))
    head = ("kernel", "tile", "stages", "4 warps", "8 warps", "4 warps, roles asked for")
    return "\n".join([f"{recording.source}; TFLOP/s (of cuBLAS) where the result is right", *text_table("  {:<*}  {:<*}  {:>6}  {:>12}  {:>12}  {}", rows, head)])


def _outcome(record: Any) -> str:
    if record is None:
        return "–"
    return f"{record.tflops:.0f} ({record.ratio:.2f})" if record.outcome == "right" else record.outcome


def gluon_without_wait() -> Any:
    """The session of a Gluon kernel that copies a tile in and out by TMA and does not wait in between; its lines are those of triton_examples.py."""
    import hopperlab as hl

    x, y = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16)
    kernel = _kernel("tma_copy_without_wait", "tma_copy")
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (128,), (*_descriptor(x), *_descriptor(y), *_scratch()), shared_mem=SHARED["tma_copy_without_wait"])
    return run
