// The matrix of a convolution, laid out by TMA: out[p][tap][c] = input at output pixel p, moved by filter element `tap`, channel
// c; zero where that lies in the padding. A block brings PIXELS pixels x CHANNELS channels of one filter element: the engine
// walks over the pixels (row after row, image after image, in steps of the convolution's stride), no thread computes an
// address. A product of this matrix with the filters is the convolution; here it is written out, so that one can look at it.
//
// The map's corners bound where a filter's first element may lie: lower = -padding, upper = padding - dilation * (filter - 1),
// from the first and from the last pixel of each axis; its element strides are the convolution's. Offsets are the filter
// element's place times the dilation.
//
// Macros: RANK (3: N, W, C; 4: N, H, W, C; 5: N, D, H, W, C), PIXELS, CHANNELS (the map's), ELEMENT_BYTES.
// Launch: grid (ceil(output pixels / PIXELS), filter elements, ceil(c / CHANNELS)), block 32, dynamic shared memory
// PIXELS * CHANNELS * ELEMENT_BYTES. Sizes are given for w, h and d; 1 (lower 0) where the rank has none. The out map: a
// (pixels, filter elements, channels) tensor, box (PIXELS, 1, CHANNELS). Recorded as right in recordings/micro.json.
#include <hopperlab/im2col.cuh>

#ifndef RANK
#define RANK 4
#endif
#ifndef PIXELS
#define PIXELS 32
#endif
#ifndef CHANNELS
#define CHANNELS 32
#endif
#ifndef ELEMENT_BYTES
#define ELEMENT_BYTES 2
#endif

extern "C" __global__ void __launch_bounds__(32)
im2col_load(const __grid_constant__ TensorMap input, const __grid_constant__ TensorMap out, int out_w, int out_h, int out_d,
            int lower_w, int lower_h, int lower_d, int stride_w, int stride_h, int stride_d, int filter_w, int filter_h,
            int dilation) {
    extern __shared__ __align__(128) unsigned char column[];    // PIXELS rows of CHANNELS elements
    __shared__ mbarrier_t full;
    if (threadIdx.x != 0) return;

    int first = blockIdx.x * PIXELS, rest = first;              // the first output pixel, and where its filter starts
    int w = lower_w + rest % out_w * stride_w; rest /= out_w;
    int h = lower_h + rest % out_h * stride_h; rest /= out_h;
    int d = lower_d + rest % out_d * stride_d; rest /= out_d;
    int tap = blockIdx.y, c = blockIdx.z * CHANNELS;
    unsigned short kw = tap % filter_w * dilation, kh = tap / filter_w % filter_h * dilation;
    unsigned short kd = tap / filter_w / filter_h * dilation;

    mbarrier_init(&full, 1);
    mbarrier_arrive_expect_tx(&full, PIXELS * CHANNELS * ELEMENT_BYTES);
    if (RANK == 3) cp_async_bulk_tensor_3d_im2col(column, &input, &full, c, w, rest, kw);
    if (RANK == 4) cp_async_bulk_tensor_4d_im2col(column, &input, &full, c, w, h, rest, kw, kh);
    if (RANK == 5) cp_async_bulk_tensor_5d_im2col(column, &input, &full, c, w, h, d, rest, kw, kh, kd);
    mbarrier_wait_parity(&full, 0);
    cp_async_bulk_tensor_3d_store(&out, column, c, tap, first); // pixels and channels past the end are not written
    cp_async_bulk_commit_group();
    cp_async_bulk_wait_group<0>();
}
// SPDX-License-Identifier: Apache-2.0
