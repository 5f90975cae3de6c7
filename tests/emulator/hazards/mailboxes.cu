// Kernels whose threads talk through volatile and relaxed words. BUG 0 is correct; the lines that a report of BUG n must name at least one of end with Bn.
#define tid() threadIdx.x

// mail_counted: grid 2, block 32
template <int BUG> __global__ void mail_counted(const float* x, float* y, int* z) {
    volatile float* data = y + 2048; volatile int* flag = z; volatile int* ack = z + 64;
    if (tid()) return;
    if (blockIdx.x == 0) {
        for (int i = 0; i < 6; i++) {
            if (BUG != 1) while (*ack < i) {}
            *data = x[i];                                       // B1
            __threadfence();
            *flag = i + 1;
        }
    } else {
        float s = 0;
        for (int i = 0; i < 6; i++) {
            while (*flag < i + 1) {}
            __threadfence();
            s += *data;                                         // B1
            __threadfence();
            *ack = i + 1;
        }
        y[0] = s;
    }
}

// mail_flag_plain: grid 2, block 32
template <int BUG> __global__ void mail_flag_plain(const float* x, float* y, int* z) {
    volatile int* flag = z; float* data = y + 2048;
    if (tid()) return;
    if (blockIdx.x == 0) {
        for (int i = 0; i < 6; i++) {
            if (BUG != 1 && BUG != 2) while (*flag != 0) {}
            if (BUG == 2 && (i & 1)) { while (*flag != 0) {} }
            __threadfence();
            *data = x[i];                                       // B1 B2 B3
            __threadfence();
            *flag = 1;
        }
    } else {
        float s = 0;
        for (int i = 0; i < (BUG == 1 ? 3 : BUG == 2 ? 4 : 6); i++) {
            while (*flag == 0) {}
            __threadfence();
            if (BUG == 3) *flag = 0;
            s += *data;                                         // B1 B2 B3
            __threadfence();
            if (BUG != 3) *flag = 0;
        }
        y[0] = s;
    }
}

// mail_flag_volatile: grid 2, block 32
template <int BUG> __global__ void mail_flag_volatile(const float* x, float* y, int* z) {
    volatile int* flag = z; volatile float* data = y + 2048;
    if (tid()) return;
    if (blockIdx.x == 0) {
        for (int i = 0; i < 6; i++) {
            if (BUG != 1 && BUG != 2) while (*flag != 0) {}
            if (BUG == 2 && (i & 1)) { while (*flag != 0) {} }
            __threadfence();
            *data = x[i];                                       // B1 B2 B3
            __threadfence();
            *flag = 1;
        }
    } else {
        float s = 0;
        for (int i = 0; i < (BUG == 1 ? 3 : BUG == 2 ? 4 : 6); i++) {
            while (*flag == 0) {}
            __threadfence();
            if (BUG == 3) *flag = 0;
            s += *data;                                         // B1 B2 B3
            __threadfence();
            if (BUG != 3) *flag = 0;
        }
        y[0] = s;
    }
}

// mail_shared: grid 1, block 64
template <int BUG> __global__ void mail_shared(const float* x, float* y, int* z) {
    __shared__ volatile int flag; __shared__ volatile float data[32];
    if (tid() == 0) flag = 0;
    __syncthreads();
    int t = tid() & 31;
    if (tid() < 32) {
        for (int i = 0; i < 6; i++) {
            if (BUG != 1) while (flag != 0) {}
            __syncwarp();
            data[t] = x[32 * i + t];                            // B1 B2
            __threadfence_block();
            if (BUG != 2) __syncwarp();
            if (t == 0) flag = 1;
            __syncwarp();
        }
    } else {
        float s = 0;
        for (int i = 0; i < (BUG == 1 ? 3 : BUG == 2 ? 4 : 6); i++) {
            while (flag == 0) {}
            __threadfence_block();
            __syncwarp();
            s += data[31 - t];                                   // B1 B2
            __threadfence_block(); __syncwarp();
            if (t == 0) flag = 0;
            __syncwarp();
        }
        y[t] = s;
    }
}

// mail_one_word: grid 2, block 32
template <int BUG> __global__ void mail_one_word(const float* x, float* y, int* z) {
    volatile int* box = z;
    if (tid()) return;
    if (blockIdx.x == 0) {
        for (int i = 0; i < 6; i++) {
            if (BUG != 1) while (*box != 0) {}
            *box = (int)x[i];                                    // B1
        }
    } else {
        int s = 0;
        for (int i = 0; i < (BUG ? 1 : 6); i++) {
            int v; while ((v = *box) == 0) {}                     // B1
            s += v;
            *box = 0;                                            // B1
        }
        z[1] = s;
    }
}

// tickets: grid 3, block 32
template <int BUG> __global__ void tickets(const float* x, float* y, int* z) {
    __shared__ int got;
    for (;;) {
        if (tid() == 0) {
            if (BUG == 1) { int t = *(volatile int*)z; *(volatile int*)z = t + 1; got = t; }      // B1
            else if (BUG == 2) { int t; asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(t) : "l"(z) : "memory"); asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" :: "l"(z), "r"(t + 1) : "memory"); got = t; }   // B2
            else if (BUG == 3) { got = *z; *z = got + 1; }                                        // B3
            else got = atomicAdd(z, 1);
        }
        __syncthreads();
        int t = got;
        __syncthreads();
        if (t >= 8) break;
        y[32 * t + tid()] = x[32 * t + tid()];
    }
}

// tickets_shared: grid 1, block 128
template <int BUG> __global__ void tickets_shared(const float* x, float* y, int* z) {
    __shared__ int next;
    if (tid() == 0) next = 0;
    __syncthreads();
    for (;;) {
        int t = 0;
        if ((tid() & 31) == 0) {
            if (BUG == 1) { t = *(volatile int*)&next; *(volatile int*)&next = t + 1; }           // B1
            else t = atomicAdd(&next, 1);
        }
        t = __shfl_sync(~0u, t, 0);
        if (t >= 8) break;
        y[32 * t + (tid() & 31)] = x[t];
    }
}

// count_volatile: grid 1, block 128
template <int BUG> __global__ void count_volatile(const float* x, float* y, int* z) {
    __shared__ volatile int count;
    if (tid() == 0) count = 0;
    __syncthreads();
    if (BUG == 1) { if (x[tid()] > 20) count = count + 1; }       // B1
    else if (BUG == 2) { if ((tid() & 31) == 0) count += 1; }    // B2
    else { if (x[tid()] > 20) atomicAdd((int*)&count, 1); }
    __syncthreads();
    if (tid() == 0) z[0] = count;
}

// in_turn: grid 4, block 32
template <int BUG> __global__ void in_turn(const float* x, float* y, int* z) {
    volatile int* turn = z; volatile int* total = z + 32;
    if (tid()) return;
    if (BUG != 1) while (*turn != blockIdx.x) {}
    __threadfence();
    *total = *total + (int)x[blockIdx.x];                         // B1
    __threadfence();
    *turn = *turn + 1;                                            // B1
}

// in_lock: grid 4, block 32
template <int BUG> __global__ void in_lock(const float* x, float* y, int* z) {
    volatile int* total = z + 32;
    if (tid()) return;
    if (BUG != 1) while (atomicCAS(z, 0, 1) != 0) {}
    if (BUG != 2) __threadfence();
    *total = *total + (int)x[blockIdx.x];                         // B1 B3
    if (BUG != 3) __threadfence();
    if (BUG != 1) atomicExch(z, 0);
}

// never_written: grid 1, block 64
template <int BUG> __global__ void never_written(const float* x, float* y, int* z) {
    __shared__ float a[64], b[64]; __shared__ int hits;
    volatile float* va = a; 
    if (tid() == 0) hits = 0;
    __syncthreads();
    va[tid()] = x[tid()];
    if (BUG != 2) atomicAdd(&hits, 1);
    __syncthreads();
    float v = BUG == 1 ? b[63 - tid()] : a[63 - tid()];            // B1
    if (BUG == 3) v = ((volatile float*)b)[tid()];               // B3
    if (BUG == 2) { b[tid() & 31] = 1; __syncthreads(); v = b[32 + (tid() & 31)]; }    // B2
    y[tid()] = v + hits;
}

// seqlock: grid 2, block 32
template <int BUG> __global__ void seqlock(const float* x, float* y, int* z) {
    volatile int* seq = z; volatile float* d = y + 2048;
    if (tid()) return;
    if (blockIdx.x == 0) {
        for (int i = 0; i < 4; i++) {
            *seq = 2 * i + 1; __threadfence();
            d[0] = x[i]; d[1] = x[i];
            __threadfence(); *seq = 2 * i + 2;
        }
    } else {
        float a, b; int s0, s1;
        do { s0 = *seq; __threadfence(); a = d[0]; b = d[1]; __threadfence(); s1 = *seq; } while (s0 != s1 || s0 & 1 || s0 == 0);
        y[0] = a - b;
    }
}

// newest: grid 2, block 32
template <int BUG> __global__ void newest(const float* x, float* y, int* z) {
    volatile float* best = y + 2048; volatile int* stop = z;
    if (tid()) return;
    if (blockIdx.x == 0) { for (int i = 0; i < 6; i++) *best = x[i]; __threadfence(); *stop = 1; }
    else { float last = 0; while (!*stop) { float v = *best; if (v > last) last = v; } __threadfence(); y[0] = *best; }
}

// chain: grid 1, block 128
template <int BUG> __global__ void chain(const float* x, float* y, int* z) {
    __shared__ volatile int ready[4];
    if (tid() < 4) ready[tid()] = 0;
    __syncthreads();
    int w = tid() / 32, t = tid() & 31;
    float v = x[tid()];
    if (w) { while (ready[w - 1] == 0) {} __threadfence_block(); }
    __syncwarp();
    y[tid()] = v + (w ? ((volatile float*)y)[tid() - 32] : 0);
    __threadfence_block(); __syncwarp();
    if (t == 0) ready[w] = 1;
}


// handed_on: grid 4, block 32
template <int BUG> __global__ void handed_on(const float* x, float* y, int* z) {
    volatile int* data = z + 2048; volatile int* flag = z;
    if (tid()) return;
    int b = blockIdx.x, before = 0;
    if (b) {
        while (flag[b - 1] == 0) {}
        __threadfence();
        before = data[b - 1];                                   // B1
    }
    data[b] = before + (int)x[b];                               // B1
    if (BUG != 1) __threadfence();
    flag[b] = 1;
}

// relayed: grid 3, block 32
template <int BUG> __global__ void relayed(const float* x, float* y, int* z) {
    volatile int* word = z;
    if (tid()) return;
    if (blockIdx.x == 0) word[0] = (int)x[6];
    else if (blockIdx.x == 1) while (word[2] == 0) word[1] = word[0];    // whoever polls word[1] decides for it
    else {
        while (word[1] == 0) {}
        word[2] = 1;
    }
}
// SPDX-License-Identifier: Apache-2.0
