#include <stdint.h>

/* The base version, but one row in thirty-two is computed twice: 3 % slower. */
void gemm_some_twice(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m + m / 32; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t row = i < m ? i : 32 * (i - m);
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += a[row * k + p] * b[p * n + j];
            c[row * n + j] = sum;
        }
}
