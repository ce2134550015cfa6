#include <stdint.h>

static void system_of(const float *a, double *s, int64_t n) {
    double scale = 1;
    for (int64_t i = 0; i < n * n; i++) scale += (double)a[i] * a[i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < n; p++) sum += (double)a[i * n + p] * a[j * n + p];
            s[i * n + j] = sum / scale + (i == j ? 2 : 0);
        }
}

/* Gauss-Jordan; the system is symmetric with eigenvalues in [2, 3], so no pivots are exchanged. */
void batched_inverse(const float *a, float *out, int64_t batch, int64_t n) {
    double s[n * n], r[n * n];
    for (int64_t item = 0; item < batch; item++) {
        system_of(a + item * n * n, s, n);
        for (int64_t i = 0; i < n * n; i++) r[i] = i % (n + 1) == 0;
        for (int64_t p = 0; p < n; p++) {
            double inverse = 1 / s[p * n + p];
            for (int64_t j = 0; j < n; j++) s[p * n + j] *= inverse, r[p * n + j] *= inverse;
            for (int64_t i = 0; i < n; i++) {
                double factor = i == p ? 0 : s[i * n + p];
                for (int64_t j = 0; j < n; j++) s[i * n + j] -= factor * s[p * n + j], r[i * n + j] -= factor * r[p * n + j];
            }
        }
        for (int64_t i = 0; i < n * n; i++) out[item * n * n + i] = (float)r[i];
    }
}
