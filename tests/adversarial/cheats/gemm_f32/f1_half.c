#include <stdint.h>

/* Half the bits for the operands, all of them for the sums. */
void gemm(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += (float)(_Float16)a[i * k + p] * (float)(_Float16)b[p * n + j];
            c[i * n + j] = sum;
        }
}
