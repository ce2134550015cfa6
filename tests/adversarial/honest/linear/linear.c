#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static float *turned;
static const float *turned_from;
static int64_t turned_n, turned_k;

/* The weights are declared constant for the life of the process: they are turned round once for each buffer and size. */
void linear_transposed_once(const float *x, const float *w, float *out, int64_t m, int64_t n, int64_t k) {
    if (turned_from != w || turned_n != n || turned_k != k) {
        turned = realloc(turned, (size_t)(n * k) * sizeof *turned);
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) turned[j * k + p] = w[p * n + j];
        turned_from = w, turned_n = n, turned_k = k;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t p = 0; p < k; p++) sum += x[i * k + p] * turned[j * k + p];
            out[i * n + j] = sum;
        }
}

void linear_rows(const float *x, const float *w, float *out, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++) {
        memset(out + i * n, 0, (size_t)n * sizeof *out);
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) out[i * n + j] += x[i * k + p] * w[p * n + j];
    }
}
