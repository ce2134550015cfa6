#include <stdint.h>
#include <string.h>

void bmm_rows(const float *a, const float *b, float *c, int64_t batch, int64_t m, int64_t n, int64_t k) {
    memset(c, 0, (size_t)(batch * m * n) * sizeof *c);
    for (int64_t row = 0; row < batch * m; row++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) c[row * n + j] += a[row * k + p] * b[(row / m * k + p) * n + j];
}

/* One row of sums at a time, beside the output. */
void bmm_local(const float *a, const float *b, float *c, int64_t batch, int64_t m, int64_t n, int64_t k) {
    float sums[n];
    for (int64_t row = 0; row < batch * m; row++, a += k, c += n) {
        const float *right = b + row / m * k * n;
        memset(sums, 0, sizeof sums);
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) sums[j] += a[p] * right[p * n + j];
        memcpy(c, sums, sizeof sums);
    }
}
