// What a compiler of CUDA C++ knows before the first line: keywords, vector types, built-in variables and functions. [CUDA C++ Programming Guide 10]
// Clang is given this file before every source. Everything is `nodebug`: an instruction that stands here belongs to the line that calls it.
#pragma once

#define __CUDACC__ 1
#define __CUDACC_RTC__ 1                // device code alone, as NVRTC compiles it
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 13000

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __maxnreg__(registers) __attribute__((annotate("hopperlab.maxnreg", registers)))
#define __cluster_dims__(...) __attribute__((annotate("hopperlab.cluster", ##__VA_ARGS__)))
#define __grid_constant__ __attribute__((grid_constant))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define CUDARTAPI
#define CUDA_HL __device__ static __inline__ __attribute__((always_inline, nodebug))      // functions of these headers

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#define NULL nullptr

#include "vector_types.h"
#include "builtin_variables.h"
#include "device_functions.h"
#include "math_functions.h"
#include "atomics.h"

// From here on a function for the device may also be evaluated by the compiler, in the constants of the source.
#pragma clang force_cuda_host_device begin
// SPDX-License-Identifier: Apache-2.0
