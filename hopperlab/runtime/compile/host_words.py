# SPDX-License-Identifier: Apache-2.0
"""Which words of a .cu file speak of the host, and which of the device: headers, types, namespaces and macros. host_code.py reads by them."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\\n|\\)*)", re.MULTILINE)
_TORCH_HEADERS = re.compile(r"torch/|ATen/|c10/|pybind11/")
_HOST_HEADERS = re.compile(r"(cublas|cudnn|curand\.h|cusolver|cusparse|cufft|nccl|nvToolsExt|nvtx3/|cuda_profiler_api|torch/|ATen/|c10/|pybind11/|gtest/|gmock/|mpi\.h|"
                           r"omp\.h|unistd\.h|getopt\.h|pthread\.h|dlfcn\.h|sys/|helper_(?!math\.h)|nvml|thrust/)")
_CLASS = re.compile(r"\b(?:struct|class|union|enum)\s+(\w+)\s*[:{]")
_WITH_HALVES = re.compile(r"cublas|cudnn|torch/|ATen/|c10/")
_ALIAS = re.compile(r"^[ \t]*(?:using\s+(\w+)\s*=([^;{}()#]*);|typedef\s([^;{}()#]*);)", re.MULTILINE)
HALVES = re.compile(r"\b(?:__half|half|__nv_bfloat16|nv_bfloat16)2?\b")
_HOST_TYPES = ("string|string_view|vector|map|multimap|unordered_map|set|multiset|unordered_set|unique_ptr|shared_ptr|weak_ptr|function|mutex|thread|ofstream|ifstream|"
               "fstream|ostream|istream|iostream|stringstream|ostringstream|istringstream|deque|list|queue|stack|chrono|future|promise|filesystem|random_device|mt19937|"
               "default_random_engine|cout|cerr|endl|sig_atomic_t|exception|exception_ptr|runtime_error|logic_error|invalid_argument|out_of_range|bad_alloc|system_error|"
               "condition_variable|regex|any|locale|streambuf|FILE")
_LIBRARIES = ("cublas", "hipblas", "cudnn", "curandGenerator", "cusolver", "cusparse", "cufft", "nccl")
_CONTAINERS = ("string", "vector", "map", "unordered_map", "set", "unordered_set", "unique_ptr", "shared_ptr", "deque")
_HOST_NAMESPACES = frozenset("filesystem chrono this_thread testing".split())
_TORCH_NAMESPACES = frozenset("pybind11 torch at c10".split())
NUMBERS = frozenset("Half BFloat16 complex Float8_e4m3fn Float8_e5m2 acc_type opmath_type".split())
"""Types of PyTorch that kernels compute with."""
DEVICE_WORDS = frozenset(("__global__", "__device__", "constexpr", "consteval"))
DEVICE_MACRO = re.compile(r"[A-Z0-9_]*(?:DEVICE|GLOBAL|KERNEL)[A-Z0-9_]*")


@dataclass(frozen=True)
class Known:
    """What all files of a program say together.

    device, host: macros that stand for __device__ or __global__, and for __host__ alone
    host_code:    macros whose whole body is host functions
    instances:    words of the macros that instantiate a template
    types:        names of types that only the host has
    halves:       whether numbers of 16 bits are spoken of
    """

    device: Set[str] = frozenset()
    host: Set[str] = frozenset()
    host_code: Set[str] = frozenset()
    instances: Mapping[str, Set[str]] = field(default_factory=dict)
    types: Set[str] = frozenset()
    halves: bool = False


def of_the_host(header: str) -> bool:
    """Whether an included header, by its name, is a host library's."""
    return _HOST_HEADERS.match(header) is not None


def of_torch(header: str) -> bool:
    """Whether an included header, by its name, is PyTorch's."""
    return _TORCH_HEADERS.match(header) is not None


def bodies_of(texts: Iterable[str]) -> dict[str, set[str]]:
    """What stands behind the names of macros that these texts define, under whatever condition."""
    bodies: dict[str, set[str]] = {}
    for name, body in (pair for text in texts for pair in _DEFINE.findall(text)):
        bodies.setdefault(name, set()).add(body)
    return bodies


def instead_of(header: str) -> str:
    """What nvcc gets by a host library's header besides the library: CUDA's numbers of 16 bits."""
    return "#include <cuda_bf16.h>" if _WITH_HALVES.match(header) else ""


def aliases_of(texts: Sequence[str], torch: bool) -> set[str]:
    """Names that these texts give to types that only the host has, and to nothing else."""
    host: set[str] = set()
    others: set[str] = set()
    use = use_of_host(torch, False)
    for name, of, body in (found for text in texts for found in _ALIAS.findall(text)):
        theirs = use(of or body) and NUMBERS.isdisjoint(re.findall(r"\w+", of or body))
        (host if theirs else others).add(name or (re.findall(r"\w+", body) or [""])[-1])
    return host - others - {name for text in texts for name in _CLASS.findall(text)} if host else host


def device_macros(texts: Iterable[str]) -> set[str]:
    """Macros defined in these texts, under whatever condition, that stand for __device__ or __global__, also through others."""
    return standing_for(bodies_of(texts), DEVICE_WORDS)


def standing_for(bodies: Mapping[str, Set[str]], words: Set[str]) -> set[str]:
    """The macros whose bodies have one of these words, also through others."""
    each = {name: {word for body in found for word in re.findall(r"\w+", body)} for name, found in bodies.items()}
    found: set[str] = set()
    while True:
        more = {name for name, own in each.items() if name not in found and own & (found | words)}
        if not more:
            return found
        found |= more


def namespaces(torch: bool) -> frozenset[str]:
    """Those of the host's libraries. torch: the caller's own headers have PyTorch's."""
    return _HOST_NAMESPACES if torch else _HOST_NAMESPACES | _TORCH_NAMESPACES


@lru_cache
def use_of_host(torch: bool, using_std: bool) -> Callable[[str], bool]:
    """Finds words in a text that only the host has. using_std: std's need no std:: before them. Every choice begins with letters: re looks for these quickly."""
    choices = [rf"std(?<!\wstd)\s*::\s*(?:{_HOST_TYPES})\b", *(rf"{word}(?<!\w{word})\w*" for word in _LIBRARIES)]
    choices += [] if torch else [rf"{word}(?<![\w:]{word})\s*::|::\s*{word}(?<!\w::{word})\s*::" for word in sorted(_TORCH_NAMESPACES)]
    choices += [rf"{word}(?<![\w:.>]{word})" + (r"\b" if word == "string" else r"\s*<") for word in _CONTAINERS] if using_std else []
    pattern = re.compile("|".join(choices))
    return lambda text: pattern.search(text) is not None
