# SPDX-License-Identifier: Apache-2.0
"""Lesson 11's measurement: tiles with and without setmaxnreg, by registers/roles.cu, beside cuBLAS."""
from __future__ import annotations

from ..machine import peers
from .fields import beside, facts, tflops, times
from ..launches.roles import Roles, register_roles
from ..launches.operands import normal_bf16
from ..recordings import Record
from .products import best_cublas, check_product
from ..machine.timing import interleaved

CHOICES = {
    "128x256, as at entry": Roles(2, 1, 256, 4, 0, 0), "128x256, 24/240": Roles(2, 1, 256, 4, 24, 240),
    "256x128, as at entry": Roles(2, 2, 128, 4, 0, 0), "256x128, 24/240": Roles(2, 2, 128, 4, 24, 240),
    "384x128, as at entry": Roles(2, 3, 128, 3, 0, 0), "384x128, 120/192": Roles(2, 3, 128, 3, 120, 192),
    "384x128, 24/240": Roles(2, 3, 128, 3, 24, 240), "64x256, one consumer, 40/256": Roles(1, 1, 256, 4, 40, 256),
}


def roles(rounds: int = 9, size: int = 4096) -> list[Record]:
    """Every choice of CHOICES at size³, bf16, random normal operands; the note is its name there."""
    import cupy
    a, b = normal_bf16(cupy, (size, size), 51), normal_bf16(cupy, (size, size), 52)
    c, expected = cupy.empty((size, size), cupy.uint16), cupy.empty((size, size), cupy.uint16)
    peers.cublas(a, b, expected)()
    made = {name: register_roles(a, b, c, choice, strict=False) for name, choice in CHOICES.items()}
    runs = {name: launch.bound() for name, launch in made.items()} | {"cuBLAS": best_cublas(rounds, a, b, c)}
    for name, run in runs.items():
        check_product(name, run, c, expected)
    samples, shape = interleaved(runs, rounds), (size, size, size)
    peer = samples["cuBLAS"]
    return [Record("roles", "cuBLAS" if name == "cuBLAS" else "register_roles", CHOICES[name].options if name in CHOICES else (), shape,
                   "bfloat16", tflops=tflops(shape, sample), **times(sample), **beside(sample, "cuBLAS", peer, tflops(shape, peer)),
                   **facts(made.get(name)), note=name) for name, sample in samples.items()]
