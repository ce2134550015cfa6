#include <cstdint>

constexpr int THREADS = 256, CHUNK = 2048;

static float2 *partial;
static int64_t room;

template <bool LARGEST>
__device__ float over_block(float value) {
    __shared__ float held[THREADS];
    held[threadIdx.x] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float other = held[threadIdx.x + half];
            held[threadIdx.x] = LARGEST ? fmaxf(held[threadIdx.x], other) : held[threadIdx.x] + other;
        }
    }
    __syncthreads();
    float all = held[0];
    __syncthreads();
    return all;
}

/* Several blocks share a row: each leaves the largest value and the sum of its piece. */
__global__ void pieces_kernel(const float *x, float2 *partial, int64_t cols) {
    int64_t begin = (int64_t)blockIdx.x * CHUNK, end = min(begin + CHUNK, cols);
    const float *in = x + blockIdx.y * cols;
    float top = -INFINITY, sum = 0;
    for (int64_t c = begin + threadIdx.x; c < end; c += THREADS) top = fmaxf(top, in[c]);
    top = over_block<true>(top);
    for (int64_t c = begin + threadIdx.x; c < end; c += THREADS) sum += expf(in[c] - top);
    sum = over_block<false>(sum);
    if (threadIdx.x == 0) partial[(int64_t)blockIdx.y * gridDim.x + blockIdx.x] = make_float2(top, sum);
}

__global__ void write_kernel(const float *x, float *out, const float2 *partial, int64_t cols) {
    int64_t begin = (int64_t)blockIdx.x * CHUNK, end = min(begin + CHUNK, cols);
    const float2 *mine = partial + (int64_t)blockIdx.y * gridDim.x;
    float top = -INFINITY, sum = 0;
    for (int piece = 0; piece < gridDim.x; piece++) top = fmaxf(top, mine[piece].x);
    for (int piece = 0; piece < gridDim.x; piece++) sum += mine[piece].y * expf(mine[piece].x - top);
    for (int64_t c = begin + threadIdx.x; c < end; c += THREADS)
        out[blockIdx.y * cols + c] = expf(x[blockIdx.y * cols + c] - top) / sum;
}

extern "C" void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    dim3 blocks((unsigned)((cols + CHUNK - 1) / CHUNK), (unsigned)rows);
    int64_t needed = (int64_t)blocks.x * rows;
    if (needed > room) {
        cudaFree(partial);
        cudaMalloc(&partial, needed * sizeof *partial);
        room = needed;
    }
    pieces_kernel<<<blocks, THREADS>>>(x, partial, cols);
    write_kernel<<<blocks, THREADS>>>(x, out, partial, cols);
}
