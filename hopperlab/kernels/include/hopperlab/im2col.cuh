// TMA loads in im2col mode: not a box but a column of pixels, which walk over the bounding box of a filter's element through
// the image, row after row and image after image; `channels` of each. [PTX ISA 5.5.4, 9.7.9.25.5.2] The coordinates are those
// of the first pixel (c, w[, h[, d]], n); the offsets say which element of the filter: each pixel is read that much further.
#pragma once
#include <hopperlab/tma.cuh>

// 3-D: an (N, W, C) tensor. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_3d_im2col(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                               int c, int w, int n, unsigned short offset_w) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2], {%6};"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c), "r"(w), "r"(n), "h"(offset_w) : "memory");
}

// 4-D: an (N, H, W, C) tensor. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_4d_im2col(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                               int c, int w, int h, int n, unsigned short offset_w,
                                                               unsigned short offset_h) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c), "r"(w), "r"(h), "r"(n), "h"(offset_w), "h"(offset_h) : "memory");
}

// 5-D: an (N, D, H, W, C) tensor. [9.7.9.25.5.2]
__device__ __forceinline__ void cp_async_bulk_tensor_5d_im2col(void* shared, const TensorMap* map, mbarrier_t* barrier,
                                                               int c, int w, int h, int d, int n, unsigned short offset_w,
                                                               unsigned short offset_h, unsigned short offset_d) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};"
                 :: "r"(shared_address(shared)), "l"(map), "r"(shared_address(barrier)),
                    "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(offset_w), "h"(offset_h), "h"(offset_d) : "memory");
}
// SPDX-License-Identifier: Apache-2.0
