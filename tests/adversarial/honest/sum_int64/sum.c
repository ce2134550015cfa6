#include <stdint.h>

/* Eight sums side by side. */
void sum_int64_lanes(const int64_t *x, int64_t *out, int64_t n) {
    uint64_t sums[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t lane = 0; lane < 8; lane++) sums[lane] += (uint64_t)x[i + lane];
    for (; i < n; i++) sum += (uint64_t)x[i];
    for (int64_t lane = 0; lane < 8; lane++) sum += sums[lane];
    out[0] = (int64_t)sum;
}
