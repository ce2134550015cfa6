#include <stdint.h>

/* (A B) 1 = A (B 1): the product is never made. */
void rowsum_folded(const float *a, const float *b, float *out, int64_t m, int64_t n, int64_t k) {
    double folded[k];
    for (int64_t p = 0; p < k; p++) {
        folded[p] = 0;
        for (int64_t j = 0; j < n; j++) folded[p] += b[p * n + j];
    }
    for (int64_t i = 0; i < m; i++) {
        double sum = 0;
        for (int64_t p = 0; p < k; p++) sum += a[i * k + p] * folded[p];
        out[i] = (float)sum;
    }
}
