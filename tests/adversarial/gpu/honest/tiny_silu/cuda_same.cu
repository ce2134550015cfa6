#include <cstdint>

__global__ void silu_kernel(const float *x, float *out, int64_t n) {
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float value = x[at], e = expf(-fabsf(value));
    out[at] = value * (value >= 0 ? 1 / (1 + e) : e / (1 + e));
}

extern "C" void tiny_silu(const float *x, float *out, int64_t n) {
    silu_kernel<<<(unsigned)((n + 255) / 256), 256>>>(x, out, n);
}
