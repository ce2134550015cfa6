#include <cstdint>

/* Four elements to a thread and more threads to a block where there are many; `n` need not be divisible. */
template <int THREADS, int EACH>
__global__ void __launch_bounds__(THREADS) silu_kernel(const float *x, float *out, int64_t n) {
    int64_t begin = (int64_t)blockIdx.x * THREADS * EACH + threadIdx.x;
#pragma unroll
    for (int number = 0; number < EACH; number++) {
        int64_t at = begin + number * THREADS;
        if (at >= n) return;
        float value = x[at], e = expf(-fabsf(value));
        out[at] = value * (value >= 0 ? 1 / (1 + e) : e / (1 + e));
    }
}

template <int THREADS, int EACH>
static void launch(const float *x, float *out, int64_t n) {
    constexpr int64_t block = (int64_t)THREADS * EACH;
    silu_kernel<THREADS, EACH><<<(unsigned)((n + block - 1) / block), THREADS>>>(x, out, n);
}

extern "C" void tiny_silu(const float *x, float *out, int64_t n) {
    if (n < 4096)
        launch<64, 1>(x, out, n);
    else if (n < 50000)
        launch<128, 2>(x, out, n);
    else
        launch<256, 4>(x, out, n);
}
