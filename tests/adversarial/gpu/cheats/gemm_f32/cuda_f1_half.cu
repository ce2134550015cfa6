#include <cstdint>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 64, DEPTH = 16, THREADS = 256;

__global__ void gemm_kernel(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    __shared__ __align__(32) half left[TILE][DEPTH + 8], right[DEPTH][TILE + 8];
    __shared__ __align__(32) float made[TILE][TILE + 4];
    int64_t top = (int64_t)blockIdx.y * TILE, side = (int64_t)blockIdx.x * TILE;
    int warp = threadIdx.x / 32, down = warp / 2 * 16, over = warp % 2 * 32;
    wmma::fragment<wmma::matrix_a, 16, 16, DEPTH, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, DEPTH, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, DEPTH, float> sums[2];
    for (auto &one : sums) wmma::fill_fragment(one, 0.f);
    for (int64_t begin = 0; begin < k; begin += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
            int64_t row = top + at / DEPTH, p = begin + at % DEPTH;
            left[at / DEPTH][at % DEPTH] = __float2half(row < m && p < k ? a[row * k + p] : 0);
            int64_t col = side + at % TILE, q = begin + at / TILE;
            right[at / TILE][at % TILE] = __float2half(col < n && q < k ? b[q * n + col] : 0);
        }
        __syncthreads();
        wmma::load_matrix_sync(x, &left[down][0], DEPTH + 8);
        for (int half_tile = 0; half_tile < 2; half_tile++) {
            wmma::load_matrix_sync(y, &right[0][over + 16 * half_tile], TILE + 8);
            wmma::mma_sync(sums[half_tile], x, y, sums[half_tile]);
        }
        __syncthreads();
    }
    for (int half_tile = 0; half_tile < 2; half_tile++)
        wmma::store_matrix_sync(&made[down][over + 16 * half_tile], sums[half_tile], TILE + 4, wmma::mem_row_major);
    __syncthreads();
    for (int at = threadIdx.x; at < TILE * TILE; at += THREADS) {
        int64_t row = top + at / TILE, col = side + at % TILE;
        if (row < m && col < n) c[row * n + col] = made[at / TILE][at % TILE];
    }
}

extern "C" void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    dim3 blocks((unsigned)((n + TILE - 1) / TILE), (unsigned)((m + TILE - 1) / TILE));
    gemm_kernel<<<blocks, THREADS>>>(a, b, c, m, n, k);
}
