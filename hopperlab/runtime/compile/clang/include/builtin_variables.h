// threadIdx, blockIdx, blockDim, gridDim, warpSize: special registers behind names. [CUDA C++ Programming Guide 10.4]
#pragma once

#define HL_FIELD(name, register) \
    __declspec(property(get = get_##name)) unsigned name; \
    CUDA_HL unsigned get_##name() { return __nvvm_read_ptx_sreg_##register(); }
#define HL_VARIABLE(type, variable, register, as) \
    struct type { \
        HL_FIELD(x, register##_x) HL_FIELD(y, register##_y) HL_FIELD(z, register##_z) \
        __attribute__((device, always_inline, nodebug)) operator as() const { return as(get_x(), get_y(), get_z()); } \
    }; \
    extern const __attribute__((device, weak)) type variable;

HL_VARIABLE(__hl_thread_index, threadIdx, tid, __hl_uint3)
HL_VARIABLE(__hl_block_index, blockIdx, ctaid, __hl_uint3)
HL_VARIABLE(__hl_block_size, blockDim, ntid, dim3)
HL_VARIABLE(__hl_grid_size, gridDim, nctaid, dim3)
#undef HL_VARIABLE
#undef HL_FIELD
#define warpSize 32
// SPDX-License-Identifier: Apache-2.0
