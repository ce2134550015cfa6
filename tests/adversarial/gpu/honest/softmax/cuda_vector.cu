#include <cstdint>

constexpr int THREADS = 256, WARPS = THREADS / 32;

template <bool LARGEST>
__device__ float over_block(float value) {
    __shared__ float held[WARPS];
    for (int away = 16; away > 0; away /= 2) {
        float other = __shfl_xor_sync(~0u, value, away);
        value = LARGEST ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = value;
    __syncthreads();
    value = held[0];
    for (int warp = 1; warp < WARPS; warp++) value = LARGEST ? fmaxf(value, held[warp]) : value + held[warp];
    __syncthreads();
    return value;
}

/* Four at a time, then what is left over one by one. `cols4` is 0 where rows do not begin at 16 bytes. */
__global__ void softmax_kernel(const float *x, float *out, int64_t cols, int64_t cols4) {
    const float *in = x + blockIdx.x * cols;
    const float4 *in4 = reinterpret_cast<const float4 *>(in);
    float *to = out + blockIdx.x * cols, top = -INFINITY, sum = 0;
    float4 *to4 = reinterpret_cast<float4 *>(to);
    for (int64_t c = threadIdx.x; c < cols4; c += THREADS) {
        float4 v = in4[c];
        top = fmaxf(fmaxf(fmaxf(top, v.x), fmaxf(v.y, v.z)), v.w);
    }
    for (int64_t c = 4 * cols4 + threadIdx.x; c < cols; c += THREADS) top = fmaxf(top, in[c]);
    top = over_block<true>(top);
    for (int64_t c = threadIdx.x; c < cols4; c += THREADS) {
        float4 v = in4[c];
        sum += (expf(v.x - top) + expf(v.y - top)) + (expf(v.z - top) + expf(v.w - top));
    }
    for (int64_t c = 4 * cols4 + threadIdx.x; c < cols; c += THREADS) sum += expf(in[c] - top);
    sum = over_block<false>(sum);
    for (int64_t c = threadIdx.x; c < cols4; c += THREADS) {
        float4 v = in4[c];
        float4 e = make_float4(expf(v.x - top), expf(v.y - top), expf(v.z - top), expf(v.w - top));
        to4[c] = make_float4(e.x / sum, e.y / sum, e.z / sum, e.w / sum);
    }
    for (int64_t c = 4 * cols4 + threadIdx.x; c < cols; c += THREADS) to[c] = expf(in[c] - top) / sum;
}

extern "C" void softmax(const float *x, float *out, int64_t rows, int64_t cols) {
    bool aligned = ((uintptr_t)x | (uintptr_t)out) % 16 == 0 && (cols % 4 == 0 || rows == 1);
    softmax_kernel<<<(unsigned)rows, THREADS>>>(x, out, cols, aligned ? cols / 4 : 0);
}
