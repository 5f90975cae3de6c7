// The step of a model in front of decoding: the key and value of each sequence's newest token go into the cache. Where they begin a page, that page (of
// `fresh`) enters the table. A CTA a sequence; the kernel behind may begin at once, and must wait before it reads the table or the cache.
//
// k, v: sequences x kv_heads x D; lengths: tokens with the new one. Launch: grid sequences, block 128. Macros: D, PAGE.
#include <cuda_bf16.h>
#include <hopperlab/griddepcontrol.cuh>

#ifndef D
#define D 128
#endif
#ifndef PAGE
#define PAGE 64
#endif

extern "C" __global__ void __launch_bounds__(128)
append(const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* k_pages, __nv_bfloat16* v_pages, int* table, const int* lengths, const int* fresh,
       int kv_heads, int table_pitch) {
    griddepcontrol_launch_dependents();
    int sequence = blockIdx.x, token = lengths[sequence] - 1, *entry = table + sequence * table_pitch + token / PAGE;
    int page = token % PAGE == 0 ? fresh[sequence] : *entry;
    __syncthreads();                                            // all have read the entry
    if (threadIdx.x == 0 && token % PAGE == 0) *entry = page;
    for (int i = threadIdx.x; i < kv_heads * D / 8; i += 128) {
        int head = i / (D / 8), chunk = i % (D / 8);
        size_t to = (((size_t)page * kv_heads + head) * PAGE + token % PAGE) * D / 8 + chunk, from = (size_t)sequence * kv_heads * D / 8 + i;
        reinterpret_cast<uint4*>(k_pages)[to] = reinterpret_cast<const uint4*>(k)[from];
        reinterpret_cast<uint4*>(v_pages)[to] = reinterpret_cast<const uint4*>(v)[from];
    }
}
// SPDX-License-Identifier: Apache-2.0
