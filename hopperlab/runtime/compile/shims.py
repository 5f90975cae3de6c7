# SPDX-License-Identifier: Apache-2.0
"""Small headers that stand where NVRTC has none, so that sources written for nvcc compile: <cuda.h>, <utility>, <cstdint>, and empty ones for the host's.

NVRTC gets them as text, and only for a source that includes one or needs what nvcc includes by itself. The standard library's are libcu++'s, seen as std::.
"""
from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_STD = ("array atomic bit chrono cmath complex concepts cstddef cstdint cstring functional initializer_list iterator limits memory numeric optional ratio span "
        "tuple type_traits utility variant")
_MACROS = {"climits": "climits", "limits.h": "climits", "stdint.h": "cstdint", "stddef.h": "cstddef"}
_EMPTY = ("algorithm cassert assert.h cerrno errno.h csignal cstdio stdio.h cstdlib stdlib.h string.h cctype ctype.h ctime time.h condition_variable "
          "deque exception execution filesystem format forward_list fstream future iomanip ios iosfwd iostream istream list locale map mutex "
          "new ostream queue random regex set shared_mutex sstream stack stdexcept streambuf string string_view system_error thread typeindex "
          "typeinfo unordered_map unordered_set valarray vector unistd.h sys/time.h sys/types.h getopt.h pthread.h inttypes.h cinttypes "
          "any barrier bitset cfenv charconv clocale codecvt csetjmp cstdarg cstdbool cuchar cwchar cwctype fenv.h latch locale.h memory_resource numbers semaphore "
          "setjmp.h source_location stdarg.h stdbool.h stop_token wchar.h wctype.h alloca.h arpa/inet.h dirent.h dlfcn.h execinfo.h fcntl.h glob.h libgen.h malloc.h "
          "memory.h netdb.h netinet/in.h poll.h sched.h semaphore.h signal.h strings.h sys/file.h sys/ioctl.h sys/mman.h sys/param.h sys/resource.h sys/select.h "
          "sys/socket.h sys/stat.h sys/sysinfo.h sys/un.h sys/utsname.h sys/wait.h syslog.h termios.h windows.h immintrin.h x86intrin.h omp.h mpi.h "
          "GL/gl.h GL/glew.h GL/glut.h GL/freeglut.h cuda_gl_interop.h cuda_occupancy.h nvrtc.h")
_FROM_STD = "#pragma once\n#include <cuda/std/{0}>\nnamespace cuda {{ namespace std {{ }} }}\nnamespace std {{ using namespace ::cuda::std; }}\n"
_CONSTANTS = {"M_E": "2.7182818284590452354", "M_LOG2E": "1.4426950408889634074", "M_LOG10E": "0.43429448190325182765", "M_LN2": "0.69314718055994530942",
              "M_LN10": "2.30258509299404568402", "M_PI": "3.14159265358979323846", "M_PI_2": "1.57079632679489661923", "M_PI_4": "0.78539816339744830962",
              "M_1_PI": "0.31830988618379067154", "M_2_PI": "0.63661977236758134308", "M_2_SQRTPI": "1.12837916709551257390", "M_SQRT2": "1.41421356237309504880",
              "M_SQRT1_2": "0.70710678118654752440", "INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)"}
_CLASSES = ("FP_NAN", "FP_INFINITE", "FP_ZERO", "FP_SUBNORMAL", "FP_NORMAL")
_MATH = ("#pragma once\n#include <cuda/std/cmath>\nnamespace std { using namespace ::cuda::std; }\n"
         + "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in _CONSTANTS.items())
         # libcu++ has these as macros; a source for NVRTC may declare them itself, and nothing else asks for them before it uses them.
         + "#ifndef HOPPERLAB_FLOAT_CLASSES\n" + "".join(f"#undef {name}\n" for name in _CLASSES) + "#endif\n")
_FLOAT_CLASSES = "#pragma once\n#define HOPPERLAB_FLOAT_CLASSES\n#include <cuda/std/cmath>\nusing ::cuda::std::fpclassify;\n"
_FLOAT = """#pragma once
#ifndef FLT_MAX
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_EPSILON 1.19209289550781250000e-7F
#define FLT_MIN 1.17549435082228750797e-38F
#define FLT_MAX 3.40282346638528859812e+38F
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define DBL_EPSILON 2.22044604925031308085e-16
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_MAX 1.79769313486231570815e+308
#endif
"""
_CUB = "#pragma once\n" + "".join(f"#include <cub/{name}.cuh>\n" for name in ("block/block_exchange", "block/block_load", "block/block_radix_sort", "block/block_reduce",
                                                                               "block/block_scan", "block/block_store", "warp/warp_reduce", "warp/warp_scan"))
_ALGORITHM = "#pragma once\n#include <cuda/std/utility>\n#include <cuda/std/__algorithm/min.h>\n#include <cuda/std/__algorithm/max.h>\n" \
             "#include <cuda/std/__algorithm/clamp.h>\nnamespace std { using namespace ::cuda::std; }\n"
_CUDA_H = """#pragma once
#include <cuda/std/cstdint>
typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef enum cudaError_enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 } CUresult;
// 128 bytes that the host's cuTensorMapEncode... writes. [CUDA Driver API, Tensor Map Object Management]
typedef struct
#if __CUDACC_VER_MAJOR__ >= 13
alignas(128)
#else
alignas(64)
#endif
CUtensorMap_st { cuuint64_t opaque[16]; } CUtensorMap;
typedef enum CUtensorMapDataType_enum {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0, CU_TENSOR_MAP_DATA_TYPE_UINT16, CU_TENSOR_MAP_DATA_TYPE_UINT32, CU_TENSOR_MAP_DATA_TYPE_INT32, CU_TENSOR_MAP_DATA_TYPE_UINT64,
    CU_TENSOR_MAP_DATA_TYPE_INT64, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ } CUtensorMapDataType;
typedef enum CUtensorMapInterleave_enum { CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_INTERLEAVE_16B, CU_TENSOR_MAP_INTERLEAVE_32B } CUtensorMapInterleave;
typedef enum CUtensorMapSwizzle_enum { CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_SWIZZLE_128B } CUtensorMapSwizzle;
typedef enum CUtensorMapL2promotion_enum { CU_TENSOR_MAP_L2_PROMOTION_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B } CUtensorMapL2promotion;
typedef enum CUtensorMapFloatOOBfill_enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA } CUtensorMapFloatOOBfill;
"""


def _headers() -> dict[str, str]:
    found = {name: _FROM_STD.format(name) for name in _STD.split()}
    found |= {name: _FROM_STD.format(of) for name, of in _MACROS.items()}
    found |= dict.fromkeys(_EMPTY.split(), "#pragma once\n")
    return found | {"cmath": _MATH, "math.h": _MATH, "algorithm": _ALGORITHM, "cfloat": _FLOAT, "float.h": _FLOAT, "cuda.h": _CUDA_H, "cub/cub.cuh": _CUB,
                    "hopperlab/float_classes.h": _FLOAT_CLASSES,
                    **dict.fromkeys(("driver_functions.h", "channel_descriptor.h"), "#pragma once\n#include <driver_types.h>\n"),
                    "cudaTypedefs.h": "#pragma once\n#include <cuda.h>\n",
                    "sys/types.h": "#pragma once\ntypedef unsigned int uint;\ntypedef unsigned short ushort;\ntypedef unsigned long ulong;\n"}


HEADERS = _headers()
"""Text of each header by the name that it is included by."""
STAMP = hashlib.sha256(repr(sorted(HEADERS.items())).encode()).hexdigest()
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([\w./]+)[>"]', re.MULTILINE)
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined|incomplete type "(\w+)"|namespace "std" has no member "(\w+)"')
_BRINGS = {"cudaGridDependencySynchronize": "cuda_device_runtime_api.h", "cudaTriggerProgrammaticLaunchCompletion": "cuda_device_runtime_api.h",
           **dict.fromkeys(("min", "max", "clamp"), "algorithm"), **dict.fromkeys(("pair", "make_pair", "swap", "index_sequence", "make_index_sequence"), "utility"),
           **dict.fromkeys(("is_same", "is_same_v", "enable_if_t", "conditional_t", "decay_t", "remove_reference_t", "true_type", "false_type",
                            "integral_constant"), "type_traits"),
           **dict.fromkeys(("sqrt", "exp", "log", "pow", "abs", "fabs", "floor", "ceil"), "cmath"), "numeric_limits": "limits", "array": "array",
           "tuple": "tuple", "size_t": "cstddef",
           "uint": "sys/types.h", "ushort": "sys/types.h", "ulong": "sys/types.h",
           "CUtensorMap": "cuda.h", "CUtensorMap_st": "cuda.h", "CUdeviceptr": "cuda.h", **dict.fromkeys(_CONSTANTS, "math.h"),
           **dict.fromkeys((*_CLASSES, "fpclassify"), "hopperlab/float_classes.h"),
           **dict.fromkeys([f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)] + ["intptr_t", "uintptr_t"], "cstdint"),
           **dict.fromkeys(("INT_MAX", "INT_MIN", "UINT_MAX", "LLONG_MAX", "LLONG_MIN", "ULLONG_MAX", "CHAR_BIT"), "climits"),
           **dict.fromkeys(("FLT_MAX", "FLT_MIN", "FLT_EPSILON", "DBL_MAX", "DBL_MIN", "DBL_EPSILON"), "cfloat")}


def wanted(texts: Iterable[str]) -> bool:
    """True when one of the texts includes a header that is here."""
    return any(name in HEADERS for text in texts for name in _INCLUDED.findall(text))


def of_the_host(text: str) -> tuple[tuple[str, str], ...]:
    """(name, text) of the headers that a text includes and that need none of libcu++: the host's, which are empty, and <cuda.h>. For a compiler without libcu++."""
    plain = dict.fromkeys(_EMPTY.split(), "#pragma once\n") | {"cuda.h": _CUDA_H.replace("#include <cuda/std/cstdint>\n", "")}
    return tuple((name, plain[name]) for name in dict.fromkeys(_INCLUDED.findall(text)) if name in plain)


def brought_by_nvcc(log: str) -> list[str]:
    """The headers that would define what a compiler's log calls undefined: nvcc includes them by itself, NVRTC does not."""
    return sorted({_BRINGS[name] for pair in _UNDEFINED.findall(log) for name in pair if name in _BRINGS})
