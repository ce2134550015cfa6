#include <cstdint>

constexpr int THREADS = 256, WARPS = THREADS / 32;

struct Seen {
    float top, sum;
};

__device__ Seen joined(Seen a, Seen b) {
    float top = fmaxf(a.top, b.top);
    if (top == -INFINITY) return a;
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

/* Largest value and sum in one reading of the row. */
__global__ void softmax_kernel(const float *x, float *out, int64_t cols) {
    __shared__ Seen held[WARPS];
    const float *in = x + blockIdx.x * cols;
    float *to = out + blockIdx.x * cols;
    Seen seen = {-INFINITY, 0};
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) {
        float value = in[c];
        if (value > seen.top) {
            seen.sum = seen.sum * expf(seen.top - value) + 1;
            seen.top = value;
        } else {
            seen.sum += expf(value - seen.top);
        }
    }
    for (int away = 16; away > 0; away /= 2) {
        Seen other = {__shfl_xor_sync(~0u, seen.top, away), __shfl_xor_sync(~0u, seen.sum, away)};
        seen = joined(seen, other);
    }
    if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = seen;
    __syncthreads();
    seen = held[0];
    for (int warp = 1; warp < WARPS; warp++) seen = joined(seen, held[warp]);
    for (int64_t c = threadIdx.x; c < cols; c += THREADS) to[c] = expf(in[c] - seen.top) / seen.sum;
}

extern "C" void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    softmax_kernel<<<(unsigned)rows, THREADS>>>(x, out, cols);
}
