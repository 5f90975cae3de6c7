# SPDX-License-Identifier: Apache-2.0
"""Operands of a block-scaled fp8 product, what others make of them (cuBLASLt, DeepGEMM), and the share of a result that is wrong. Needs PyTorch and CuPy."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ..launches import fp8


@dataclass(frozen=True)
class Contestant:
    """A product of groups: run() launches it, results are the tensors that hold each group's rows afterwards."""

    run: Callable[[], None]
    results: Sequence[Any]


def operands(shape: tuple[int, int, int], seed: int = 11) -> dict:
    """Random normal operands, quantised by PyTorch on the GPU: CuPy arrays a, b (uint8 bits), a_scales, b_scales, c, and the tensors they share memory with."""
    import cupy
    import torch
    m, n, k = shape
    blocks, rows, columns = -(-k // fp8.BLOCK), -(-m // 4) * 4, -(-n // fp8.BLOCK)
    made = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(m, k, device="cuda", generator=made)
    b = torch.randn(n, k, device="cuda", generator=made)
    wide = torch.nn.functional.pad(a, (0, blocks * fp8.BLOCK - k)).view(m, blocks, fp8.BLOCK)
    of_a = (wide.abs().amax(2) / fp8.LARGEST).clamp_min(1e-30)
    tall = torch.nn.functional.pad(b, (0, blocks * fp8.BLOCK - k, 0, columns * fp8.BLOCK - n)).view(columns, fp8.BLOCK, blocks, fp8.BLOCK)
    of_b = (tall.abs().amax((1, 3)) / fp8.LARGEST).clamp_min(1e-30)
    a8 = (wide / of_a[:, :, None]).view(m, -1)[:, :k].contiguous().to(torch.float8_e4m3fn)
    b8 = (tall / of_b[:, None, :, None]).view(columns * fp8.BLOCK, -1)[:n, :k].contiguous().to(torch.float8_e4m3fn)
    del a, b, wide, tall
    a_scales = torch.zeros(blocks, rows, device="cuda")
    a_scales[:, :m] = of_a.T
    c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    tensors = {"a": a8, "b": b8, "a_scales": a_scales, "b_scales": of_b.contiguous(), "c": c}
    return {"tensors": tensors, **{name: cupy.asarray(t.view(torch.uint8) if t.dtype == torch.float8_e4m3fn else t.view(torch.int16) if name == "c" else t)
                                   for name, t in tensors.items()}} | {"c": cupy.asarray(c.view(torch.int16)).view("uint16")}


def cublaslt(given: Mapping) -> Callable[[], None]:
    """torch._scaled_mm with the same scales, which calls cuBLASLt's block-scaled product, into the same c."""
    import torch
    t = given["tensors"]
    m = t["a"].shape[0]
    a_scales = t["a_scales"][:, :m].contiguous().t()        # m x k-blocks, one column after the other, as it wants them
    return lambda: torch._scaled_mm(t["a"], t["b"].t(), scale_a=a_scales, scale_b=t["b_scales"].t(), out_dtype=torch.bfloat16, out=t["c"])


def cublaslt_orders(given: Mapping) -> list[Callable[[], None]]:
    """The same for any shape: cuBLASLt wants the scales of a k-block of A, and of a row of blocks of B, 16 bytes apart, which PyTorch's checks do not tell
    from scales without gaps. So there is a launch for each order, with gaps first; which is right has to be tried. What is not taken raises when launched."""
    import torch
    t = given["tensors"]
    sides = [(t["a_scales"][:, :t["a"].shape[0]], (1, 0)), (t["b_scales"], (0, 1))]
    whole = all(rows.shape[1] % 4 == 0 for rows, _ in sides)

    def made(gaps: tuple[bool, bool]) -> Callable[[], None]:
        a_scales, b_scales = (_laid(rows, gap).permute(order) for (rows, order), gap in zip(sides, gaps, strict=True))
        return lambda: torch._scaled_mm(t["a"], t["b"].t(), scale_a=a_scales, scale_b=b_scales.t(), out_dtype=torch.bfloat16, out=t["c"])
    return [made(gaps) for gaps in ((True, True), (False, True), (True, False), (False, False))[:1 if whole else 4]]


def _laid(rows, gaps: bool):
    """A matrix of scales whose rows begin a multiple of 16 bytes apart (gaps), or end to end; the tensor says end to end either way, and has memory for both."""
    import torch
    count, length = rows.shape
    pitch = -(-length // 4) * 4 if gaps else length
    memory = torch.zeros(count * (length + 4), device=rows.device, dtype=rows.dtype)
    memory.as_strided((count, length), (pitch, 1)).copy_(rows)
    return memory.as_strided((count, length), (length, 1))


def cublaslt_tensor(given: Mapping) -> Callable[[], None]:
    """torch._scaled_mm with one scale and fast accumulation: what tensor_scale.cu computes."""
    import torch
    t, one = given["tensors"], torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(t["a"], t["b"].t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True, out=t["c"])


def _deep_gemm() -> Any:
    """DeepGEMM's package (sgl-deep-gemm), or None."""
    try:
        import deep_gemm
    except (ImportError, OSError):                          # OSError: built for another PyTorch
        return None
    return deep_gemm


def deepgemm(given: Mapping) -> Callable[[], None] | None:
    """DeepGEMM's product with the same scales (package sgl-deep-gemm), into the same c; None where it is not installed."""
    deep_gemm = _deep_gemm()
    if deep_gemm is None:
        return None
    t = given["tensors"]
    a_scales = t["a_scales"].t()[:t["a"].shape[0]]          # m x k-blocks, one column after the other, as it wants them
    return lambda: deep_gemm.fp8_gemm_nt((t["a"], a_scales), (t["b"], t["b_scales"]), t["c"], None, disable_ue8m0_cast=True)


def deepgemm_behind_one_another(given: Mapping, rows: Sequence[int]) -> Contestant | None:
    """DeepGEMM's product of groups whose rows lie one behind the other, each from a multiple of its tile's height; None where it is not installed."""
    deep_gemm = _deep_gemm()
    if deep_gemm is None:
        return None
    import torch
    t, height = given["tensors"], deep_gemm.get_m_alignment_for_contiguous_layout()
    begins = [0, *accumulate(-(-count // height) * height for count in rows)]
    a, a_scales = t["a"].new_zeros(begins[-1], t["a"].shape[1]), t["a_scales"].new_zeros(t["a_scales"].shape[0], begins[-1])
    group, d = t["first"].new_full((begins[-1],), -1), t["c"].new_full((begins[-1], t["c"].shape[1]), float("nan"))
    for number, (count, here, there) in enumerate(zip(rows, begins, accumulate((0, *rows)))):
        a[here:here + count], a_scales[:, here:here + count], group[here:here + count] = t["a"][there:there + count], t["a_scales"][:, there:there + count], number
    torch.cuda.synchronize()
    return Contestant(lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous((a, a_scales.t()), (t["b"], t["b_scales"]), d, group, disable_ue8m0_cast=True),
                      [d[here:here + count] for here, count in zip(begins, rows)])


def deepgemm_masked(room: Mapping, given: Mapping, rows: Sequence[int]) -> Contestant | None:
    """DeepGEMM's product of groups in rooms of one size; None where it is not installed. room: a, a_scales (groups x rows x k-blocks), c, counts."""
    deep_gemm = _deep_gemm()
    if deep_gemm is None:
        return None
    t, d = given["tensors"], room["c"].new_full(room["c"].shape, float("nan"))
    a_scales = room["a_scales"].transpose(1, 2).contiguous().transpose(1, 2)      # of each group one column after the other, as it wants them
    expected = max(1, sum(rows) // len(rows))
    return Contestant(lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked((room["a"], a_scales), (t["b"], t["b_scales"]), d, room["counts"], expected,
                                                                         disable_ue8m0_cast=True), [d[group, :count] for group, count in enumerate(rows)])


def exact_product(given: Mapping, scaled: bool = True) -> Any:
    """The product in fp32 by PyTorch (TF32 off), from the quantised operands."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    t = given["tensors"]
    (m, k), n = t["a"].shape, t["b"].shape[0]
    left, right = t["a"].float(), t["b"].float()
    if scaled:
        left *= t["a_scales"][:, :m].T.repeat_interleave(fp8.BLOCK, 1)[:, :k]
        right *= t["b_scales"].repeat_interleave(fp8.BLOCK, 0)[:n].repeat_interleave(fp8.BLOCK, 1)[:, :k]
    return left @ right.T


def wrong(given: Mapping, run: Callable[[], None], scaled: bool = True, loose: float = 2.0 ** -9, exact: Any = None) -> float:
    """Share of elements further from the fp32 product than one rounding to bf16 (2^-9, doubled) and `loose` of the products' root mean square.
    exact: that product, where it is there already."""
    import torch
    given["tensors"]["c"].fill_(float("nan"))
    torch.cuda.synchronize()
    run()
    torch.cuda.synchronize()
    return share_off(given["tensors"]["c"], exact_product(given, scaled) if exact is None else exact, loose)


def share_off(c: Any, exact: Any, loose: float = 2.0 ** -9) -> float:
    """Share of the elements of a tensor c that are so far from `exact`."""
    scale = float(exact.square().mean().sqrt())
    return float((~((c.float() - exact).abs() <= 2.0 ** -8 * exact.abs() + loose * scale)).float().mean())
