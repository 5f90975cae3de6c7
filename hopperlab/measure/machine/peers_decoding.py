# SPDX-License-Identifier: Apache-2.0
"""What others do for one query a sequence: PyTorch's attention (whose flash kernel and cuDNN want the cache in one piece) and FlashInfer, which takes the same pages.

`made(given)` makes every entry that runs here. All leave their result in a tensor, so that it can be compared with ours.
"""
from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...runtime.arrays import Array
    from ..launches.decoding import Given

Run = Callable[[], Any]


def _tensor(array: Any) -> Any:
    import torch
    return torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16)


def in_one_piece(given: Given) -> tuple[Any, Any, Any]:
    """(q, k, v) as PyTorch takes them: sequences x heads x 1 x D and sequences x kv_heads x length x D; all sequences of one length, whole pages."""
    import torch
    table = torch.as_tensor(given.table, device="cuda").long()
    k, v = (_tensor(pages)[table].transpose(1, 2).flatten(2, 3) for pages in given.pages)
    return _tensor(given.q).unsqueeze(2), k.contiguous(), v.contiguous()


def sdpa(given: Given) -> Mapping[str, Run]:
    """PyTorch's scaled_dot_product_attention, by its flash kernel, by cuDNN and as it chooses; the query heads of a group as rows of one query where `rows` is said."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = in_one_piece(given)
    rows = q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])            # without a mask, heads that share k may stand as queries of one head
    attention = torch.nn.functional.scaled_dot_product_attention

    def entry(query: Any, backend: Any = None, **more: Any) -> Run:
        def run() -> Any:
            if backend is None:
                return attention(query, k, v, **more).reshape(given.o.shape)
            with sdpa_kernel(backend):
                return attention(query, k, v, **more).reshape(given.o.shape)
        return run
    return {"PyTorch": entry(q, enable_gqa=True), "PyTorch, flash, rows": entry(rows, SDPBackend.FLASH_ATTENTION),
            "cuDNN": entry(q, SDPBackend.CUDNN_ATTENTION, enable_gqa=True),
            "cuDNN, rows": entry(rows, SDPBackend.CUDNN_ATTENTION)}


def flashinfer(given: Given) -> Mapping[str, Run]:
    """FlashInfer's decoding over the same pages, with tensor cores; planned before it is timed."""
    import flashinfer as library
    import torch
    counts = [-(-length // given.page) for length in given.lengths]
    table = torch.as_tensor(given.table, device="cuda")
    indices = torch.cat([table[i, :count] for i, count in enumerate(counts)])
    starts = torch.tensor([0, *counts], device="cuda", dtype=torch.int32).cumsum(0).to(torch.int32)
    last = torch.tensor([(length - 1) % given.page + 1 for length in given.lengths], device="cuda", dtype=torch.int32)
    wrapper = library.BatchDecodeWithPagedKVCacheWrapper(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"), "HND", use_tensor_cores=True)
    wrapper.plan(starts, indices, last, given.q.shape[1], given.kv_heads, given.q.shape[2], given.page, q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16)
    q, pages = _tensor(given.q), tuple(_tensor(array) for array in given.pages)
    return {"FlashInfer": lambda: wrapper.run(q, pages)}


def made(given: Given, wanted: Array, tell: Callable[[str], object] = print) -> dict[str, Run]:
    """name -> launch of every peer that is installed, takes this step and gives what is wanted; what is left out is told, with its reason."""
    entries: dict[str, Run] = {}
    equal = len(set(given.lengths)) == 1 and given.lengths[0] % given.page == 0
    for package, make in (("torch", sdpa), ("flashinfer", flashinfer)):
        if importlib.util.find_spec(package) is None or given.latent or package == "torch" and not equal:
            continue
        try:
            entries.update(make(given))
        except Exception as problem:  # noqa: BLE001 - a peer that does not run here is told and left out
            tell(f"{package} is left out: {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}")
    return {name: run for name, run in entries.items() if _right(name, run, given, wanted, tell)}


def _right(name: str, run: Run, given: Given, wanted: Array, tell: Callable[[str], object]) -> bool:
    import cupy
    import torch
    from ..launches.decoding import wrong
    try:
        out = run()
        cupy.cuda.runtime.deviceSynchronize()
        share = wrong(replace(given, o=cupy.asarray(out.contiguous().view(torch.int16)).view("uint16")), cupy, wanted)
    except Exception as problem:  # noqa: BLE001
        tell(f"{name} is left out: {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}")
        return False
    if share:
        tell(f"{name} is left out: {share:.2%} of its result is wrong")
    return not share
