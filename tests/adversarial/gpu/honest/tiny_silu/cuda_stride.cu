#include <cstdint>

static int processors;

__device__ float silu(float value) {
    float e = expf(-fabsf(value));
    return value * (value >= 0 ? 1 / (1 + e) : e / (1 + e));
}

__global__ void silu_kernel(const float *x, float *out, int64_t n) {
    int64_t stride = (int64_t)gridDim.x * blockDim.x, at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at < n; at += stride) out[at] = silu(x[at]);
}

extern "C" void tiny_silu(const float *x, float *out, int64_t n) {
    if (!processors) cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    int64_t blocks = (n + 127) / 128, most = 4 * (int64_t)processors;
    silu_kernel<<<(unsigned)(blocks < most ? blocks : most), 128>>>(x, out, n);
}
