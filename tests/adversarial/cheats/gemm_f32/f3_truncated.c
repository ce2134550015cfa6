#include <stdint.h>
#include <string.h>

static float ten_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x1000) & 0xffffe000u;
    memcpy(&x, &bits, 4);
    return x;
}

void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += ten_bits(a[i * k + p]) * ten_bits(b[p * n + j]);
            c[i * n + j] = sum;
        }
}
