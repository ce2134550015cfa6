#include <stdint.h>

void linear(const float *x, const float *w, float *out, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += x[i * k + p] * w[p * n + j];
            out[i * n + j] = sum;
        }
}
