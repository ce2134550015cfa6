#include <stdint.h>

void matvec(const float *a, const float *x, float *y, int64_t m, int64_t k) {
    for (int64_t i = 0; i < m; i++) {
        float sum = 0;
        for (int64_t p = 0; p < k; p++) sum += a[i * k + p] * x[p];
        y[i] = sum;
    }
}
