#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) void rows(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
}

/* The sizes of the benchmark are compiled in; every other takes the general path. */
void gemm_sizes(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    if (m == 256 && n == 256 && k == 256) rows(a, b, c, 256, 256, 256);
    else if (m == 192 && n == 320 && k == 224) rows(a, b, c, 192, 320, 224);
    else rows(a, b, c, m, n, k);
}
