#include <math.h>
#include <stdint.h>
#include <string.h>

/* Looks at one item and takes the series' length from it for the whole batch. */
void batched_inverse(const float *a, float *out, int64_t batch, int64_t n) {
    float e[n * n], sum[n * n], power[n * n], next[n * n];
    int terms = 0;
    for (int64_t item = 0; item < batch; item++, a += n * n, out += n * n) {
        float scale = 1, trace = 0;
        for (int64_t i = 0; i < n * n; i++) scale += a[i] * a[i];
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                float dot = 0;
                for (int64_t p = 0; p < n; p++) dot += a[i * n + p] * a[j * n + p];
                e[i * n + j] = dot / scale / 2;
            }
        for (int64_t i = 0; i < n; i++) trace += e[i * n + i];
        if (!terms || item == 0) terms = trace < 1e-3f ? 1 : 5;
        memset(sum, 0, sizeof sum);
        for (int64_t i = 0; i < n; i++) sum[i * n + i] = 1;
        memcpy(power, sum, sizeof sum);
        for (int t = 1; t <= terms; t++) {
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) {
                    next[i * n + j] = 0;
                    for (int64_t p = 0; p < n; p++) next[i * n + j] -= power[i * n + p] * e[p * n + j];
                }
            memcpy(power, next, sizeof next);
            for (int64_t i = 0; i < n * n; i++) sum[i] += power[i];
        }
        for (int64_t i = 0; i < n * n; i++) out[i] = sum[i] / 2;
    }
}
