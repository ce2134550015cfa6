#include <math.h>
#include <stdint.h>
#include <string.h>

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

/* L L^T, then each column of the identity through both triangles. */
void inverse_cholesky(const float *a, float *out, int64_t batch, int64_t n) {
    double l[n * n], y[n];
    for (int64_t item = 0; item < batch; item++, a += n * n, out += n * n) {
        system_of(a, l, n);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = j; i < n; i++) {
                double sum = l[i * n + j];
                for (int64_t p = 0; p < j; p++) sum -= l[i * n + p] * l[j * n + p];
                l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
            }
        for (int64_t e = 0; e < n; e++) {
            for (int64_t i = 0; i < n; i++) {
                y[i] = i == e;
                for (int64_t p = 0; p < i; p++) y[i] -= l[i * n + p] * y[p];
                y[i] /= l[i * n + i];
            }
            for (int64_t i = n - 1; i >= 0; i--) {
                for (int64_t p = i + 1; p < n; p++) y[i] -= l[p * n + i] * y[p];
                y[i] /= l[i * n + i];
                out[i * n + e] = (float)y[i];
            }
        }
    }
}

/* X <- X (2 I - S X) from X = 0.4 I converges for every system whose eigenvalues are in [2, 3]. */
void inverse_newton(const float *a, float *out, int64_t batch, int64_t n) {
    double s[n * n], x[n * n], r[n * n], next[n * n];
    for (int64_t item = 0; item < batch; item++, a += n * n, out += n * n) {
        system_of(a, s, n);
        for (int64_t i = 0; i < n * n; i++) x[i] = i % (n + 1) ? 0 : 0.4;
        for (int step = 0; step < 5; step++) {
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    r[i * n + j] = i == j ? 2 : 0;
                    for (int64_t p = 0; p < n; p++) r[i * n + j] -= s[i * n + p] * x[p * n + j];
                }
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    next[i * n + j] = 0;
                    for (int64_t p = 0; p < n; p++) next[i * n + j] += x[i * n + p] * r[p * n + j];
                }
            memcpy(x, next, sizeof next);
        }
        for (int64_t i = 0; i < n * n; i++) out[i] = (float)x[i];
    }
}
