// The groups that kernels of the course use: block, tiles of a warp, threads that are together, cluster. [CUDA C++ Programming Guide 11]
#pragma once

namespace cooperative_groups {

#define HL_MEMBER __attribute__((device, always_inline, nodebug))

struct thread_block {
    HL_MEMBER void sync() const { __nvvm_barrier_sync(0); }
    HL_MEMBER unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
    HL_MEMBER unsigned num_threads() const { return size(); }
    HL_MEMBER unsigned thread_rank() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
    HL_MEMBER dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    HL_MEMBER dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    HL_MEMBER dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    HL_MEMBER dim3 dim_threads() const { return group_dim(); }
};
CUDA_HL thread_block this_thread_block() { return thread_block(); }

// 1, 2, 4 ... 32 neighbouring lanes of a warp.
template <unsigned Size, typename Parent = void>
struct thread_block_tile {
    HL_MEMBER unsigned lane() const { return this_thread_block().thread_rank() % 32; }
    HL_MEMBER unsigned mask() const { return Size == 32 ? 0xffffffffu : ((1u << Size % 32) - 1) << lane() / Size * Size; }
    HL_MEMBER void sync() const { __syncwarp(mask()); }
    HL_MEMBER static constexpr unsigned size() { return Size; }
    HL_MEMBER static constexpr unsigned num_threads() { return Size; }
    HL_MEMBER unsigned thread_rank() const { return lane() % Size; }
    HL_MEMBER unsigned meta_group_rank() const { return this_thread_block().thread_rank() / Size; }
    HL_MEMBER unsigned meta_group_size() const { return (this_thread_block().size() + Size - 1) / Size; }
    template <typename T> HL_MEMBER T shfl(T v, int rank) const { return __shfl_sync(mask(), v, rank, Size); }
    template <typename T> HL_MEMBER T shfl_up(T v, unsigned by) const { return __shfl_up_sync(mask(), v, by, Size); }
    template <typename T> HL_MEMBER T shfl_down(T v, unsigned by) const { return __shfl_down_sync(mask(), v, by, Size); }
    template <typename T> HL_MEMBER T shfl_xor(T v, int by) const { return __shfl_xor_sync(mask(), v, by, Size); }
    HL_MEMBER int any(int p) const { return __any_sync(mask(), p); }
    HL_MEMBER int all(int p) const { return __all_sync(mask(), p); }
    HL_MEMBER unsigned ballot(int p) const { return __ballot_sync(mask(), p) >> lane() / Size * Size & (Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1); }
};
template <unsigned Size, typename Parent>
CUDA_HL thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return thread_block_tile<Size, Parent>(); }

// The lanes that came here together.
struct coalesced_group {
    unsigned mask;
    HL_MEMBER unsigned below() const { unsigned m; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m)); return m & mask; }
    HL_MEMBER void sync() const { __syncwarp(mask); }
    HL_MEMBER unsigned size() const { return __popc(mask); }
    HL_MEMBER unsigned num_threads() const { return __popc(mask); }
    HL_MEMBER unsigned thread_rank() const { return __popc(below()); }
};
CUDA_HL coalesced_group coalesced_threads() { return coalesced_group{__activemask()}; }

struct cluster_group {
    HL_MEMBER static void barrier_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
    HL_MEMBER static void barrier_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
    HL_MEMBER static void sync() { barrier_arrive(); barrier_wait(); }
    HL_MEMBER static unsigned block_rank() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
    HL_MEMBER static unsigned num_blocks() { unsigned n; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n)); return n; }
    template <typename T>
    HL_MEMBER static T* map_shared_rank(T* p, int rank) {
        T* there;
        asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
        return there;
    }
};
CUDA_HL cluster_group this_cluster() { return cluster_group(); }

struct grid_group {
    HL_MEMBER static unsigned long long size() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * this_thread_block().size(); }
    HL_MEMBER static unsigned long long thread_rank() {
        return ((unsigned long long)(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * this_thread_block().size() + this_thread_block().thread_rank();
    }
};
CUDA_HL grid_group this_grid() { return grid_group(); }
template <typename Group> CUDA_HL void sync(const Group& group) { group.sync(); }
#undef HL_MEMBER

}  // namespace cooperative_groups
// SPDX-License-Identifier: Apache-2.0
