#include <cstdint>

constexpr int TILE = 64, DEPTH = 16, THREADS = 256, PARTS = 4;

static float *made;
static int64_t room;

__global__ void gemm_kernel(const float *a, const float *b, float *made, int64_t m, int64_t n, int64_t k,
                            int64_t share) {
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE];
    int64_t top = (int64_t)blockIdx.y * TILE, side = (int64_t)blockIdx.x * TILE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sums[4][4] = {};
    int64_t first = blockIdx.z * share, last = min(first + share, k);
    for (int64_t begin = first; begin < last; begin += DEPTH) {
        for (int at = threadIdx.x; at < TILE * DEPTH; at += THREADS) {
            int64_t row = top + at / DEPTH, p = begin + at % DEPTH;
            left[at % DEPTH][at / DEPTH] = row < m && p < last ? a[row * k + p] : 0;
            int64_t col = side + at % TILE, q = begin + at / TILE;
            right[at / TILE][at % TILE] = col < n && q < last ? b[q * n + col] : 0;
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sums[i][j] += left[d][ty + 16 * i] * right[d][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int64_t row = top + ty + 16 * i, col = side + tx + 16 * j;
            if (row < m && col < n) made[(blockIdx.z * m + row) * n + col] = sums[i][j];
        }
}

__global__ void total_kernel(const float *made, float *c, int64_t count) {
    int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    float sum = 0;
    for (int part = 0; part < PARTS; part++) sum += made[part * count + at];
    c[at] = sum;
}

/* The parts of the sum over k lie in memory that is kept from call to call; none of it is read before it is written. */
extern "C" void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    dim3 blocks((unsigned)((n + TILE - 1) / TILE), (unsigned)((m + TILE - 1) / TILE), PARTS);
    if (m * n > room) {
        cudaFree(made);
        cudaMalloc(&made, PARTS * m * n * sizeof *made);
        room = m * n;
    }
    gemm_kernel<<<blocks, THREADS>>>(a, b, made, m, n, k, (k + PARTS - 1) / PARTS);
    total_kernel<<<(unsigned)((m * n + THREADS - 1) / THREADS), THREADS>>>(made, c, m * n);
}
