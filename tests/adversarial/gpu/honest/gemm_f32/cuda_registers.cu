#include <cstdint>

constexpr int TILE = 128, DEPTH = 8, THREADS = 256, EACH = 8;

__device__ float taken(const float *from, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    return row < rows && col < cols ? from[row * cols + col] : 0;
}

/* Each thread holds 8 x 8 sums; two buffers, so that the next tiles are fetched while these are used. */
__global__ void __launch_bounds__(THREADS) gemm_kernel(const float *a, const float *b, float *c, int64_t m, int64_t n,
                                                       int64_t k) {
    __shared__ float left[2][DEPTH][TILE + 4], right[2][DEPTH][TILE];
    int64_t top = (int64_t)blockIdx.y * TILE, side = (int64_t)blockIdx.x * TILE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sums[EACH][EACH] = {}, x[EACH], y[EACH];
    auto fetch = [&](int into, int64_t begin) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
            left[into][at % DEPTH][at / DEPTH] = taken(a, top + at / DEPTH, begin + at % DEPTH, m, k);
            right[into][at / TILE][at % TILE] = taken(b, begin + at / TILE, side + at % TILE, k, n);
        }
    };
    int now = 0;
    fetch(now, 0);
    __syncthreads();
    for (int64_t begin = 0; begin < k; begin += DEPTH, now ^= 1) {
        if (begin + DEPTH < k) fetch(now ^ 1, begin + DEPTH);
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
#pragma unroll
            for (int i = 0; i < EACH; i++) x[i] = left[now][d][ty * EACH + i], y[i] = right[now][d][tx + 16 * i];
#pragma unroll
            for (int i = 0; i < EACH * EACH; i++) sums[i / EACH][i % EACH] += x[i / EACH] * y[i % EACH];
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            int64_t row = top + ty * EACH + i, col = side + tx + 16 * j;
            if (row < m && col < n) c[row * n + col] = sums[i][j];
        }
}

extern "C" void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    dim3 blocks((unsigned)((n + TILE - 1) / TILE), (unsigned)((m + TILE - 1) / TILE));
    gemm_kernel<<<blocks, THREADS>>>(a, b, c, m, n, k);
}
