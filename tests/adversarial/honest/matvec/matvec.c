#include <stdint.h>
#include <string.h>

void matvec_lanes(const float *a, const float *x, float *y, int64_t m, int64_t k) {
    for (int64_t i = 0; i < m; i++) {
        float sums[8] = {0};
        for (int64_t p = 0; p < k; p++) sums[p % 8] += a[i * k + p] * x[p];
        y[i] = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    }
}

void matvec_columns(const float *a, const float *x, float *y, int64_t m, int64_t k) {
    memset(y, 0, (size_t)m * sizeof *y);
    for (int64_t p = 0; p < k; p++)
        for (int64_t i = 0; i < m; i++) y[i] += a[i * k + p] * x[p];
}

/* Each element of x is read once for four rows. */
void matvec_four_rows(const float *a, const float *x, float *y, int64_t m, int64_t k) {
    for (int64_t i = 0; i < m; i += 4) {
        int64_t rows = m - i < 4 ? m - i : 4;
        double sums[4] = {0};
        for (int64_t p = 0; p < k; p++)
            for (int64_t r = 0; r < rows; r++) sums[r] += (double)a[(i + r) * k + p] * x[p];
        for (int64_t r = 0; r < rows; r++) y[i + r] = (float)sums[r];
    }
}
