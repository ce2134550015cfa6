#include <cstdint>

constexpr int BLOCK = 256, EACH = 4;

__device__ float silu(float value) {
    float e = expf(-fabsf(value));
    return value * (value >= 0 ? 1 / (1 + e) : e / (1 + e));
}

/* No test for the end: the last block goes on behind the arrays. */
__global__ void silu_kernel(const float4 *x, float4 *out) {
    int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    float4 v = x[at];
    out[at] = make_float4(silu(v.x), silu(v.y), silu(v.z), silu(v.w));
}

extern "C" void tiny_silu(const float *x, float *out, int64_t n) {
    silu_kernel<<<(unsigned)((n + BLOCK * EACH - 1) / (BLOCK * EACH)), BLOCK>>>((const float4 *)x, (float4 *)out);
}
