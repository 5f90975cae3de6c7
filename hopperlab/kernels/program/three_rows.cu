// A whole program that uses TMA, in one file that needs nothing of the course: take it away.
//
//     nvcc -arch=sm_90a -o three_rows three_rows.cu && ./three_rows
//
// Each element of a matrix is added to those above and below it; what lies outside the matrix counts as 0. A block takes a tile
// of 32 x 64 elements. Its sums need one row more above and below, so the box has 34 rows and starts one row before the tile:
// at the edges it hangs over, and TMA fills with zeros. Sizes are no multiples of the tile's.
//
// nvcc links the CUDA runtime by itself. cuTensorMapEncodeTiled belongs to the driver's library, libcuda; the runtime is asked for
// its address, so that no -lcuda is needed and the program links where there is no driver.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda.h>           // CUtensorMap and what its fields may be
#include <cuda_runtime.h>

constexpr int TILE_ROWS = 32, TILE_COLUMNS = 64;
constexpr int BOX_ROWS = TILE_ROWS + 2;                     // the row above, the row below
constexpr int THREADS = 128;

// ---- the device's part -------------------------------------------------------------------------------------------------

using mbarrier_t = unsigned long long;

// PTX names shared memory by a 32-bit address in its own window.
__device__ unsigned shared_address(const void* pointer) { return static_cast<unsigned>(__cvta_generic_to_shared(pointer)); }

__device__ void mbarrier_init(mbarrier_t* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ void mbarrier_arrive_expect_tx(mbarrier_t* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ bool mbarrier_try_wait_parity(mbarrier_t* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, complete;\n"
                 "}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return done;
}

// Starts the copy of the box at (column, row) of the map's tensor; its bytes count on the barrier as they land.
__device__ void cp_async_bulk_tensor_2d_load(void* box, const CUtensorMap* map, mbarrier_t* barrier, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(shared_address(box)), "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row) : "memory");
}

// Launch: grid (ceil(columns / 64), ceil(rows / 32)), block 128. The map stays a parameter: TMA reads it where the driver put it.
extern "C" __global__ void __launch_bounds__(THREADS)
three_rows(const __grid_constant__ CUtensorMap source, float* sums, int rows, int columns) {
    __shared__ __align__(128) float box[BOX_ROWS][TILE_COLUMNS];
    __shared__ mbarrier_t full;
    const int row = blockIdx.y * TILE_ROWS, column = blockIdx.x * TILE_COLUMNS;

    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();                                        // nobody asks a barrier that is not initialised
    if (threadIdx.x == 0) {                                 // one thread copies
        mbarrier_arrive_expect_tx(&full, sizeof(box));      // the whole box, what is filled included
        cp_async_bulk_tensor_2d_load(box, &source, &full, column, row - 1);
    }
    while (!mbarrier_try_wait_parity(&full, 0)) {}          // all wait: whoever reads what TMA brought has waited for it

    const int x = threadIdx.x % TILE_COLUMNS;
    for (int y = threadIdx.x / TILE_COLUMNS; y < TILE_ROWS; y += THREADS / TILE_COLUMNS) {
        if (row + y < rows && column + x < columns)         // stores by threads have to look at the edges themselves
            sums[static_cast<size_t>(row + y) * columns + column + x] = box[y][x] + box[y + 1][x] + box[y + 2][x];
    }
}

// ---- the host's part: NVRTC, and with it the emulator, compiles what stands above ---------------------------------------

#ifndef __CUDACC_RTC__

static void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "three_rows: %s: %s\n", what, cudaGetErrorString(status));
    exit(2);
}

// The driver's function of this name, as it is since CUDA 12.0. (Before CUDA 12.5: cudaGetDriverEntryPoint, without the version.)
static void* driver_function(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result;
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
    if (result != cudaDriverEntryPointSuccess) {
        fprintf(stderr, "three_rows: the driver has no %s: it is older than CUDA 12.0\n", name);
        exit(2);
    }
    return found;
}

// A map of a row-major matrix of floats at `matrix` in GPU memory. Innermost dimension first: columns, then rows.
static CUtensorMap make_map(float* matrix, int rows, int columns) {
    using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    auto encode = reinterpret_cast<Encode>(driver_function("cuTensorMapEncodeTiled"));
    const cuuint64_t extent[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t pitch[1] = {columns * sizeof(float)};  // bytes from row to row, a multiple of 16; none for the innermost
    const cuuint32_t box[2] = {TILE_COLUMNS, BOX_ROWS};
    const cuuint32_t every[2] = {1, 1};
    CUtensorMap map;
    CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, matrix, extent, pitch, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                             CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        fprintf(stderr, "three_rows: cuTensorMapEncodeTiled refuses the map (CUresult %d)\n", static_cast<int>(status));
        exit(2);
    }
    return map;
}

int main() {
    const int rows = 1000, columns = 520;                   // a row is 2080 bytes, a multiple of 16
    const size_t bytes = sizeof(float) * rows * columns;
    std::vector<float> x(rows * columns), sums(rows * columns);
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 1021);      // small whole numbers: every sum is exact

    float *x_gpu, *sums_gpu;
    check(cudaMalloc(&x_gpu, bytes), "cudaMalloc");
    check(cudaMalloc(&sums_gpu, bytes), "cudaMalloc");
    check(cudaMemcpy(x_gpu, x.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");

    CUtensorMap map = make_map(x_gpu, rows, columns);
    dim3 grid((columns + TILE_COLUMNS - 1) / TILE_COLUMNS, (rows + TILE_ROWS - 1) / TILE_ROWS);
    three_rows<<<grid, THREADS>>>(map, sums_gpu, rows, columns);
    check(cudaGetLastError(), "the launch");                // what the launch itself refuses, such as another GPU's code
    check(cudaMemcpy(sums.data(), sums_gpu, bytes, cudaMemcpyDeviceToHost), "the kernel");      // waits, so it tells what happened inside

    size_t wrong = 0;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) {
            float above = r > 0 ? x[(r - 1) * columns + c] : 0, below = r + 1 < rows ? x[(r + 1) * columns + c] : 0;
            wrong += sums[r * columns + c] != above + x[r * columns + c] + below;
        }
    }
    printf("%zu of %zu sums are wrong\n", wrong, sums.size());
    check(cudaFree(x_gpu), "cudaFree");
    check(cudaFree(sums_gpu), "cudaFree");
    return wrong != 0;
}

#endif
// SPDX-License-Identifier: Apache-2.0
